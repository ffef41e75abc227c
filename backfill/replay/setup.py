"""What an operator is made from, and what it does."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from backfill.alignment import Assigner, assigner
from backfill.engines import Engine
from backfill.replay.clocks import (
    NEVER,
    BatchWatermark,
    ProcessingTime,
    Standing,
    Throttle,
    WallClock,
    Watermark,
)
from backfill.replay.event import Event
from backfill.replay.folding import Folding
from backfill.replay.output import Output
from backfill.replay.settings import Settings
from backfill.streaming import Streaming
from backfill.windows import EventWindow, SessionWindow, Window


@dataclass(frozen=True, kw_only=True)
class Setup:
    """One replay.

    Attributes:
        window: what is computed.
        engine: the engine whose rules hold.
        streaming: the interface of the engine.
        settings: the arguments, with the engine's defaults.
        zone: of calendar windows.
        output: where results go.
        inputs: the partitions that events come through.
        marked: whether events bring watermarks.
        clocked: whether events bring the clock.
        end_clock: where the clock stood when the input ended, if that is known.
        wall_clock: the one that all instances of the operator share.
    """

    window: Window | EventWindow
    engine: Engine
    streaming: Streaming
    settings: Settings
    zone: str
    output: Output
    inputs: frozenset[Any]
    marked: bool
    clocked: bool
    end_clock: int | None
    wall_clock: WallClock = field(default_factory=WallClock)

    @property
    def folding(self) -> Folding:
        """The aggregates."""
        return self.output.folding

    @property
    def tick(self) -> int:
        """The engine's resolution of time, in µs."""
        return self.engine.tick_us

    def assigner(self) -> Assigner:
        """Which windows hold an instant."""
        assert not isinstance(self.window, SessionWindow | EventWindow)
        return assigner(self.window, self.engine.rules, tick=self.tick, zone=self.zone)

    def stamp(self, end: int) -> int | None:
        """The time that the record of a window [start, end) carries."""
        return end - self.tick if self.streaming.stamps else None

    def watermark(self) -> Watermark | Standing:
        """The clock of an operator that sees watermarks."""
        if self.streaming.clock == "none":
            return Standing()
        return Watermark(
            delays=dict.fromkeys(
                self.inputs,
                self.settings.watermark_delay + self.streaming.lag_ticks * self.tick,
            ),
            every=self.settings.watermark_every,
            start=self._clock_start,
            given=self.marked or self.clocked,
            tick=self.tick,
        )

    def batches(self) -> BatchWatermark:
        """The clock of an operator that sees micro-batches."""
        return BatchWatermark(
            delays=self.settings.watermark_delay,
            start=self._clock_start,
            grain=self.streaming.clock_grain,
            given=self.marked or self.clocked,
            both=not self.settings.allow_multiple,
        )

    def throttle(self) -> Throttle:
        """Limits how often the operator looks for windows that have closed."""
        return Throttle(self.wall_clock, self.settings.emit_interval)

    def processing_time(self) -> ProcessingTime:
        """The clock of an operator that sees the wall clock."""
        return ProcessingTime(every=self.settings.timer_interval)

    @property
    def _clock_start(self) -> int:
        start = self.streaming.clock_start
        return NEVER if start is None else start


class Operator(ABC):
    """One instance of a streaming operator."""

    #: The settings that it takes, if the engine has them.
    takes: ClassVar[frozenset[str]] = frozenset()

    @abstractmethod
    def __init__(self, setup: Setup) -> None: ...

    @classmethod
    def apart(cls, settings: Settings) -> bool:
        """Whether a key can be replayed without the others, given the clock at its events."""
        return False

    def instance(self, partition: Any) -> Operator:
        """The instance that a partition's events go to."""
        return self

    def dues(self, time: int) -> Iterable[int]:
        """The times of the clock at which something may be due for an event of this time."""
        return ()

    def turn(self, clock: int, time: int, arrival: Any) -> None:  # noqa: B027 - as `apart` says
        """Sets the clock as it stands when an event of this time comes."""

    def pass_wall_clock(self, now: int, arrival: Any) -> None:  # noqa: B027 - few look at it
        """Sets the wall clock as it stands when an event of this arrival comes."""

    @abstractmethod
    def process(self, event: Event, time: int) -> None:
        """Takes an event that has a key and a time; the latter floored to the tick."""

    def mark(self, event: Event) -> None:  # noqa: B027 - most see no watermark
        """Sees the watermark of an event that is not processed."""

    @abstractmethod
    def finish(self) -> None:
        """The input has ended."""

    def commit(self, arrival: Any) -> None:  # noqa: B027 - most hold nothing back
        """Passes on what it held back, after the event of this arrival."""

    def restart(self) -> None:  # noqa: B027 - most lose nothing
        """Loses everything that is not kept in state."""

    def end_batch(self, arrival: Any) -> bool:
        """Ends a micro-batch; returns whether one without data would have something to do."""
        return False

"""What a key needs to know of other keys, so that replaying it separately changes nothing.

Other keys' events move the operator's clock, and what a key's windows wait for happens at the
arrival of such an event. So a key is replayed with its own events, each with the clock before it,
and with those events of other keys at which the clock reaches a time that the key may wait for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import gcd
from typing import Any

from backfill.alignment import first_start, in_zone
from backfill.engines import Engine
from backfill.errors import ReplayError
from backfill.replay.clocks import BatchWatermark
from backfill.replay.feeding import waits_for_wall_clock
from backfill.replay.folding import Folding
from backfill.replay.output import Output
from backfill.replay.replaying import chosen
from backfill.replay.settings import Settings
from backfill.replay.setup import Operator, Setup
from backfill.replay.triggering import delays
from backfill.streaming import Streaming
from backfill.time.durations import Fixed
from backfill.triggers import AfterEventTime
from backfill.windows import SessionWindow, Window, durations_of


@dataclass(frozen=True)
class Apart:
    """An operator whose keys can be replayed separately.

    Attributes:
        window: what it computes.
        engine: the engine whose rules hold.
        streaming: the interface of the engine.
        kind: the operator.
        settings: with the engine's defaults.
        zone: of calendar windows.
    """

    window: Window
    engine: Engine
    streaming: Streaming
    kind: type[Operator]
    settings: Settings
    zone: str

    @classmethod
    def of(cls, window: Window, engine: Engine, zone: str, given: Mapping[str, Any]) -> Apart:
        """The operator, if its keys do not depend on each other.

        Args:
            window: what it computes.
            engine: the engine whose rules hold.
            zone: of calendar windows.
            given: arguments of `replay`, `api` among them.

        Raises:
            ReplayError: if they do, or for the same reasons as `replay`.
            WindowError: for the same reasons as `replay`.
        """
        streaming, kind, settings = chosen(window, engine, given)
        if kind.apart(settings):
            return cls(window, engine, streaming, kind, settings, zone)
        why = [name for name in ("caching", "restarts", "emit") if given.get(name)]
        field = why[0] if why else "engine"
        raise ReplayError(
            f"with it, under {engine.name}, events of other keys decide what becomes of a key's "
            "windows, so keys can't be replayed separately",
            field=field,
            value=given[field] if why else engine.name,
            way_out=("Leave it out" if why else "Choose another engine")
            + ", or give all the events at once to backfill.replay.replay",
        )

    @property
    def clocked(self) -> bool:
        """Whether events must say where the clock stood before them."""
        return self.streaming.shares_its_clock

    @property
    def ticks(self) -> bool:
        """Whether something goes downstream when the operator's clock moves."""
        clock, emit = self.streaming.clock, self.settings.emit
        return clock != "none" and not (clock == "stream_time" and emit == "on_update")

    def dues(self) -> Callable[[int], Iterable[int]]:
        """Maps an event's time to the times of the clock at which something may be due for it."""
        return self.kind(self._setup()).dues

    @property
    def grain(self) -> int:
        """Events within a span of this many µs wait for the same times; 1: each for its own."""
        window, tick = self.window, self.engine.tick_us
        if isinstance(window, SessionWindow) or delays(self.settings):
            return 1
        spans = [*durations_of(window).values()]
        fixed = [in_zone(span, self.zone) for span in spans]
        shift = tick if self.engine.rules.closed == "right" else 0
        lengths = [duration.us for duration in fixed if isinstance(duration, Fixed)]
        if len(lengths) < len(fixed):
            return 1
        divisor = gcd(*lengths, *map(first_start, spans), shift)
        return 1 if divisor % tick else divisor

    @property
    def by_wall_clock(self) -> bool:
        """Whether a trigger waits for the wall clock."""
        return waits_for_wall_clock(self.settings)

    def delays(self) -> list[int]:
        """How long after an event, by the wall clock, a trigger may fire, µs.

        There are none if the operator's own clock is the wall clock.
        """
        if self.streaming.clock == "processing_time" or not self.by_wall_clock:
            return []
        tick = self.streaming.timer_ticks * self.engine.tick_us
        waits = {
            trigger.delay.us + tick
            for trigger in delays(self.settings)
            if not isinstance(trigger, AfterEventTime)
        }
        return sorted(waits)

    def batches(self, *, marked: bool) -> BatchWatermark:
        """The clock of micro-batches; `marked`: events bring watermarks."""
        return self._setup(marked=marked).batches()

    def _setup(self, *, marked: bool = False) -> Setup:
        return Setup(
            window=self.window,
            engine=self.engine,
            streaming=self.streaming,
            settings=self.settings,
            zone=self.zone,
            output=Output(Folding({}, False)),
            inputs=frozenset(),
            marked=marked,
            clocked=False,
            end_clock=None,
        )

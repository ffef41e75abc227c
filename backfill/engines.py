"""The rules by which each streaming system forms windows: one frozen row of data per engine.

The facts are those of Kafka Streams 4.3, Spark 4.3, Flink 2.3, Beam 2.73 (Java), Storm 2.8 and
Samza 1.8, read from their sources and checked against recordings, as docs/reconciling.md says. No
other module distinguishes engines by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal

from backfill.errors import JobFileError, WindowError, did_you_mean
from backfill.streaming import STREAMING, Streaming
from backfill.time.durations import Calendar, Fixed
from backfill.windows import (
    AnyWindow,
    CountWindow,
    CumulatingWindow,
    HoppingWindow,
    JoinWindow,
    SessionWindow,
    SlidingWindow,
    TableWindow,
    Window,
    by_place,
    durations_of,
)
from backfill.windows.message_gaps import Messages


@dataclass(frozen=True, kw_only=True)
class Rules:
    """How windows are cut.

    Attributes:
        gap_inclusive: two events exactly one gap apart share a session.
        session_end: what a session reports as its end: its last event, or that plus the gap.
        closed: which end of an aligned window belongs to it: [start, end) or (start, end].
        aligned: which end of a window of fixed size is at a multiple of the advance; both are if
            the advance divides the size.
        clips_at_epoch: aligned windows that would start before 1970 do not exist.
        gaps_between_windows: an advance larger than the size is allowed, leaving gaps.
        counts_rest: the events after the last full count window form a smaller window.
    """

    gap_inclusive: bool = True
    session_end: Literal["last_event", "last_event_plus_gap"] = "last_event"
    closed: Literal["left", "right"] = "left"
    aligned: Literal["start", "end"] = "start"
    clips_at_epoch: bool = False
    gaps_between_windows: bool = False
    counts_rest: bool = True


@dataclass(frozen=True, kw_only=True)
class Engine:
    """One streaming system.

    Attributes:
        tick_us: its resolution of time in microseconds; event times are floored to it.
        null_key: a NULL key is an ordinary group, rather than no key.
        before_epoch: events before 1970 are accepted.
        sessions, offsets, calendars, cumulating, spanning_counts: whether it has event-time windows
            of this kind at all; kinds that it lacks follow the plain rules at its tick.
            `spanning_counts`: count windows whose size or advance is a duration.
        streaming: how its operators take events as they come, by the name of the interface if it
            has several; the first interface that has a window computes it.
    """

    name: str
    rules: Rules = Rules()
    tick_us: int = 1_000
    null_key: bool = False
    before_epoch: bool = True
    sessions: bool = True
    offsets: bool = True
    calendars: bool = False
    cumulating: bool = False
    spanning_counts: bool = False
    streaming: Mapping[str, Streaming] = field(default_factory=dict, hash=False)

    def rules_for(self, window: AnyWindow) -> Rules:
        """The rules for this window: the engine's own, or the plain ones for kinds that it lacks.

        Raises:
            WindowError: if the engine's constructor would refuse the window, or a duration is
                not a whole number of its ticks.
        """
        self.check(window)
        if isinstance(window, SlidingWindow):
            return self.rules
        if isinstance(window, TableWindow):
            # No engine has windows with such rows.
            return PLAIN.rules
        return self.rules if self._has_kind(window) else PLAIN.rules

    def check(self, window: AnyWindow) -> None:
        """Raises WindowError if the engine's constructor would refuse the window.

        Or if a duration is not a whole number of the engine's ticks, or a window holds one instant.
        """
        self._check_ticks(window)
        self._check_advance(window)
        self._check_count_window(window)

    def has(self, window: Window | CountWindow) -> bool:
        """Whether the engine itself has such windows; no engine has rules that cut sessions."""
        ruled = isinstance(window, SessionWindow) and window.has_rules
        return self._has_kind(window) and not ruled

    def _has_kind(self, window: Window | CountWindow) -> bool:
        if isinstance(window, CountWindow):
            if window.has_duration:
                return self.spanning_counts
            return any(interface.counts(window) for interface in self.streaming.values())
        durations = durations_of(window).values()
        if any(isinstance(duration, Calendar) for duration in durations) and not self.calendars:
            return False
        if isinstance(window, SessionWindow):
            return self.sessions and not isinstance(window.gap, Messages)
        if isinstance(window, CumulatingWindow):
            return self.cumulating
        return self.offsets or window.offset.us == 0

    def _check_ticks(self, window: AnyWindow) -> None:
        durations = durations_of(window)
        if isinstance(window, JoinWindow) and not by_place(window):
            ends = (window.in_time.low, window.in_time.high)
            durations = {"within": Fixed(next((end for end in ends if end % self.tick_us), 0))}
        for name, value in durations.items():
            if isinstance(value, Fixed) and value.us % self.tick_us:
                raise WindowError(
                    f"must be whole milliseconds under the engine {self.name}",
                    field=name,
                    value=str(value),
                    way_out="Round it, or use the engine plain",
                )

    def _check_advance(self, window: AnyWindow) -> None:
        if not isinstance(window, HoppingWindow | CountWindow) or self.rules.gaps_between_windows:
            return
        size, advance = window.size, window.advance
        if isinstance(size, Fixed) and isinstance(advance, Fixed):
            too_large = advance.us > size.us
        elif isinstance(size, Calendar) and isinstance(advance, Calendar):
            too_large = advance.longest_us > size.longest_us
        elif isinstance(size, int) and isinstance(advance, int):
            too_large = advance > size
        else:
            too_large = False
        if too_large:
            raise WindowError(
                f"is larger than the size {size}, which the engine {self.name} does not allow: "
                "events in between would be in no window",
                field="advance",
                value=str(advance),
                way_out="Make it no larger than the size",
            )

    def _check_count_window(self, window: AnyWindow) -> None:
        # The engine has such windows, but they are built as a SlidingWindow, whose size can't be 0.
        if (
            isinstance(window, CountWindow)
            and isinstance(window.size, Fixed)
            and self.rules.closed == "right"
            and window.size.us <= self.tick_us
        ):
            raise WindowError(
                f"must be at least {Fixed(2 * self.tick_us)} under the engine {self.name}, whose "
                "windows exclude their start",
                field="size",
                value=str(window.size),
                way_out="Make it longer, or use the engine plain",
            )


PLAIN = Engine(
    name="plain", tick_us=1, calendars=True, cumulating=True, streaming=STREAMING["plain"]
)

ENGINES: Mapping[str, Engine] = MappingProxyType(
    {
        engine.name: engine
        for engine in (
            PLAIN,
            Engine(
                name="kafka-streams",
                rules=replace(PLAIN.rules, clips_at_epoch=True),
                before_epoch=False,
                offsets=False,
                streaming=STREAMING["kafka-streams"],
            ),
            Engine(
                name="spark",
                rules=replace(PLAIN.rules, session_end="last_event_plus_gap"),
                tick_us=1,
                null_key=True,
                streaming=STREAMING["spark"],
            ),
            Engine(
                name="flink",
                rules=replace(
                    PLAIN.rules,
                    session_end="last_event_plus_gap",
                    gaps_between_windows=True,
                    counts_rest=False,
                ),
                null_key=True,
                calendars=True,
                cumulating=True,
                streaming=STREAMING["flink"],
            ),
            Engine(
                name="beam",
                rules=replace(
                    PLAIN.rules,
                    gap_inclusive=False,
                    session_end="last_event_plus_gap",
                    gaps_between_windows=True,
                ),
                calendars=True,
                streaming=STREAMING["beam"],
            ),
            Engine(
                name="storm",
                rules=replace(
                    PLAIN.rules,
                    closed="right",
                    aligned="end",
                    gaps_between_windows=True,
                    counts_rest=False,
                ),
                sessions=False,
                offsets=False,
                spanning_counts=True,
                streaming=STREAMING["storm"],
            ),
            # Samza's windows are in processing time, which a batch does not have.
            Engine(
                name="samza",
                sessions=False,
                offsets=False,
                streaming=STREAMING["samza"],
            ),
        )
    }
)


def engine(name: str) -> Engine:
    """The engine of this name.

    Raises:
        JobFileError: if there is no such engine.
    """
    if name not in ENGINES:
        raise JobFileError(
            "no such engine", field="engine", value=name, way_out=did_you_mean(name, ENGINES)
        )
    return ENGINES[name]

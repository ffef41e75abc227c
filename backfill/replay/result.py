"""The result of a replay: the windows, what went downstream and when, and what was lost."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Emission(NamedTuple):
    """One record that went downstream.

    Attributes:
        arrival: the arrival of the event that caused it; None where the end of input did.
        key: the window's key.
        start, end: the window's bounds as the engine reports them, in µs.
        values: the aggregates by name; None for a tombstone or a retraction.
        op: what it is to a reader: update, final, tombstone; early, on_time, late (panes); +I,
            -U, +U (a changelog).
        timestamp: the time that the record carries, in µs; None where the engine sets none.
        row: the arrival of the row that it belongs to, for windows of a number of events and
            those that look back from each.
        events: the arrivals of the events in the window, where they were asked for.
    """

    arrival: Any
    key: Any
    start: int
    end: int
    values: Mapping[str, Any] | None
    op: str
    timestamp: int | None = None
    row: Any = None
    events: tuple[Any, ...] | None = None


class Window(NamedTuple):
    """A window: key, bounds in µs as the engine reports them, aggregates by name.

    `row` is the arrival of the row that it belongs to, as for `Emission`. `events` holds the
    arrivals of its events, where they were asked for or an aggregate has no form in Python.
    """

    key: Any
    start: int
    end: int
    values: Mapping[str, Any]
    row: Any = None
    events: tuple[Any, ...] | None = None


class Dropped(NamedTuple):
    """An event that is in no window.

    Attributes:
        reason: late, no_key, no_time, no_value, no_gap, before_epoch, past_retention, or
            no_window where it falls between windows.
        late_by: how much more grace (allowed lateness, delay) would have kept it, in µs; None
            where it was not late.
    """

    arrival: Any
    reason: str
    late_by: int | None = None


class DroppedWindow(NamedTuple):
    """A window that did not count one of its events, with how late that was, in µs."""

    arrival: Any
    key: Any
    start: int
    end: int
    late_by: int


@dataclass(frozen=True, kw_only=True)
class Replayed:
    """What the operator did.

    Attributes:
        final: the windows as last emitted, retracted and superseded ones left out, in the order
            of their last emissions. With discarding panes, the sum of a window's panes.
        emissions: all that went downstream, in order.
        dropped: events that are in no window.
        dropped_windows: (event, window) pairs that were lost, those of dropped events included.
        pending: windows that the operator still held back when the input ended.
        superseded: windows that stand in the output although they were merged into others,
            since nothing retracted them.
        lost: windows that were deleted before they were emitted, or skipped (Storm).
        refused: windows as they were when the store did not take them, since they were past its
            retention; what comes later starts them again.
        begun_anew: sessions, final or pending, that should have been merged with an earlier one of
            the key, but the earlier one was evicted or hidden by then, or is in another partition.
    """

    final: tuple[Window, ...]
    emissions: tuple[Emission, ...]
    dropped: tuple[Dropped, ...]
    dropped_windows: tuple[DroppedWindow, ...]
    pending: tuple[Window, ...]
    superseded: tuple[Window, ...]
    lost: tuple[Window, ...]
    refused: tuple[Window, ...]
    begun_anew: tuple[Window, ...]
    _arrivals: Sequence[Any] = field(repr=False)
    _emitted: Sequence[int] = field(repr=False)

    def as_of(self, arrival: Any) -> tuple[Emission, ...]:
        """What had gone downstream when the event of this arrival had been processed."""
        seen = bisect_right(self._arrivals, arrival)
        return self.emissions[: self._emitted[seen - 1]] if seen else ()

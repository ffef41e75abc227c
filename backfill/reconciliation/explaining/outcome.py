"""The outcome of a replay of one key, and what the stream would hold of it under a fault."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from backfill.reconciliation.explaining.operator import Operator
from backfill.reconciliation.explaining.timeline import Timeline
from backfill.replay import Dropped, DroppedWindow, Event, Replayed
from backfill.replay import Window as Made


class Outcome:
    """A replay of some of a key's events, looked at from each of the key's differences.

    Args:
        operator: the one that is replayed.
        events: of the key.
    """

    def __init__(self, operator: Operator, events: Sequence[Event]) -> None:
        self.operator = operator
        self.made: Replayed = operator.replay(events)
        self._others: dict[str, Timeline] = {}

    @cached_property
    def rows(self) -> Timeline:
        """What is in the operator's output when everything that it wrote has been read."""
        return Timeline(self.operator.written(self.made))

    @cached_property
    def dropped(self) -> Mapping[Any, list[Dropped]]:
        """The dropped events, by arrival."""
        by_arrival: dict[Any, list[Dropped]] = {}
        for event in self.made.dropped:
            by_arrival.setdefault(event.arrival, []).append(event)
        return by_arrival

    @cached_property
    def dropped_windows(self) -> Mapping[tuple[int, int], list[DroppedWindow]]:
        """The windows that did not count one of their events, by bounds."""
        by_bounds: dict[tuple[int, int], list[DroppedWindow]] = {}
        for window in self.made.dropped_windows:
            by_bounds.setdefault((window.start, window.end), []).append(window)
        return by_bounds

    def windows(self, kind: str, reader: Operator) -> Timeline:
        """Windows that are not in the output.

        Args:
            kind: `pending`, `lost`, `begun_anew` or `superseded`.
            reader: turns windows into rows: always the operator that the key's differences are of.
        """
        if kind not in self._others:
            windows: Iterable[Made] = getattr(self.made, kind)
            self._others[kind] = Timeline(reader.rows(windows))
        return self._others[kind]


@dataclass(frozen=True)
class Hypothesis:
    """Rows that the stream would hold, if a fault were there.

    Attributes:
        causes: what the fault is called.
        rows: what the key's output would be, at least about the difference that it is made for.
        replayed: the replay that the rows come from; None if only the output is at fault.
        evidence: what the fault is.
        proved: whether it is proved if the rows agree.
    """

    causes: tuple[str, ...]
    rows: Timeline
    replayed: Outcome | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)
    proved: bool = True

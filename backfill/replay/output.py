"""Where an operator's output goes: what it emits, drops and holds back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from backfill.replay.folding import Folding, State
from backfill.replay.result import Dropped, DroppedWindow, Emission, Replayed, Window

_Bounds = tuple[Any, int, int]
_Place = tuple[Any, int, int, Any]


class Output:
    """Collects the results of one replay.

    Args:
        folding: the aggregates.
        reach: sessions of a key whose reported bounds are this near should be one; None for
            other windows.
    """

    def __init__(self, folding: Folding, reach: int | None = None) -> None:
        self.folding = folding
        self._reach = reach
        self._replaced: set[_Bounds] = set()
        self.emissions: list[Emission] = []
        self.dropped: list[Dropped] = []
        self.dropped_windows: list[DroppedWindow] = []
        self.pending: list[Window] = []
        self.lost: list[Window] = []
        self.refused: list[Window] = []
        self._superseded: list[tuple[int, _Bounds]] = []
        self._removed: list[tuple[int, _Place]] = []
        self._sums: dict[_Bounds, Window] = {}
        self._sent_before: dict[_Bounds, State] = {}

    def send(
        self,
        arrival: Any,
        key: Any,
        start: int,
        end: int,
        state: State,
        op: str,
        stamp: int | None,
        row: Any = None,
    ) -> None:
        """A window's content goes downstream as it is now."""
        folding = self.folding
        values = folding.values(state)
        events = folding.events(state) if folding.keeps else None
        self.emissions.append(Emission(arrival, key, start, end, values, op, stamp, row, events))

    def retract(
        self, arrival: Any, key: Any, start: int, end: int, op: str, stamp: int | None
    ) -> None:
        """A tombstone or a retraction goes downstream."""
        self.emissions.append(Emission(arrival, key, start, end, None, op, stamp))

    def superseded(self, key: Any, start: int, end: int) -> None:
        """A window was merged into another, and nothing says so downstream."""
        self._superseded.append((len(self.emissions), (key, start, end)))

    def removed(self, key: Any, start: int, end: int) -> None:
        """A window is no longer in the output, though no record says so."""
        self._removed.append((len(self.emissions), (key, start, end, None)))

    def replaced(self, key: Any, start: int, end: int) -> None:
        """A window replaces one with the same bounds that could no longer be found."""
        self._replaced.add((key, start, end))

    def sums(self, key: Any, start: int, end: int, total: State) -> None:
        """What a window's panes add up to so far, where they are deltas."""
        bounds, folding = (key, start, end), self.folding
        before = self._sent_before.get(bounds)
        if before is not None:
            total = folding.merge(folding.copy(before), folding.copy(total))
        self._sums[bounds] = self.window(*bounds, total)

    def forgotten(self, key: Any, start: int, end: int, total: State) -> None:
        """A window that has sent deltas is gone; deltas of another with its bounds add to these."""
        bounds, folding = (key, start, end), self.folding
        before = self._sent_before.get(bounds)
        self._sent_before[bounds] = total if before is None else folding.merge(before, total)

    def drop(self, arrival: Any, reason: str, late_by: int | None = None) -> None:
        """An event is in no window."""
        self.dropped.append(Dropped(arrival, reason, late_by))

    def drop_window(self, arrival: Any, key: Any, start: int, end: int, late_by: int) -> None:
        """A window does not count one of its events."""
        self.dropped_windows.append(DroppedWindow(arrival, key, start, end, late_by))

    def withhold(self, sent: int) -> None:
        """Only the first `sent` results are sent: the windows of all others are pending."""
        self.pending += [
            Window(
                emission.key, emission.start, emission.end, emission.values, None, emission.events
            )
            for emission in self.emissions[sent:]
            if emission.values is not None
        ]
        del self.emissions[sent:]

    def window(self, key: Any, start: int, end: int, state: State) -> Window:
        """The window as it is now."""
        return Window(key, start, end, self.folding.values(state), None, self.folding.events(state))

    def result(self, arrivals: list[Any], emitted: Iterable[int]) -> Replayed:
        """All results. For `as_of`: the events' arrivals, and how much was emitted after each."""
        last: dict[_Place, int] = {}
        for i, (_, key, start, end, values, _, _, row, _) in enumerate(self.emissions):
            place = key, start, end, row
            last.pop(place, None)
            if values is not None:
                last[place] = i
        for at, place in self._removed:
            if last.get(place, at) < at:
                del last[place]
        merged_away = {
            (*bounds, None): None
            for at, bounds in self._superseded
            if last.get((*bounds, None), at) < at
        }
        final = [self._standing(i) for place, i in last.items() if place not in merged_away]
        return Replayed(
            final=tuple(final),
            superseded=tuple(self._standing(last[place]) for place in merged_away),
            emissions=tuple(self.emissions),
            dropped=tuple(self.dropped),
            dropped_windows=tuple(self.dropped_windows),
            pending=tuple(self.pending),
            lost=tuple(self.lost),
            refused=tuple(self.refused),
            begun_anew=tuple(self._begun_anew([*final, *self.pending])),
            _arrivals=arrivals,
            _emitted=list(emitted),
        )

    def _begun_anew(self, windows: list[Window]) -> Iterable[Window]:
        """Windows that are too near to an earlier one of the same key, or that replaced one."""
        if self._reach is None:
            return []
        indices = {i for i, session in enumerate(windows) if session[:3] in self._replaced}
        by_key: dict[Any, list[tuple[int, int, int]]] = {}
        for i, session in enumerate(windows):
            by_key.setdefault(session.key, []).append((session.start, session.end, i))
        for sessions in by_key.values():
            sessions.sort()
            furthest, at = sessions[0][1], sessions[0][2]
            for start, end, i in sessions[1:]:
                if start <= furthest + self._reach:
                    indices.add(max(i, at))
                if end > furthest:
                    furthest, at = end, i
        return [windows[i] for i in sorted(indices)]

    def _standing(self, index: int) -> Window:
        _, key, start, end, values, _, _, row, events = self.emissions[index]
        assert values is not None
        return self._sums.get((key, start, end)) or Window(key, start, end, values, row, events)

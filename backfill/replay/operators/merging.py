"""Sessions as windows [t, t + gap) that are merged, and fire as a clock passes their ends."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Any

from backfill.replay.clocks import NEVER
from backfill.replay.event import Event
from backfill.replay.pane import Pane
from backfill.replay.panes import Panes
from backfill.replay.setup import Setup
from backfill.replay.triggering import Place, Since
from backfill.windows import SessionWindow


class MergingPanes(Panes):
    """The open sessions of each key, which neither overlap nor, if that merges them, touch."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        assert isinstance(setup.window, SessionWindow)
        self._gap = setup.window.gap.us
        rules = setup.engine.rules
        self._touch = 0 if rules.gap_inclusive else 1
        self._own = setup.streaming.late == "own"
        if rules.session_end == "last_event":
            self._behind = self._gap
        # Sessions by key; their ends are those that the clock judges, gap included.
        self._open: dict[Any, list[Pane]] = {}

    def update(self, event: Event, time: int) -> None:
        """Merges the event's window with those that it meets, unless the result is gone."""
        start, end = time, time + (self._gap if event.gap is None else event.gap)
        if self._own and (late_by := self.late_by(end)) > 0:
            self._output.drop(event.arrival, "late", late_by)
            return
        panes = self._open.get(event.key)
        if panes is None:
            panes = self._open[event.key] = []
        # By their ends, which ascend with their starts.
        low = bisect_left(panes, start + self._touch, key=_end)
        high = low
        while high < len(panes) and panes[high].start <= end - self._touch:
            high += 1
        met = panes[low:high]
        if met:
            start, end = min(start, met[0].start), max(end, met[-1].end)
        if (late_by := self.late_by(end)) > 0:
            self._output.drop(event.arrival, "late", late_by)
            if not panes:
                del self._open[event.key]
            return
        if len(met) == 1 and met[0].start == start and met[0].end == end:
            self._comes(met[0], time)
            self.add(met[0], event, time)
            return
        pane = self._merged(event.key, start, end, met)
        panes[low:high] = [pane]
        self.schedule(pane)
        self._comes(pane, time)
        self.add(pane, event, time)

    def ends(self, time: int) -> Iterable[int]:
        """A session ends a gap after one of its events."""
        return (time + self._gap,)

    def forget(self, pane: Pane) -> None:
        """Its state is cleared."""
        panes = self._open[pane.key]
        panes.remove(pane)
        if not panes:
            del self._open[pane.key]

    def _merged(self, key: Any, start: int, end: int, met: list[Pane]) -> Pane:
        pane = Pane(key, start, end)
        count = 0
        done = end + self._complete <= self._now
        pane.counts_as_on_time = done and bool(met) and all(map(self._begins_merged, met))
        reopens = not done and any(map(self._is_completed, met))
        for part in met:
            if part.emitted is not None:
                self._output.superseded(key, part.start, part.end - self._behind)
            pane.total = self._join(pane.total, part.total)
            pane.fresh = self._join(pane.fresh, part.fresh)
            pane.stands += part.stands
            seen, since = (part.unseen, part.since) if done else self._seen_early(part)
            pane.unseen += seen
            pane.since = _earlier(pane.since, since)
            count += self._touched.pop(part, 0)
            part.deadline, part.gone = NEVER, True  # its timers are void
        if self._keeps_fired:
            pane.fired = self._fired(met)
        pane.spent = any(part.spent for part in met if part.done == done)
        combines = self._keeps_fired and self._early is not None and self._early.combines
        if reopens and not combines:
            # The window is no longer complete, and its early trigger counts again, from this bundle
            # on; but triggers that another one combines have counted all the time.
            pane.unseen = count
        if count:
            self._touched[pane] = count
        return pane

    def _begins_merged(self, pane: Pane) -> bool:
        """Whether all of a window's events came in the bundle in which it was first merged.

        If it is late then, Beam treats it as one that has fired on time.
        """
        assert pane.total is not None
        return pane.counts_as_on_time or self._touched.get(pane) == pane.total.count

    def _fired(self, met: list[Pane]) -> tuple[frozenset[Place], frozenset[Place]]:
        """Which of the triggers that another one combines stay fired."""
        early, late = (
            frozenset[Place]()
            if firing is None
            else firing.merged(frozenset[Place]().union(*(pane.fired[which] for pane in met)))
            for which, firing in enumerate((self._early, self._late))
        )
        return early, late

    def _comes(self, pane: Pane, time: int) -> None:
        """An event is about to come to a window, whose early trigger sees it even if it is late."""
        if self._early is not None and self._is_completed(pane):
            pane.came += 1
            pane.came_since = _earlier(pane.came_since, self.since(time, self._wall))

    def _seen_early(self, pane: Pane) -> tuple[int, Since | None]:
        """How many events a window's early trigger has seen since it fired, and since when."""
        if self._is_completed(pane):
            return pane.came, pane.came_since
        return pane.unseen, pane.since

    def _is_completed(self, pane: Pane) -> bool:
        """Whether a window has fired on time, or counts as if it had."""
        fired = pane.total is not None and pane.unseen < pane.total.count
        return pane.done and (fired or pane.counts_as_on_time)

    def _join(self, left: Any, right: Any) -> Any:
        if left is None or right is None:
            return right if left is None else left
        return self._folding.merge(left, right)


def _earlier(one: Since | None, other: Since | None) -> Since | None:
    if one is None or other is None:
        return other if one is None else one
    return one.merged(other)


def _end(pane: Pane) -> int:
    return pane.end

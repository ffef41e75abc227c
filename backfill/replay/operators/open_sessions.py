"""Sessions of processing time: a key has one open session, which a timer closes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from backfill.replay.clocks import NEVER
from backfill.replay.event import Event
from backfill.replay.pane import Pane
from backfill.replay.panes import Panes
from backfill.replay.setup import Setup
from backfill.windows import SessionWindow


class OpenSessions(Panes):
    """An event joins what is open, however long the key was silent, until timers run."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        assert isinstance(setup.window, SessionWindow)
        self._gap = self._behind = setup.window.gap.us
        self._open: dict[Any, Pane] = {}

    def update(self, event: Event, time: int) -> None:
        """Extends the key's session, or opens one."""
        end = time + self._gap
        pane = self._open.get(event.key)
        if pane is not None and self._discards and pane.fresh is None and time != pane.start:
            # Nothing is left of what was sent: neither its start, nor its deadline and its
            # triggers, which are found by the start.
            pane.deadline, pane.gone = NEVER, True
            assert pane.total is not None
            self._output.forgotten(pane.key, pane.start, pane.end - self._gap, pane.total)
            pane = None
        if pane is None:
            pane = self._open[event.key] = Pane(event.key, time, end)
            self.schedule(pane)
        else:
            self._extend(pane, time, end)
        self.add(pane, event, time)

    def ends(self, time: int) -> Iterable[int]:
        """A session ends a gap after one of its events."""
        return (time + self._gap,)

    def _extend(self, pane: Pane, time: int, end: int) -> None:
        if pane.emitted is not None and pane.end != end:
            self._output.superseded(pane.key, pane.start, pane.end - self._gap)
        # An event cancels a deadline only before it; one that timers have not seen yet stays.
        if time < pane.deadline and pane.deadline != end:
            pane.deadline = end
            self.schedule(pane)
        pane.end = end

    def forget(self, pane: Pane) -> None:
        """The session is closed."""
        del self._open[pane.key]

"""Sessions of processing time: a key has one open session, which a timer closes."""

from __future__ import annotations

from typing import Any

from backfill.replay.clocks import NEVER
from backfill.replay.event import Event
from backfill.replay.panes import Pane, Panes
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
        before = self._open.get(event.key)
        pane = Pane(event.key, time if before is None else before.start, time + self._gap)
        if before is not None:
            if before.told is not None and before.end != pane.end:
                self._output.superseded(event.key, before.start, before.end - self._gap)
            pane.total, pane.fresh, pane.unseen = before.total, before.fresh, before.unseen
            before.end = NEVER  # its timer is void
        self._open[event.key] = pane
        self.schedule(pane)
        self.add(pane, event, time)

    def forget(self, pane: Pane) -> None:
        """The session is closed."""
        del self._open[pane.key]

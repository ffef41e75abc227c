"""What to compute: a window, and aggregates over it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from backfill.aggregates.base import Aggregate
from backfill.windows import (
    AnyWindow,
    RollingWindow,
    SessionWindow,
    SlidingWindow,
    TableWindow,
    by_place,
)


@dataclass(frozen=True)
class Definition:
    """A window of a job, and its aggregates by the names of their columns."""

    window: AnyWindow
    aggregates: Mapping[str, Aggregate]

    @property
    def mergeable(self) -> bool:
        """Whether late events can be merged into published windows without the windows' events."""
        return (
            not self.of_events
            and not self.ruled
            and all(aggregate.mergeable for aggregate in self.aggregates.values())
        )

    @property
    def of_events(self) -> bool:
        """Whether its rows are computed from the events themselves each time, not from slices."""
        return isinstance(self.window, SlidingWindow | TableWindow) or by_place(self.window)

    @property
    def ruled(self) -> bool:
        """Whether it is a session with rules, which look at single events."""
        return isinstance(self.window, SessionWindow) and self.window.has_rules

    @property
    def drops(self) -> bool:
        """Whether sessions that are too short are left out when publishing."""
        return isinstance(self.window, SessionWindow) and self.window.drops

    @property
    def steps(self) -> bool:
        """Whether it is a metric."""
        return isinstance(self.window, RollingWindow)

    @property
    def blanks(self) -> bool:
        """Whether events can have rows of their own that are computed but not published.

        For a metric these are rows without a change, for a join those that its kind leaves out.
        """
        return isinstance(self.window, TableWindow)

    @property
    def hides(self) -> bool:
        """Whether some of the computed rows are not published."""
        return self.drops or self.blanks

"""What is computed: a window, and aggregates over it."""

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
        """Late events can be merged into published windows without the events of these."""
        return (
            not self.of_events
            and not self.ruled
            and all(each.mergeable for each in self.aggregates.values())
        )

    @property
    def of_events(self) -> bool:
        """Its rows are computed from the events themselves, each time, and not from slices."""
        return isinstance(self.window, SlidingWindow | TableWindow) or by_place(self.window)

    @property
    def ruled(self) -> bool:
        """It is a session with rules, which look at single events."""
        return isinstance(self.window, SessionWindow) and self.window.has_rules

    @property
    def drops(self) -> bool:
        """Sessions that are too short are not published."""
        return isinstance(self.window, SessionWindow) and self.window.drops

    @property
    def steps(self) -> bool:
        """It is a metric."""
        return isinstance(self.window, RollingWindow)

    @property
    def blanks(self) -> bool:
        """Events can have rows of their own that are computed and not published.

        Of a metric these are rows without a change, of a join those that its kind leaves out.
        """
        return isinstance(self.window, TableWindow)

    @property
    def hides(self) -> bool:
        """Not all rows that are computed are published."""
        return self.drops or self.blanks

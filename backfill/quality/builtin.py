"""The checks that every job has by default.

Each is about a number that a run measures along the way (`metrics`). What breaks a check is counted
in one pass over what was written, and the numbers are compared with their limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from backfill.quality.checks import Severity
from backfill.time.durations import DAY_US, Fixed
from backfill.windows import (
    AnyWindow,
    CountWindow,
    EventWindow,
    JoinWindow,
    RollingWindow,
    SessionWindow,
    by_place,
)

#: What a check is about.
Scope = Literal["events", "windows", "sessions", "aligned", "reconciliation"]

#: The tables that belong to no window.
EVENTS: Literal["events"] = "events"
RECONCILIATION: Literal["reconciliation"] = "reconciliation"
#: The name for all of these checks in a job file.
BUILTIN = "builtin"


@dataclass(frozen=True, kw_only=True)
class Builtin:
    """A check, as it is unless the job file sets it otherwise.

    Attributes:
        name: its name in the job file.
        about: what has to hold, for people.
        scope: what it is about.
        severity: what happens to a run that breaks it.
        limit: a share, or a span of time; None if nothing may break it.
        least: whether the limit is the smallest allowed value, not the largest.
    """

    name: str
    about: str
    scope: Scope
    severity: Severity = "error"
    limit: float | Fixed | None = None
    least: bool = False


BUILTINS: Mapping[str, Builtin] = {
    check.name: check
    for check in (
        Builtin(
            name="key_present",
            about="every event has a key, if the engine needs one",
            scope="events",
        ),
        Builtin(name="time_present", about="every event has a time", scope="events"),
        Builtin(
            name="inside_range",
            about="event times lie inside the dates that they were read for",
            scope="events",
        ),
        Builtin(
            name="counted_once",
            about="no event (key, time and id) is counted twice; if there are more than a million, "
            "this is checked for one key in 64",
            scope="events",
        ),
        Builtin(
            name="quarantined_share",
            about="the share of rows that can't be used is small",
            scope="events",
            limit=0.1,
        ),
        Builtin(
            name="freshness",
            about="the latest event is not long before the end of the range",
            scope="events",
            severity="warn",
            limit=Fixed(DAY_US),
        ),
        Builtin(
            name="bounds",
            about="a window ends after it starts, and has the right date",
            scope="windows",
        ),
        Builtin(
            name="counts",
            about="a window holds at least one event, unless it leaves its own event out or is a "
            "metric's",
            scope="windows",
        ),
        Builtin(
            name="unique",
            about="there is one row for each key and window; if each event has a window, one for "
            "each event that has an id",
            scope="windows",
        ),
        Builtin(
            name="conservation",
            about="windows hold each event as often as the engine assigns it",
            scope="windows",
        ),
        Builtin(
            name="history",
            about="the numbers of rows and events of a date are near those of the same weekday "
            "before",
            scope="windows",
            severity="warn",
            limit=0.5,
        ),
        Builtin(
            name="gap",
            about="sessions of a key are further apart than the gap",
            scope="sessions",
        ),
        Builtin(
            name="size",
            about="windows have the size and alignment of their definition",
            scope="aligned",
        ),
        Builtin(
            name="match_rate",
            about="most windows of batch and stream are alike",
            scope="reconciliation",
            severity="warn",
            limit=0.9,
            least=True,
        ),
        Builtin(
            name="unexplained",
            about="every difference has a cause",
            scope="reconciliation",
        ),
    )
}


def scopes(window: AnyWindow) -> tuple[Scope, ...]:
    """The scopes of the checks that concern a window's table."""
    if isinstance(window, CountWindow | RollingWindow):
        return "windows", "aligned"
    if isinstance(window, EventWindow | JoinWindow) or by_place(window):
        return ("windows",)
    return "windows", ("sessions" if isinstance(window, SessionWindow) else "aligned")

"""Sessions with rules, the slow and obvious way: one event after the other, in plain Python."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from backfill import SessionWindow
from tests import reference
from tests.event_frames import from_rows

SCHEMA = (
    "key string, time bigint, arrival bigint, campaign string, referrer string, "
    "login boolean, logout boolean, value bigint"
)
_DAY = dt.timedelta(days=1)


@dataclass(frozen=True)
class Visit:
    """An event; `login` and `logout` are what the predicates of the tests look at."""

    key: str | None
    time: int | None
    arrival: int = 0
    campaign: str | None = None
    referrer: str | None = None
    login: bool | None = False
    logout: bool | None = False
    value: int | None = None


def frame(spark: SparkSession, visits: Iterable[Visit]) -> DataFrame:
    rows = [
        (v.key, v.time, v.arrival, v.campaign, v.referrer, v.login, v.logout, v.value)
        for v in visits
    ]
    return from_rows(spark, rows, SCHEMA)


def _rank(value: Any) -> Any:
    return value is not None, value


def ordered(window: SessionWindow, visits: Iterable[Visit]) -> list[Visit]:
    """By time, arrival, what the rules look at, and then what tests aggregate: value, campaign."""

    def place(v: Visit) -> Any:
        looked_at = [_rank(getattr(v, name)) for name in window.new_when]
        looked_at += [v.login is True] if window.start_when else []
        looked_at += [v.logout is True] if window.end_when else []
        return (v.time, v.arrival, *looked_at, _rank(v.value), _rank(v.campaign))

    return sorted(visits, key=place)


def day_begins(window: SessionWindow, at: int, zone: str) -> int:
    """The last instant, not after this one, at which `split` cuts."""
    assert window.split is not None
    near = reference.instant(at).date()
    starts = (reference.local(zone, near + n * _DAY, window.split.us) for n in range(-3, 4))
    return max(start for start in starts if start <= at)


def limit(window: SessionWindow, start: int) -> int:
    """The last instant of a session that starts there."""
    assert window.max_duration is not None
    most = window.max_duration.us
    if window.max_duration_on == "start":
        return start + most
    checks = range(start // most * most, start + 3 * most, most)
    return next(check for check in checks if check - start > most)


def sessions(
    window: SessionWindow, visits: Iterable[Visit], zone: str = "UTC"
) -> Iterator[tuple[list[Visit], bool]]:
    """The sessions of each key that are not dropped, and whether no later event could join."""
    used = [v for v in visits if v.key is not None and v.time is not None]
    for key in {v.key for v in used}:
        own = ordered(window, (v for v in used if v.key == key))
        for session, closed in _of_key(window, own, zone):
            long = session[-1].time - session[0].time
            if window.min_events is not None and len(session) < window.min_events:
                continue
            if window.min_duration is not None and long < window.min_duration.us:
                continue
            yield session, closed


def _of_key(
    window: SessionWindow, own: list[Visit], zone: str
) -> Iterator[tuple[list[Visit], bool]]:
    session: list[Visit] = []
    known: dict[str, Any] = {}
    for v in own:
        gap = bool(session) and v.time - session[-1].time > window.gap.us
        if gap:
            known = {}
        if session and (gap or _cuts(window, session, known, v, zone)):
            yield session, not gap or _ends(window, session)
            session = []
        session.append(v)
        for name in window.new_when:
            if getattr(v, name) is not None:
                known[name] = getattr(v, name)
    if session:
        yield session, _ends(window, session)


def _ends(window: SessionWindow, session: list[Visit]) -> bool:
    return window.end_when is not None and session[-1].logout is True


def _cuts(
    window: SessionWindow, session: list[Visit], known: dict[str, Any], v: Visit, zone: str
) -> bool:
    first, last = session[0], session[-1]
    if window.split is not None and day_begins(window, last.time, zone) != day_begins(
        window, v.time, zone
    ):
        return True
    for name in window.new_when:
        value = getattr(v, name)
        if window.null_is_change:
            if value != getattr(last, name):
                return True
        elif value is not None and name in known and known[name] != value:
            return True
    if window.start_when is not None and v.login is True:
        return True
    if _ends(window, session):
        return True
    if window.max_duration is not None and v.time > limit(window, first.time):
        return True
    return window.max_events is not None and len(session) >= window.max_events

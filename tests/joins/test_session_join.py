"""Events in sessions, and sessions that overlap, against plain Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from backfill import SessionWindow, messages, session_join
from backfill import aggregates as agg
from backfill.errors import AggregateError, ColumnError, WindowError
from tests import drawn
from tests.event_frames import rows
from tests.joins import reference
from tests.joins.reference import HOWS, Case, Row

COMMON: dict[str, Any] = {"on": ["key", "part"], "time": "time", "time_format": "epoch_us"}
GAP = 12


@dataclass(frozen=True)
class Session:
    key: str | None
    part: int | None
    start: int
    last: int
    count: int


@cache
def cases() -> list[Case]:
    hot = [Row("hot", n * n // 9, n % 4) for n in range(60)]
    alike = [Row("a", 5, 1)] * 3
    some = [([], []), ([], alike), (alike, []), (alike, alike * 2), (hot, hot[::2])]
    # Sessions of a key that is partly NULL would hold events of all cases.
    others = drawn.cases(reference.sides(10), 300)
    return [*some, *(tuple([_named(row) for row in side] for side in case) for case in others)]  # type: ignore[misc]


def _named(row: Row) -> Row:
    return replace(row, key="n", part=None) if row.key is None else row


def sessions(events: Sequence[Row], gap: int, *, tick: int = 1) -> list[Session]:
    """The sessions of keys with a part that is not NULL; times are floored to the tick."""
    of_keys: list[Session] = []
    usable = [e for e in events if e.time is not None and (e.key, e.part) != (None, None)]
    for key in {(e.key, e.part) for e in usable}:
        own = sorted(e.time // tick * tick for e in usable if (e.key, e.part) == key)  # type: ignore[operator]
        of_key: list[Session] = []
        for time in own:
            if of_key and time - of_key[-1].last <= gap:
                before = of_key.pop()
                of_key.append(Session(*key, before.start, time, before.count + 1))
            else:
                of_key.append(Session(*key, time, time, 1))
        of_keys += of_key
    return of_keys


def same_key(a: Row | Session, b: Row | Session) -> bool:
    return reference.same_key(Row(a.key, 0, part=a.part), Row(b.key, 0, part=b.part))


def pairs(
    left: Sequence[Any],
    right: list[Session],
    how: str,
    meets: Any,
    shown: Any,
    end: int,
) -> Counter[tuple[Any, ...]]:
    """The rows of the result, without the sessions' ids."""
    counts: Counter[tuple[Any, ...]] = Counter()
    partners: set[Session] = set()
    width = len(shown(left[0])) if left else len(shown(Row("", 0)))
    for one in left:
        own = [session for session in right if same_key(one, session) and meets(one, session)]
        partners |= set(own)
        if how in ("semi", "anti"):
            counts[shown(one)] += (how == "semi") == bool(own)
            continue
        for session in own:
            counts[(*shown(one), session.start, session.last + end, session.count)] += 1
        if not own and how in ("left", "full"):
            counts[(*shown(one), None, None, None)] += 1
    if how == "full":
        for session in set(right) - partners:
            nothing = (None,) * (width - 2)
            span = session.start, session.last + end, session.count
            counts[(session.key, session.part, *nothing, *span)] += 1
    return +counts


def without_ids(result: DataFrame) -> Counter[Any]:
    return Counter(rows(result.drop("session_id", "session_id_right")))


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("engine", ["plain", "flink"])
def test_events_in_sessions(spark: SparkSession, how: str, engine: str) -> None:
    """Under Flink a session ends a gap after its last event, and times are whole milliseconds."""
    scale = 1 if engine == "plain" else 1_000
    scaled = [
        tuple(
            [Row(e.key, e.time and e.time * scale, e.value, e.part, e.arrival) for e in side]
            for side in case
        )
        for case in cases()
    ]
    left, right = reference.apart(scaled)  # type: ignore[arg-type]
    result = session_join(
        reference.frame(spark, left),
        reference.frame(spark, right),
        window=SessionWindow(gap=f"{GAP * scale}us"),
        aggregates={"n": agg.count()},
        how=how,
        engine=engine,
        **COMMON,
    )
    end = 0 if engine == "plain" else GAP * scale

    def holds(event: Row, session: Session) -> bool:
        if event.time is None:
            return False
        last = session.last if engine == "plain" else session.last + end - 1
        return session.start <= event.time <= last

    expected = reference.by_case(
        scaled,  # type: ignore[arg-type]
        lambda left, right: pairs(
            left, sessions(right, GAP * scale), how, holds, lambda row: row.whole, end
        ),
    )
    drawn.check(without_ids(result), expected, reference.case_of(scaled))  # type: ignore[arg-type]


@pytest.mark.parametrize("how", HOWS)
def test_sessions_that_overlap(spark: SparkSession, how: str) -> None:
    left, right = reference.apart(cases())
    result = session_join(
        reference.frame(spark, left),
        reference.frame(spark, right),
        window=SessionWindow(gap=f"{GAP}us"),
        aggregates={"n": agg.count()},
        left_window=SessionWindow(gap="5us"),
        left_aggregates={"n": agg.count()},
        how=how,
        **COMMON,
    )
    added = ["session_id", "session_start", "session_end", "n"]
    theirs = [] if how in ("semi", "anti") else [f"{name}_right" for name in added]
    assert result.columns == ["key", "part", *added, *theirs]

    def shown(session: Any) -> tuple[Any, ...]:
        if isinstance(session, Row):
            session = Session(session.key, session.part, 0, 0, 0)
        return (session.key, session.part, session.start, session.last, session.count)

    def overlap(one: Session, other: Session) -> bool:
        return one.start <= other.last and other.start <= one.last

    expected = reference.by_case(
        cases(),
        lambda left, right: pairs(sessions(left, 5), sessions(right, GAP), how, overlap, shown, 0),
    )
    drawn.check(without_ids(result), expected, reference.case_of(cases()))


REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"window": SessionWindow(gap=messages(5))}, WindowError, "window: must have a gap in time"),
    (
        {"left_window": SessionWindow(gap="5m", max_events=3)},
        WindowError,
        "left_window: must have a gap in time, and no rules",
    ),
    ({"left_aggregates": {"n": agg.count()}}, WindowError, "has no meaning without left_window"),
    ({"how": "outer"}, WindowError, "how: must be inner or left"),
    ({"aggregates": {"n": agg.sum("word")}}, AggregateError, "right"),
    ({"on": "usr"}, ColumnError, "right.key: there is no such column"),
]


@pytest.mark.parametrize(
    ("given", "error", "message"), REFUSED, ids=lambda parameter: str(parameter)[:60]
)
def test_what_is_refused(
    spark: SparkSession, given: dict[str, Any], error: type[Exception], message: str
) -> None:
    events = spark.sql("SELECT 1 AS user, timestamp_seconds(0) at, 'a' word")
    common = {"on": "user", "time": "at", "window": SessionWindow(gap="5m")}
    with pytest.raises(error, match=message):
        session_join(events, events, **{**common, **given})

"""Rules that cut or drop sessions, against plain Python."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from backfill import SessionWindow, aggregate, sessionize
from backfill import aggregates as agg
from backfill.errors import BackfillError, ColumnError, WindowError
from tests import drawn, reference_rules
from tests.event_frames import rows
from tests.reference_rules import Visit

GAP = 1_800_000_000
HOUR = 2 * GAP
COMMON = {"key": "key", "time": "time", "time_format": "epoch_us", "arrival": "arrival"}
#: In the night of this instant, clocks in Berlin went back from 3:00 to 2:00.
AUTUMN = 1_761_436_800_000_000

LOCAL = {"new_when": ["campaign", "referrer"], "start_when": "login", "end_when": "logout"}
WINDOWS = {
    "duration": SessionWindow(gap="30m", max_duration="1h"),
    "grid": SessionWindow(gap="30m", max_duration="50m", max_duration_on="grid"),
    "events": SessionWindow(gap="30m", max_events=3),
    "both limits": SessionWindow(gap="30m", max_duration="1h", max_events=4),
    "change": SessionWindow(gap="30m", new_when="campaign"),
    "local": SessionWindow(gap="30m", split="02:30", null_is_change=True, **LOCAL),
    "all": SessionWindow(
        gap="30m",
        max_duration="1h",
        max_events=5,
        split="midnight",
        min_events=2,
        min_duration="1m",
        **LOCAL,
    ),
}

_base = st.sampled_from([0, AUTUMN])
times = st.one_of(
    st.none(),
    st.builds(
        lambda base, n, fine: base + n * GAP // 3 + fine,
        _base,
        st.integers(-12, 12),
        st.sampled_from([-1, 0, 0, 0, 1]),
    ),
)
_text = st.sampled_from([None, "x", "x", "y"])
_seldom = st.sampled_from([None, False, False, False, False, True])
visits = drawn.few_or_many(
    st.builds(
        Visit,
        st.sampled_from(["a", "b", None]),
        times,
        st.integers(0, 2),
        _text,
        _text,
        _seldom,
        _seldom,
        st.integers(0, 3),
    )
)
#: A stretch that limits cut often, and that nothing else cuts.
LONG = [Visit("long", n * 60_000_000 + n % 7, value=n) for n in range(3_000)]
#: Only their arrival says which of two visits at one instant came first.
TIED = [
    Visit("tied", AUTUMN, 2, "x", "x", False, False, 1),
    Visit("tied", AUTUMN, 0, None, None, False, False, 2),
    Visit("tied", AUTUMN + 1, 0, "x", "x", False, False, 2),
]


@cache
def given_visits() -> list[list[Visit]]:
    return [[], LONG, TIED, *drawn.cases(visits, 300)]


def together() -> list[Visit]:
    return [
        v if v.key is None else replace(v, key=f"{number}:{v.key}")
        for number, own in enumerate(given_visits())
        for v in own
    ]


def case(row: Any) -> list[Visit]:
    return given_visits()[drawn.number(row[0])]


@pytest.mark.parametrize("name", WINDOWS)
def test_rules_cut_as_plain_python_does(spark: SparkSession, name: str) -> None:
    window, every = WINDOWS[name], together()
    events = reference_rules.frame(spark, every)
    sessions = aggregate(
        events,
        window,
        timezone="Europe/Berlin",
        aggregates={
            "n": agg.count(),
            "total": agg.sum("value"),
            "first": agg.first("campaign"),
            "values": agg.collect_list("value"),
        },
        **COMMON,
    )
    expected = []
    for own, _ in reference_rules.sessions(window, every, "Europe/Berlin"):
        first = min(own, key=lambda v: (v.time, v.arrival, v.campaign is not None, v.campaign))
        values = [v.value for v in sorted(own, key=lambda v: (v.time, v.arrival, v.value))]
        expected.append(
            (own[0].key, own[0].time, own[-1].time, len(own), sum(values), first.campaign, values)
        )
    made = [tuple(row) for row in rows(sessions)]
    assert len({row[1] for row in made}) == len(made), "ids are unique"
    drawn.check(
        Counter((*row[:1], *row[2:7], str(row[7])) for row in made),
        Counter((*row[:6], str(row[6])) for row in expected),
        case=case,
    )


@pytest.mark.parametrize("name", ["both limits", "all"])
def test_sessionize_and_aggregate_agree(spark: SparkSession, name: str) -> None:
    window, every = WINDOWS[name], together()
    if name == "both limits":
        # `sessionize` orders events of equal time and arrival by all their columns, `aggregate`
        # by those that it is asked for.
        every = [replace(v, campaign=None, referrer=None, login=None, logout=None) for v in every]
    events = reference_rules.frame(spark, every)
    counts = {"n": agg.count(), "total": agg.sum("value")}
    sessions = aggregate(events, window, aggregates=counts, **COMMON)
    by_id: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    placed = rows(sessionize(events, window, **COMMON))
    assert len(placed) == len(every)
    for row in placed:
        if row[8] is not None:
            by_id[row[8]].append(row)
        else:
            assert row[8:] == (None,) * 10
    made = {(r[1], r[0], r[2], r[3], r[4], r[5]) for r in rows(sessions)}
    again = {
        (id, own[0][0], own[0][9], own[0][10], len(own), sum(r[7] for r in own))
        for id, own in by_id.items()
    }
    assert made == again
    numbers: dict[str, set[int]] = defaultdict(set)
    for own in by_id.values():
        own.sort(key=lambda r: r[12])
        numbers[own[0][0]].add(own[0][11])
        start, end = own[0][9], own[0][10]
        for place, row in enumerate(own, 1):
            last = place == len(own)
            to_next = 0 if last else own[place][1] - row[1]
            assert row[12:15] == (place, place == 1, last)
            assert row[15] == (None if last else to_next / 1_000_000)
            assert row[16] == (None if start == end else pytest.approx(to_next / (end - start)))
            assert row[17] == len(own) - place + 1
    assert all(ordinals == set(range(1, len(ordinals) + 1)) for ordinals in numbers.values())


def test_copies_of_an_event_count_once_before_rules_cut(spark: SparkSession) -> None:
    events = spark.createDataFrame(
        [("a", 0, "1"), ("a", 0, "1"), ("a", 1, "2"), ("a", 2, "3"), ("a", 2, "3")],
        "key string, time bigint, id string",
    )
    sessions = aggregate(
        events,
        SessionWindow(gap="30m", max_events=2),
        key="key",
        time="time",
        time_format="epoch_us",
        id="id",
        aggregates={"n": agg.count()},
    )
    assert sorted(row["n"] for row in sessions.collect()) == [1, 2]


@pytest.mark.spark_only
def test_equal_keys_are_one_key_where_slices_leave_a_doubt(spark: SparkSession) -> None:
    events = spark.sql(
        "SELECT IF(id % 2 = 0, 0.0D, -0.0D) AS key, id * 1000 AS time,"
        " IF(id % 2 = 0, 'x', 'y') AS page FROM range(6)"
    )
    window = SessionWindow(gap="30m", new_when="page")
    counts = {"n": agg.count()}
    sessions = aggregate(
        events, window, key="key", time="time", time_format="epoch_us", aggregates=counts
    )
    assert [row["n"] for row in sessions.collect()] == [1] * 6


REFUSED = [
    ({"max_duration": "0s"}, "max_duration: must be greater than zero"),
    ({"max_duration": "1 day"}, "max_duration: can't be a calendar span"),
    ({"max_duration": "1h", "max_duration_on": "week"}, "max_duration_on: must be start or grid"),
    ({"max_duration_on": "grid"}, "max_duration_on: has no meaning without max_duration"),
    ({"max_events": 0}, "max_events: must be a whole number of events"),
    ({"new_when": ["a", "a"]}, "new_when: is listed twice"),
    ({"null_is_change": True}, "null_is_change: has no meaning without new_when"),
    ({"start_when": " "}, "start_when: must be a predicate in Spark SQL"),
    ({"split": "25:00"}, "split: must be midnight or a time of day"),
    ({"min_events": 5, "max_events": 4}, "min_events: is more than max_events, 4"),
]


@pytest.mark.parametrize(("rules", "problem"), REFUSED)
def test_rules_without_meaning_are_refused(rules: dict[str, Any], problem: str) -> None:
    with pytest.raises(WindowError) as error:
        SessionWindow(gap="30m", **rules)
    assert str(error.value).startswith(problem)
    assert error.value.way_out


@pytest.mark.parametrize(
    ("rules", "kind", "problem"),
    [
        ({"new_when": "campain"}, ColumnError, "new_when: there is no such column (got 'campain')"),
        ({"start_when": "value"}, WindowError, "start_when: is not a predicate but bigint"),
        ({"end_when": "nothing = 1"}, WindowError, "end_when: does not fit the events"),
    ],
)
def test_rules_that_do_not_fit_the_events_are_refused(
    spark: SparkSession, rules: dict[str, Any], kind: type[BackfillError], problem: str
) -> None:
    events = reference_rules.frame(spark, [Visit("a", 0)])
    window = SessionWindow(gap="30m", **rules)
    with pytest.raises(kind) as error:
        aggregate(events, window, aggregates={"n": agg.count()}, **COMMON)
    assert str(error.value).startswith(problem)
    with pytest.raises(kind):
        sessionize(events, window, **COMMON)


def test_combining_events_is_refused_with_rules(spark: SparkSession) -> None:
    events = reference_rules.frame(spark, [Visit("a", 0)])
    window = SessionWindow(gap="30m", max_events=2)
    with pytest.raises(WindowError, match="combine: has no meaning for sessions with rules"):
        aggregate(events, window, aggregates={"n": agg.count()}, combine=True, **COMMON)

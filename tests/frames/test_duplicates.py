"""Redelivered events count once, and which of two differing copies counts is always the same."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from backfill import HoppingWindow, SessionWindow, aggregate
from backfill import aggregates as agg
from tests import drawn, reference
from tests.event_frames import frame, rows
from tests.reference import Event

GAP = 1_000_000
COMMON = {"key": "key", "time": "time", "time_format": "epoch_us", "id": "id"}

events = drawn.few_or_many(
    st.builds(
        Event,
        st.sampled_from(["a", "b"]),
        st.integers(-3, 3).map(lambda n: n * GAP // 2),
        st.one_of(st.none(), st.integers(0, 2)),
        st.sampled_from(["x", "y", None]),
        st.integers(0, 2),
    )
)


@pytest.mark.parametrize("combine", [None, False])
@pytest.mark.parametrize("arrival", [None, "arrival"])
@pytest.mark.parametrize("empty", [False, True])
def test_events_of_equal_key_time_and_id_count_once(
    spark: SparkSession, arrival: str | None, combine: bool | None, empty: bool
) -> None:
    cases: list[list[Event]] = [[]] if empty else drawn.cases(events, 400)
    together = drawn.apart(cases)
    # The state of a list belongs to a group, so with it events would be combined in any case.
    lists = {} if combine is False else {"list": agg.collect_list("value")}
    known = together if arrival else [Event(e.key, e.time, e.value, e.id) for e in together]
    result = aggregate(
        frame(spark, together),
        SessionWindow(gap="1s"),
        aggregates={"n": agg.count(), "total": agg.sum("value"), **lists},
        arrival=arrival,
        combine=combine,
        **COMMON,
    )
    expected = {}
    for session in reference.sessions(reference.distinct(known), GAP):
        ordered = sorted(session, key=lambda e: (e.time, e.arrival, e.value or 0))
        values = [e.value for e in ordered if e.value is not None]
        total = sum(values) if values else None
        sums = (len(session), total)
        expected[session[0].key, session[0].time] = (*sums, values) if lists else sums
    found_rows = rows(result)
    sessions = {(row[0], row[2]): row[4:] for row in found_rows}
    assert len(sessions) == len(found_rows)
    drawn.check(sessions, expected, case=lambda place: cases[drawn.number(place[0])])


def test_without_arrival_the_smallest_attributes_count_together(spark: SparkSession) -> None:
    copies = spark.createDataFrame(
        [("a", 0, "x", 1, "z"), ("a", 0, "x", 2, "a"), ("a", 0, "x", 1, "y")],
        "key string, time bigint, id string, amount bigint, page string",
    )
    [row] = aggregate(
        copies,
        SessionWindow(gap="1s"),
        aggregates={"amount": agg.sum("amount"), "page": agg.first("page")},
        **COMMON,
    ).collect()
    # (1, 'y') is one row of the three; the smallest of each column apart would be (1, 'a').
    assert (row["amount"], row["page"]) == (1, "y")


@pytest.mark.parametrize("combine", [None, False])
def test_without_a_key_too(spark: SparkSession, combine: bool | None) -> None:
    twice = [Event("a", GAP, 5, "x"), Event("b", GAP, 5, "x"), Event("a", 2 * GAP, 5, None)]
    result = aggregate(
        frame(spark, twice),
        SessionWindow(gap="1s"),
        aggregates={"n": agg.count()},
        combine=combine,
        **{**COMMON, "key": []},
    )
    assert rows(result.drop("session_id")) == [(GAP, 2 * GAP, 2)]


def test_in_hopping_windows_too(spark: SparkSession) -> None:
    twice = [Event("a", GAP, 5, "x"), Event("a", GAP, 5, "x"), Event("a", GAP, 5, None)]
    result = aggregate(
        frame(spark, twice),
        HoppingWindow(size="4s", advance="2s"),
        aggregates={"n": agg.count()},
        **COMMON,
    )
    assert {row[1:] for row in rows(result)} == {(-2 * GAP, 2 * GAP, 2), (0, 4 * GAP, 2)}

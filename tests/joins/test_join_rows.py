"""The rows of joins' tables, checked by looking at every pair."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from backfill.conservation import assigned_to
from backfill.engines import PLAIN
from backfill.errors import ColumnError, WindowError
from backfill.events import EventRules, normalise
from backfill.frames.cutting import slice_events
from backfill.rows.compute import Sliced
from backfill.rows.definition import Definition
from backfill.runtimes.differences import computed_once
from backfill.windows import JoinWindow
from backfill.windows.message_gaps import messages
from tests import drawn
from tests.event_frames import from_rows, rows
from tests.joins import reference
from tests.joins.reference import HOWS, Row
from tests.joins.test_join_by_count import pairs

pytestmark = pytest.mark.usefixtures("interpreted")

COLUMNS = {"value": "left.value", "arrival": "left.arrival"}
THEIRS = {"their_value": "right.value", "their_arrival": "right.arrival"}


def window(how: str, *, where: str | None = None, **more: Any) -> JoinWindow:
    theirs = THEIRS if how in ("inner", "left", "full") else {}
    given = {"left": "side = 'left'", "right": "side = 'right'", "within": ("20us", "10us")}
    return JoinWindow(**{**given, **more}, how=how, where=where, columns={**COLUMNS, **theirs})


def sliced(events: DataFrame, windows: list[JoinWindow], id: str | None = None) -> Sliced:
    rules = EventRules(key=("key", "part"), time="time", time_format="epoch_us", null_key=True)
    return slice_events(
        normalise(events, rules),
        [Definition(join, {}) for join in windows],
        key=["key", "part"],
        engine=PLAIN,
        zone="UTC",
        id=id,
        arrival=[],
        keep=computed_once,
    )


def frame(spark: SparkSession, left: list[Row], right: list[Row]) -> DataFrame:
    sides = (("left", left), ("right", right), ("neither", right))
    listed = [(*row.whole, side) for side, own in sides for row in own]
    return from_rows(spark, listed, f"{reference.SCHEMA}, side string")


def counted_rows(found: DataFrame, how: str) -> Counter[tuple[Any, ...]]:
    """The rows in the form in which `join` gives them."""
    at = "left_time" if how == "full" else "event_time"
    theirs = ["unix_micros(right_time)", *THEIRS] if "right_time" in found.columns else []
    return Counter(rows(found.selectExpr("key", "part", f"unix_micros({at})", *COLUMNS, *theirs)))


@pytest.mark.parametrize(
    ("where", "count"),
    [(None, None), ("right.value > left.value", None), ("right.value > left.value", 2)],
)
def test_pairs_are_those_of_plain_python(
    spark: SparkSession, where: str | None, count: int | None
) -> None:
    cases = [
        tuple([row for row in side if row.time is not None] for side in case)
        for case in drawn.cases(reference.sides(10), 200)
    ]
    left, right = reference.apart(cases)
    within = {} if count is None else {"within": messages(count)}
    every = [window(how, where=where, **within) for how in HOWS]
    cut = sliced(frame(spark, left, right), every)

    def close(one: Row, other: Row) -> bool:
        assert one.time is not None
        assert other.time is not None
        near = count is not None or one.time - 20 <= other.time <= one.time + 10
        known = one.value is not None and other.value is not None
        held = where is None or (known and other.value > one.value)  # type: ignore[operator]
        return near and held and reference.same_key(one, other)

    def made(left: list[Row], right: list[Row], how: str) -> Counter[tuple[Any, ...]]:
        last = None if count is None else pairs(left, right, count, arrived=False)
        return reference.joined(
            left,
            right,
            how,
            lambda i, j: close(left[i], right[j]) and (last is None or (i, j) in last),
        )

    def expected(how: str) -> Counter[Any]:
        return reference.by_case(cases, lambda left, right: made(left, right, how))

    for how, join in zip(HOWS, every, strict=True):
        built = cut.build(Definition(join, {}))
        drawn.check(counted_rows(built.result(), how), expected(how), reference.case_of(cases))
        # Each event has a row of its own, published or not.
        held = built.frame.agg(F.sum(built.kind.held)).collect()[0][0]
        assert held == assigned_to(cut.of(built.definition), built.definition)
        assert held == len(left) + len(right)


def test_an_event_on_both_sides(spark: SparkSession) -> None:
    given = [Row("a", 5, 1), Row("a", 7, 2), Row("a", 7, 2)]
    full = window("full", left="true", right="value > 0", within="2us")
    built = sliced(frame(spark, given, []), [full]).build(Definition(full, {}))
    assert built.result().count() == 9
    assert built.frame.agg(F.sum(built.kind.held)).collect()[0][0] == 3


def test_columns_within_columns(spark: SparkSession) -> None:
    given = frame(spark, [Row("a", 5, 1)], [Row("a", 5, 1), Row("a", 5, 2)])
    events = given.withColumn("payload", F.struct(F.array("value").alias("list")))
    same = window("inner", where="`left`.payload.list = right.payload.list")
    built = sliced(events, [same]).build(Definition(same, {}))
    assert [row.their_value for row in built.result().collect()] == [1]


def test_copies_count_once(spark: SparkSession) -> None:
    given = frame(spark, [Row("a", 5, 1)] * 2, [Row("a", 5, 2)] * 3)
    events = given.withColumn("id", F.concat("side", F.coalesce("value", F.lit(0))))
    join = window("inner")
    result = sliced(events, [join], "id").build(Definition(join, {})).result()
    assert result.columns[3:7] == ["id", "right_time", "id_right", "value"]
    assert [(row.id, row.id_right) for row in result.collect()] == [("left1", "right2")]


def test_what_does_not_fit_the_events_is_refused(spark: SparkSession) -> None:
    events = frame(spark, [], []).withColumn("_join_at", F.lit(1))
    events = events.withColumn("tags", F.map_from_arrays(F.array(), F.array()))
    for problem, bad in (
        ("left: does not fit the events", window("left", left="sid = 'left'")),
        ("right: is not a predicate but string", window("left", right="side")),
        (
            "where: there is no such column .*Did you mean 'value'",
            window("left", where="left.valu > 1"),
        ),
        ("where: is map<void,void>, which can't order", window("left", where="left.tags IS NULL")),
        ("where: is a name that the join itself uses", window("left", where="left._join_at > 1")),
    ):
        with pytest.raises((ColumnError, WindowError), match=problem):
            sliced(events, [bad])
    wrong = window("left", where="left.value = right.side AND value > 1")
    with pytest.raises(WindowError, match="where: does not fit the events"):
        sliced(events, [wrong]).build(Definition(wrong, {}))

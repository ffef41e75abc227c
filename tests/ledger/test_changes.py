"""What became of each window: against a plain Python comparison of two lists of windows."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from backfill import CumulatingWindow, SessionWindow, TumblingWindow
from backfill.engines import engine
from backfill.errors import ColumnError
from backfill.ledger.changes import KINDS, changes, first_changes
from backfill.windows import Window
from tests import drawn
from tests.event_frames import from_rows
from tests.plans import explained, nodes
from tests.reference import instant

GAP = 10
SESSION = SessionWindow(gap=f"{GAP}us")
PLAIN = engine("plain").rules


@dataclass(frozen=True)
class Session:
    """A row as a table has it: the key, the span in µs, two values."""

    key: str | None
    start: int
    last: int
    value: float | None = None
    pages: tuple[str | None, ...] | None = ()
    is_open: bool = False

    @property
    def id(self) -> str:
        return f"{self.key}@{self.start}"


def table(spark: SparkSession, sessions: Sequence[Session], behind: int = 0) -> DataFrame:
    rows = [
        (s.key, s.id, s.start, s.last + behind, s.value, s.pages and list(s.pages), s.is_open, i)
        for i, s in enumerate(sessions)
    ]
    schema = (
        "key string, session_id string, start bigint, last bigint, value double, "
        "pages array<string>, is_open boolean, _events int"
    )
    return from_rows(spark, rows, schema).selectExpr(
        "key",
        "session_id",
        "timestamp_micros(start) window_start",
        "timestamp_micros(last) window_end",
        "value",
        "pages",
        "is_open",
        "_events",
        "date'2026-01-01' date",
    )


# The plain way: every pair of every key.


def same(a: Any, b: Any) -> bool:
    nan = isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b)
    return nan or a == b


def expected(old: Sequence[Session], new: Sequence[Session], behind: int = 0) -> Counter[Any]:
    links = [
        (a, b)
        for a in old
        for b in new
        if a.key == b.key and a.start <= b.last and b.start <= a.last
    ]
    of_old, of_new = Counter(a for a, _ in links), Counter(b for _, b in links)
    tally: Counter[Any] = Counter()
    for a, b in links:
        columns = {
            "session_id": (a.id, b.id),
            "window_start": (a.start, b.start),
            "window_end": (a.last, b.last),
            "value": (a.value, b.value),
            "pages": (a.pages, b.pages),
            "is_open": (a.is_open, b.is_open),
        }
        changed = tuple(name for name, sides in columns.items() if not same(*sides))
        kind = "merged" if of_new[b] > 1 else "split" if of_old[a] > 1 else "updated"
        if kind != "updated" or changed:
            tally[kind, a.key, as_row(a), as_row(b), changed] += 1
    for a in old:
        if not of_old[a]:
            tally["deleted", a.key, as_row(a), None, ()] += 1
    for b in new:
        if not of_new[b]:
            tally["inserted", b.key, None, as_row(b), ()] += 1
    return tally


def as_row(s: Session) -> tuple[Any, ...]:
    return (s.id, instant(s.start), instant(s.last), repr(s.value), s.pages, s.is_open)


def actual(found: DataFrame, behind: int = 0) -> Counter[Any]:
    back = dt.timedelta(microseconds=behind)

    def side(row: dict[str, Any] | None) -> tuple[Any, ...] | None:
        if row is None:
            return None
        pages = row["pages"] if row["pages"] is None else tuple(row["pages"])
        end = row["window_end"] - back
        value = repr(row["value"])
        return (row["session_id"], row["window_start"], end, value, pages, row["is_open"])

    return Counter(
        (
            row["change"],
            row["key"]["key"],
            side(row["old"]),
            side(row["new"]),
            tuple(row["changed"]),
        )
        for row in found.toArrow().to_pylist()
    )


values = st.sampled_from([None, 1.0, 2.0, 0.0, -0.0, math.nan])
pages = st.sampled_from([None, (), ("/",), ("/", None)])


@st.composite
def one_key(draw: st.DrawFn) -> list[tuple[int, int, Any, Any, bool]]:
    """Disjoint spans that touch, meet and miss each other often."""
    at, spans = draw(st.integers(-3, 3)), []
    for away, length in draw(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 5)), max_size=6)):
        start = at + away
        at = start + length
        spans.append((start, at, draw(values), draw(pages), draw(st.booleans())))
    return spans


WORLDS = st.tuples(one_key(), one_key(), st.booleans())


@pytest.mark.parametrize("name", ["plain", "beam"])
def test_sessions_as_the_plain_way_finds_them(spark: SparkSession, name: str) -> None:
    rules = engine(name).rules
    behind = 0 if rules.session_end == "last_event" else 1_000
    cases = drawn.cases(WORLDS, 240)
    old, new = [], []
    for number, (before, after, equal) in enumerate(cases):
        # All cases with the key NULL share it, so they are apart in time.
        key, shift = (f"{number}:k", 0) if number % 8 else (None, 100_000 * number)
        for sessions, spans in ((old, before), (new, before if equal else after)):
            sessions += [Session(key, s + shift, e + shift, *rest) for s, e, *rest in spans]
    comparison = changes(
        table(spark, old, behind),
        table(spark, new, behind),
        key=["key"],
        window=SESSION if name == "plain" else SessionWindow(gap="1ms"),
        rules=rules,
    )

    def case_of(change: Any) -> Any:
        _, key, before, after, _ = change
        if key is not None:
            return cases[drawn.number(key)]
        start = (before or after)[1] - instant(0)
        return cases[round(start / dt.timedelta(microseconds=100_000))]

    drawn.check(actual(comparison, behind), expected(old, new), case=case_of)


# Old spans, new spans, and what is said of each link or lone window, in order of its start.
CASES: list[tuple[list[tuple[int, int]], list[tuple[int, int]], list[str]]] = [
    ([], [(0, 5)], ["inserted"]),
    ([(0, 5)], [], ["deleted"]),
    ([(0, 5)], [(0, 5)], []),
    ([(0, 5)], [(0, 6)], ["updated"]),
    ([(5, 5)], [(0, 5)], ["updated"]),
    ([(0, 5)], [(6, 7)], ["deleted", "inserted"]),
    ([(0, 5)], [(5, 7)], ["updated"]),
    ([(0, 1), (20, 21), (40, 41)], [(0, 41)], ["merged"] * 3),
    ([(0, 41)], [(0, 1), (20, 21), (40, 41)], ["split"] * 3),
    ([(0, 41)], [(0, 41)], []),
    # Cut in the middle, and its second half joined with the next.
    ([(0, 30), (50, 60)], [(0, 10), (25, 60)], ["split", "merged", "merged"]),
    ([(0, 10), (30, 60)], [(0, 40), (60, 60)], ["merged", "merged", "split"]),
]


def test_kinds(spark: SparkSession) -> None:
    old, new = (
        [Session(f"{i}", *span) for i, case in enumerate(CASES) for span in case[side]]
        for side in (0, 1)
    )
    comparison = changes(
        table(spark, old), table(spark, new), key=["key"], window=SESSION, rules=PLAIN
    )
    rows = comparison.select(
        "key.key",
        F.coalesce("new.window_start", "old.window_start").alias("new"),
        F.coalesce("old.window_start", "new.window_start").alias("old"),
        "change",
    ).collect()
    for i, (*_, kinds) in enumerate(CASES):
        own = sorted(row[1:] for row in rows if row.key == f"{i}")
        assert [change for *_, change in own] == kinds, CASES[i]


def test_an_id_follows_the_start(spark: SparkSession) -> None:
    old, new = table(spark, [Session("a", 5, 9)]), table(spark, [Session("a", 2, 9)])
    [row] = changes(old, new, key=["key"], window=SESSION, rules=PLAIN).collect()
    assert (row.change, row.old.session_id, row.new.session_id) == ("updated", "a@5", "a@2")
    assert row.changed == ["session_id", "window_start"]


def test_a_session_with_very_many_parts(spark: SparkSession) -> None:
    times = "timestamp_micros({}) window_start, timestamp_micros({}) window_end"
    ids = "SELECT 'a' key, string(id) session_id, "
    parts = spark.sql(ids + times.format("20 * id", "20 * id + 1") + " FROM range(100000)")
    one = spark.sql(ids + times.format("0", "2000000") + " FROM range(1)")
    for old, new, kind in ((parts, one, "merged"), (one, parts, "split")):
        comparison = changes(old, new, key=["key"], window=SESSION, rules=PLAIN)
        counts = comparison.groupBy("change").count().collect()
        assert [tuple(row) for row in counts] == [(kind, 100_000)]


def aligned(spark: SparkSession, rows: Sequence[Any]) -> DataFrame:
    schema = "shop int, user string, start bigint, end bigint, n bigint"
    return from_rows(spark, rows, schema).selectExpr(
        "shop",
        "user",
        "timestamp_micros(start) window_start",
        "timestamp_micros(end) window_end",
        "n",
        "false is_open",
        "n + 1 _events",
        "date'2026-01-01' date",
    )


@pytest.mark.parametrize(
    "window", [TumblingWindow(size="10us"), CumulatingWindow(size="10us", step="5us")], ids=str
)
def test_aligned_windows_are_told_by_key_start_and_end(spark: SparkSession, window: Window) -> None:
    old = [(1, "a", 0, 5, 1), (1, "a", 0, 10, 1), (None, "a", 0, 10, 3), (1, None, 0, 10, 4)]
    new = [(1, "a", 0, 10, 2), (None, "a", 0, 10, 5), (1, None, 0, 10, 4), (1, "a", 5, 10, 7)]
    comparison = changes(
        aligned(spark, old),
        aligned(spark, new),
        key=["shop", "user"],
        window=window,
        rules=PLAIN,
    )
    rows = {
        (
            r.change,
            *r.key,
            (r.old or r.new).window_start.microsecond,
            r.old and r.old.n,
            r.new and r.new.n,
        )
        for r in comparison.collect()
    }
    assert rows == {
        ("deleted", 1, "a", 0, 1, None),
        ("updated", 1, "a", 0, 1, 2),
        ("updated", None, "a", 0, 3, 5),
        ("inserted", 1, "a", 5, None, 7),
    }


SIDES = st.tuples(
    *[
        st.dictionaries(
            st.tuples(
                st.sampled_from([None, 1, 2]),
                st.sampled_from([None, "a"]),
                st.sampled_from([0, 5, -5]),
                st.sampled_from([5, 10]),
            ),
            st.integers(1, 2),
            max_size=36,
        )
    ]
    * 2
)


def apart(number: int, at: tuple[int | None, str | None, int, int]) -> tuple[Any, ...]:
    """A window of a case, by user; all cases share the user NULL, so they are apart in time."""
    shop, user, start, end = at
    shift = 0 if user else 15_000 * number
    return (shop, user and f"{number}:{user}", start + shift, end + shift)


@pytest.mark.parametrize("empty", [False, True])
def test_aligned_windows_as_the_plain_way_finds_them(spark: SparkSession, empty: bool) -> None:
    cases: list[Any] = [({}, {})] if empty else drawn.cases(SIDES, 200)
    old, new = (
        {apart(i, at): n for i, case in enumerate(cases) for at, n in case[side].items()}
        for side in (0, 1)
    )
    case_of = {apart(i, at): case for i, case in enumerate(cases) for side in case for at in side}
    frames = [aligned(spark, [(*at, n) for at, n in side.items()]) for side in (old, new)]
    window = CumulatingWindow(size="15us", step="5us")
    comparison = changes(*frames, key=["shop", "user"], window=window, rules=PLAIN)
    rows = comparison.selectExpr(
        "key.shop",
        "key.user",
        "unix_micros(coalesce(old.window_start, new.window_start))",
        "unix_micros(coalesce(old.window_end, new.window_end))",
        "change",
        "old.n as before",
        "new.n as after",
    ).collect()
    by_window = {tuple(row[:4]): tuple(row[4:]) for row in rows}
    assert len(by_window) == len(rows)
    plain = {
        at: (
            "deleted" if at not in new else "inserted" if at not in old else "updated",
            old.get(at),
            new.get(at),
        )
        for at in {**old, **new}
        if old.get(at) != new.get(at)
    }
    drawn.check(by_window, plain, case=lambda at: case_of.get(at, "none"))


# A value before, one after, and whether they differ.
VALUES = [
    ("0.0D", "-0.0D", False),
    ("double('NaN')", "double('NaN')", False),
    ("CAST(NULL AS DOUBLE)", "0.0D", True),
    ("array(0.0D, double('NaN'), NULL)", "array(-0.0D, double('NaN'), NULL)", False),
    ("array(1, 2)", "array(2, 1)", True),
    ("map('a', 1, 'b', 2)", "map('b', 2, 'a', 1)", False),
    ("map('a', 1)", "map('a', 2)", True),
    ("map('a', 1)", "CAST(NULL AS MAP<STRING, INT>)", True),
    ("CAST(NULL AS MAP<STRING, INT>)", "CAST(NULL AS MAP<STRING, INT>)", False),
    ("map(1, map('a', -0.0D, 'b', 1D))", "map(1, map('b', 1D, 'a', 0.0D))", False),
    ("array(struct(map('a', 1, 'b', 2) m))", "array(struct(map('b', 2, 'a', 1) m))", False),
    ("array(struct(map('a', 1) m), NULL)", "array(NULL, struct(map('a', 1) m))", True),
    ("struct(1 a, NULL b)", "struct(1 a, NULL b)", False),
    ("binary('a')", "binary('b')", True),
    ("1", "1L", True),
    ("'1'", "1", True),
]


@pytest.mark.spark_only
def test_values(spark: SparkSession) -> None:
    old, new = (
        table(spark, [Session("a", 0, 1)]).selectExpr(
            "*", *(f"{case[side]} AS `{i}-x`" for i, case in enumerate(VALUES))
        )
        for side in (0, 1)
    )
    [row] = changes(old, new, key=["key"], window=SESSION, rules=PLAIN).collect()
    assert row.changed == [f"{i}-x" for i, (*_, differs) in enumerate(VALUES) if differs]


def test_a_column_that_only_one_version_has(spark: SparkSession) -> None:
    one = table(spark, [Session("a", 0, 1, value=1.0)])
    other = one.withColumnRenamed("value", "total").selectExpr("*", "total AS _state")
    [row] = changes(one, other, key=["key"], window=SESSION, rules=PLAIN).collect()
    assert row.changed == ["value", "total"]
    assert (row.old.value, row.new.total) == (1.0, 1.0)
    assert "_state" not in row.new


@pytest.mark.parametrize("name", ["old", "change", "a.b`"])
def test_keys_of_any_name(spark: SparkSession, name: str) -> None:
    old = table(spark, [Session("a", 0, 1)]).withColumnRenamed("key", name)
    new = table(spark, [Session("a", 0, 2), Session(None, 0, 2)]).withColumnRenamed("key", name)
    comparison = changes(old, new, key=[name], window=SESSION, rules=PLAIN)
    assert comparison.columns == ["change", "key", "old", "new", "changed"]
    assert sorted((row.key[name] or "", row.change) for row in comparison.collect()) == [
        ("", "inserted"),
        ("a", "updated"),
    ]


def test_one_group(spark: SparkSession) -> None:
    old = table(spark, [Session("a", 0, 1), Session("a", 20, 20)]).drop("key")
    new = table(spark, [Session("a", 0, 20)]).drop("key")
    comparison = changes(old, new, key=[], window=SESSION, rules=PLAIN)
    rows, counts = first_changes(comparison, 5)
    assert [row["key"] for row in rows] == [{}, {}]
    assert counts == {kind: 2 if kind == "merged" else 0 for kind in KINDS}


def test_the_first_changes_in_order(spark: SparkSession) -> None:
    new = [
        Session(key, start, start, pages=("x",)) for key in ("b", None, "a") for start in (50, 0)
    ]
    nothing = table(spark, [])
    comparison = changes(nothing, table(spark, new), key=["key"], window=SESSION, rules=PLAIN)
    rows, counts = first_changes(comparison, 3)
    assert [(row["key"]["key"], row["new"]["window_start"]) for row in rows] == [
        (None, instant(0)),
        (None, instant(50)),
        ("a", instant(0)),
    ]
    assert rows[0]["old"] is None
    assert counts["inserted"] == 6
    assert first_changes(
        changes(nothing, nothing, key=["key"], window=SESSION, rules=PLAIN), 3
    ) == (
        [],
        dict.fromkeys(KINDS, 0),
    )


@pytest.mark.spark_only
def test_other_keys_cannot_be_compared(spark: SparkSession) -> None:
    old = table(spark, [Session("1", 0, 1)])
    without = old.drop("session_id")
    hourly = TumblingWindow(size="1h")
    for new, window in (
        (without, SESSION),
        (without, hourly),
        (old.selectExpr("* except (key)", "1 key"), SESSION),
    ):
        with pytest.raises(ColumnError, match="differs between the two versions"):
            changes(old, new, key=["key"], window=window, rules=PLAIN)


@pytest.mark.spark_only
@pytest.mark.parametrize("window", [SESSION, TumblingWindow(size="1h")], ids=str)
def test_a_column_that_leaves_the_key(spark: SparkSession, window: Window) -> None:
    """Rows of two keys would be taken for one window's."""
    new = table(spark, [Session("1", 0, 1)])
    old = new.selectExpr("key", "'x' device", "* except (key)")
    with pytest.raises(ColumnError, match="device: differs between the two versions"):
        changes(old, new, key=["key"], window=window, rules=PLAIN)
    # As a value it may come and go.
    last = new.selectExpr("*", "'x' device")
    [row] = changes(last, new, key=["key"], window=window, rules=PLAIN).collect()
    assert row["changed"] == ["device"]


@pytest.mark.spark_only
@pytest.mark.of_plans
@pytest.mark.parametrize(
    ("window", "each_once", "joins"),
    [
        (SESSION, {"Exchange": 1, "Sort": 1, "Window": 1}, []),
        # Once for each version.
        (TumblingWindow(size="1h"), {"Exchange": 2, "Sort": 2, "Window": 0}, ["SortMergeJoin"]),
    ],
    ids=str,
)
def test_each_row_is_exchanged_and_sorted_once(
    spark: SparkSession, tmp_path: Any, window: Window, each_once: dict[str, int], joins: list[str]
) -> None:
    table(spark, [Session("a", 0, 1)]).write.parquet(str(tmp_path / "t"))
    frame = spark.read.parquet(str(tmp_path / "t"))
    comparison = changes(frame, frame, key=["key"], window=window, rules=PLAIN)
    plan = nodes(comparison)
    assert {name: plan[name] for name in each_once} == each_once
    assert [node for node in plan if "Python" in node or "Join" in node] == joins
    assert "_events" not in explained(comparison).split("ReadSchema")[1]

"""What is proved about a join is true, even if events were lost or arrived at the same time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from backfill.reconciliation.joins.causes import Counted
from backfill.reconciliation.joins.order import orders
from backfill.reconciliation.result import Reconciled
from backfill.windows.within import Reach
from tests.joins.test_reconciled_tables import (
    WROTE,
    Placed,
    drawn,
    emitted,
    job_in,
    reconciled,
    write,
    write_stream,
)

pytestmark = pytest.mark.usefixtures("interpreted")

#: How late events may be.
DELAY = {"kafka-streams": {"grace": "2ms"}, "flink": {"watermark_delay": "2ms"}}
#: Why a row differs, by key and row.
Reasons = Counter[tuple[str, str, tuple[str, ...]]]


def proved_reasons(found: Reconciled) -> Reasons:
    return Counter(
        (
            str(explained.key),
            repr((explained.difference.batch, explained.difference.stream)),
            explained.explanation.causes,
        )
        for explained in found.differences
        if explained.explanation.proved
    )


def compared(
    spark: SparkSession,
    folder: Path,
    events: Sequence[Placed],
    came: Sequence[Placed],
    engine: str,
    how: str,
    **settings: Any,
) -> Reconciled:
    """A job of the events, compared with what the stream wrote for those that reached it."""
    write(folder / "events", events)
    job = job_in(folder, engine, how)
    job.run(spark)
    write_stream(folder / WROTE, emitted(came, how, engine=engine, **settings))
    return reconciled(job, spark, folder, **settings)


def in_part(
    spark: SparkSession, folder: Path, engine: str, how: str, true: Sequence[Placed], each: int
) -> tuple[Reconciled, Reconciled]:
    """Compared by the order of arrival, and by a clock that knows this order only in part."""
    # The file has another order.
    shuffled = sorted(true, key=lambda event: (event.n // each, event.ad, -event.n))
    coarse = [replace(event, n=event.n // each) for event in shuffled]
    both = []
    for name, events in (("known", true), ("coarse", coarse)):
        (folder / name).mkdir()
        both.append(compared(spark, folder / name, events, true, engine, how, **DELAY[engine]))
    return both[0], both[1]


@pytest.mark.parametrize(("engine", "how"), [("kafka-streams", "left"), ("flink", "inner")])
def test_what_is_proved_is_so_in_every_order(
    spark: SparkSession, tmp_path: Path, engine: str, how: str
) -> None:
    # Each id once, since which of its copies counts would depend on the order as well.
    events = [event for event in drawn(Random(11), 900) if event.id is not None]
    once = {event.id: event for event in events}
    true = sorted(once.values(), key=lambda event: event.n)
    known, coarse = in_part(spark, tmp_path, engine, how, true, each=12)
    assert (known.matched, known.batch) == (coarse.matched, coarse.batch)
    assert known.possible == known.unexplained == 0
    assert proved_reasons(coarse) <= proved_reasons(known)
    assert proved_reasons(coarse)
    assert coarse.possible + coarse.unexplained > 0


def delivered(random: Random, at_once: int) -> tuple[list[Placed], set[int]]:
    """Events in order of arrival, and the numbers of the deliveries that are lost.

    Some lost events are sent again later.
    """
    events = list({e.id: e for e in drawn(random, 900, keys=8) if e.id is not None}.values())
    events.sort(key=lambda event: event.n)
    firsts = [random.randrange(0, len(events), at_once) for _ in range(30 // at_once)]
    gone = {n for first in firsts for n in range(first, first + at_once)}
    every: list[tuple[float, Placed, bool]] = []
    for n, event in enumerate(events):
        every.append((n, event, n in gone))
        if n in gone and random.random() < 0.3:
            every.append((n + random.randrange(5, 40) + 0.5, event, False))
    every.sort(key=lambda one: one[0])
    placed = [replace(event, n=n) for n, (_, event, _) in enumerate(every)]
    return placed, {n for n, (_, _, is_lost) in enumerate(every) if is_lost}


@pytest.mark.parametrize(
    ("engine", "how", "at_once"), [("kafka-streams", "left", 25), ("flink", "inner", 1)]
)
def test_lost_events_and_late_ones(
    spark: SparkSession, tmp_path: Path, engine: str, how: str, at_once: int
) -> None:
    """Events that moved the clock were lost as well, so others were not late."""
    events, lost = delivered(Random(at_once), at_once)

    def wrote(came: set[str | None] = frozenset()) -> set[tuple[str | None, str | None]]:
        """The ids of the stream's pairs, if the events of these ids had come as well."""
        there = [e for e in events if e.n not in lost or e.id in came]
        rows = emitted(there, how, engine=engine, **DELAY[engine])
        return {(row[2], row[3]) for row in rows}

    of_stream = [e for e in events if e.n not in lost]
    comparison = compared(spark, tmp_path, events, of_stream, engine, how, **DELAY[engine])
    ids = {event.id for event in events if event.n in lost}
    pairs = [
        (explained, (row.values["id"], row.values["id_right"]))
        for explained in comparison.differences
        for row in explained.difference.batch
    ]
    proved: Counter[str] = Counter()
    for explained, pair in pairs:
        (cause,) = explained.explanation.causes
        if explained.explanation.proved:
            proved[cause] += 1
            if cause == "missing_in_stream":
                assert ids & set(pair), explained
            else:
                # Even if its events had come, the stream would have lacked it.
                assert pair not in wrote(set(pair)), explained
    for explained in comparison.differences:
        for row in explained.difference.stream if explained.explanation.proved else ():
            alone = row.values["id"], row.values["id_right"]
            (cause,) = explained.explanation.causes
            if None in alone and cause in ("late", "missing_in_stream"):
                partners = {
                    id for _, pair in pairs if set(pair) & set(alone) - {None} for id in pair
                }
                assert (alone in wrote(partners)) == (cause == "late"), explained
    assert proved["late"] > 0
    assert proved["missing_in_stream"] > 0
    assert proved.total() > 100


def test_a_late_event_of_a_key_that_lost_another(spark: SparkSession, tmp_path: Path) -> None:
    """It is late whether or not the other one came."""
    events = [
        Placed("a", 0, 1, True, 1, "a0"),
        Placed("a", 1, 2, False, 2, "a1"),
        Placed("a", 2, 3, False, 3, "a2"),
        Placed("b", 900, 4, True, 1, "b0"),
        Placed("b", 901, 5, False, 1, "b1"),
        Placed("a", 3, 6, False, 4, "a3"),
    ]
    came = [event for event in events if event.id != "a2"]
    comparison = compared(spark, tmp_path, events, came, "flink", "inner", watermark_delay="0s")
    assert {
        (row.values["id_right"], *explained.explanation.causes, explained.explanation.proved)
        for explained in comparison.differences
        for row in explained.difference.batch
    } == {("a2", "missing_in_stream", True), ("a3", "late", True)}


def test_rows_that_only_the_table_has(spark: SparkSession, tmp_path: Path) -> None:
    """The source no longer has the events of one, so it is unknown why the stream lacks it."""
    events = [
        Placed(key, time, n, left, 1, f"e{n}")
        for n, (key, time, left) in enumerate(
            [("a", 0, True), ("a", 1, False), ("b", 50, True), ("b", 51, False)]
        )
    ]
    write(tmp_path / "events", events)
    job = job_in(tmp_path, "flink", "inner")
    job.run(spark)
    write(tmp_path / "events", events[2:])
    write_stream(tmp_path / WROTE, emitted(events[2:], "inner", engine="flink"))
    comparison = reconciled(job, spark, tmp_path)
    assert (comparison.causes, comparison.unexplained) == ({"unexplained": 1}, 1)


@pytest.mark.parametrize("copies", [{1: 0, 2: 0}, {2: 0, 1: 0}])
def test_no_copy_came_for_certain_if_one_is_in_no_row(copies: dict[int, int]) -> None:
    assert Counted(copies).came({0, 1, 5}, ()) == {5}
    assert Counted(copies).came({0, 1, 2, 5}, ()) == {0, 1, 2, 5}
    assert Counted(copies).came({0, 1, 2, 5}, {0}) == {5}


def test_events_that_arrived_one_by_one_or_at_the_same_time() -> None:
    reach = Reach(-3, 1)
    assert orders([(1, True, 5), (2, False, 3), (3, True, 9)], reach) == [[0, 1, 2]]
    assert orders([(1, True, 5), (1, True, 5), (2, True, None), (3, True, 4)], reach) == [
        [0, 1, 2, 3]
    ]
    # At the same time, either side's event may be first.
    assert orders([(1, True, 5), (1, False, 5)], reach) == [[0, 1], [1, 0]]
    at_once = [(1, True, 5), (2, True, 7), (2, False, 9), (2, False, 4), (2, False, 7)]
    assert orders(at_once, reach) == [
        [0, 1, 2, 3, 4],
        # The earliest first, with either side's first at the same time; then the latest first.
        [0, 3, 4, 1, 2],
        [0, 2, 4, 1, 3],
        [0, 2, 1, 4, 3],
        # The left side first, then the latest of the right side; and the other way round.
        [0, 1, 2, 4, 3],
        [0, 4, 3, 1, 2],
        # The left side's before all that they can be paired with. The right side's already are.
        [0, 1, 4, 2, 3],
    ]


def test_a_pair_between_whose_events_the_clock_may_have_moved(
    spark: SparkSession, tmp_path: Path
) -> None:
    """All arrived at the same time; in the order of the file nothing was late."""
    before = [Placed("c", 0, -1, True, 1, "v"), Placed("c", 0, 0, False, 1, "w")]
    events = [
        *before,
        Placed("a", 0, 1, True, 1, "x"),
        Placed("a", 1, 1, False, 1, "y"),
        Placed("b", 900, 1, False, 1, "z"),
    ]
    comparison = compared(spark, tmp_path, events, before, "kafka-streams", "inner", grace="0s")
    assert (len(comparison.differences), comparison.possible + comparison.unexplained) == (1, 1)


def test_a_pair_that_may_have_come_before_the_clock_moved(
    spark: SparkSession, tmp_path: Path
) -> None:
    """If the click came just before the buy, and the other click after both, there is a row."""
    before = [
        Placed("d", 50, -2, True, 1, "v"),
        Placed("d", 51, -1, False, 1, "u"),
        Placed("c", 100, 0, False, 1, "z"),
    ]
    buy, click = Placed("a", 85, 1, False, 1, "y"), Placed("a", 88, 1, True, 1, "x")
    other = Placed("b", 130, 1, True, 1, "w")
    in_time = [*before, click, replace(buy, n=2), replace(other, n=3)]
    settings = {"engine": "kafka-streams", "grace": "2ms"}
    assert len(emitted(in_time, "inner", **settings)) == 2
    for number, others in enumerate([(buy, click, other), (other, click, buy)]):
        (tmp_path / str(number)).mkdir()
        comparison = compared(
            spark, tmp_path / str(number), [*before, *others], before, how="inner", **settings
        )
        assert (len(comparison.differences), comparison.possible + comparison.unexplained) == (1, 1)


def test_an_event_that_was_delivered_twice_and_lost(spark: SparkSession, tmp_path: Path) -> None:
    """Neither copy came, so its partner is alone."""
    first = Placed("a", 1, 2, False, 2, "y")
    events = [
        Placed("a", 0, 1, True, 1, "x"),
        first,
        replace(first, n=3),
        Placed("b", 900, 4, True, 1, "z"),
        Placed("b", 901, 5, False, 1, "w"),
        Placed("c", 990, 6, True, 1, "v"),
    ]
    came = [event for event in events if event.id != "y"]
    comparison = compared(spark, tmp_path, events, came, "kafka-streams", "left")
    of_a = [explained for explained in comparison.differences if explained.key == ("a",)]
    assert [explained.explanation.causes for explained in of_a] == [("missing_in_stream",)] * 2
    assert all(explained.explanation.proved for explained in of_a)

"""Count windows against plain Python: for each window, the events that it holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import pytest
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from backfill import CountWindow, TumblingWindow, aggregate
from backfill import aggregates as agg
from backfill.aggregates import Aggregate
from backfill.engines import ENGINES
from backfill.errors import AggregateError, ColumnError, WindowError
from backfill.operators import counting
from backfill.replay import Event as Arriving
from backfill.replay import replay
from backfill.rows import count_rows
from backfill.time.durations import Fixed
from tests import drawn
from tests.event_frames import frame, rows
from tests.on_sail import ON_SAIL
from tests.reference import Event
from tests.reference_counts import held, in_order

COMMON = {"key": "key", "time": "time", "time_format": "epoch_us"}
BOTH: dict[str, Aggregate] = {"n": agg.count(), "total": agg.sum("value")}
AGGREGATES: dict[str, Aggregate] = {
    **BOTH,
    "present": agg.count("value"),
    "most": agg.max("value", where="value < 5"),
    "mean": agg.mean("cast(value as int)"),
    "first": agg.first("value"),
    "last": agg.last("value"),
    "values": agg.collect_list("value"),
    "distinct": agg.count_distinct("value"),
}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks and parts of a few events, so that a short case has many."""
    monkeypatch.setattr(counting, "BLOCK", 10)
    monkeypatch.setattr(counting, "ONE_OF", 2)
    monkeypatch.setattr(counting, "_CELL_BITS", 5)
    monkeypatch.setattr(count_rows, "_PART_EVENTS", 1)
    monkeypatch.setattr(count_rows, "_FRAME_EVENTS", 3)


@cache
def crowds() -> st.SearchStrategy[list[Event]]:
    """Events of two keys with ties of time and of arrival, before 1970 too, some far away."""
    time = st.integers(-20, 60) | st.integers(-3, 3).map(lambda n: n * 10**14)
    event = st.tuples(st.sampled_from("ab"), time, st.none() | st.integers(-9, 9))
    return drawn.few_or_many(event).map(
        lambda crowd: [Event(k, t, v, None, (i * 7 % 64) // 2) for i, (k, t, v) in enumerate(crowd)]
    )


def folded(events: Sequence[Event], names: Iterable[str]) -> tuple[Any, ...]:
    inside = in_order(events, "time")
    values = [e.value for e in inside if e.value is not None]
    by_name = {
        "n": len(inside),
        "total": sum(values) if values else None,
        "present": len(values),
        "most": max((v for v in values if v < 5), default=None),
        "mean": sum(values) / len(values) if values else None,
        "first": inside[0].value,
        "last": inside[-1].value,
        "values": tuple(values),
        "distinct": len(set(values)),
    }
    return tuple(by_name[name] for name in names)


def expected_of(
    events: Iterable[Event], window: CountWindow, names: Iterable[str]
) -> Counter[tuple[Any, ...]]:
    own = in_order(events, window.order)
    windows: Counter[tuple[Any, ...]] = Counter()
    for number, places in enumerate(held(own, window), 1):
        if places:
            inside = [own[i] for i in places]
            times = [e.time for e in inside if e.time is not None]
            # In a window up to a time, other events of that time come after its last one.
            timed = isinstance(window.size, Fixed) and isinstance(window.advance, int)
            last = number * window.advance if timed else places[-1] + 1  # type: ignore[operator]
            bounds = (min(times), max(times), places[0] + 1, last)
            windows[(*bounds, *folded(inside, names))] += 1
    return windows


def by_key(result: Iterable[tuple[Any, ...]]) -> dict[str, Counter[Any]]:
    groups: dict[str, Counter[Any]] = {}
    for key, *row in result:
        groups.setdefault(key, Counter())[tuple(map(_hashable, row))] += 1
    return groups


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


WINDOWS = [
    CountWindow(size=1),
    CountWindow(size=3),
    CountWindow(size=5, order="time"),
    CountWindow(size=4, advance=4),
    CountWindow(size=6, advance=2, order="time"),
    CountWindow(size=7, advance=3),
    CountWindow(size=30, advance=2),
    CountWindow(size=None),
    CountWindow(size=None, advance=4, order="time"),
    CountWindow(size=3, advance="10us", order="time"),
    CountWindow(size=1, advance="7us", order="time"),
    CountWindow(size="10us", advance=3, order="time"),
]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_each_window_holds_its_events(spark: SparkSession, window: CountWindow) -> None:
    cases = drawn.cases(crowds(), 60)
    events = drawn.apart(cases)
    given = frame(spark, [*events, Event("0:a", None, 1), Event(None, 5, 1)])
    chosen = AGGREGATES if window.size in (5, 6) or window.advance == 4 else BOTH
    chosen = {name: kind for name, kind in chosen.items() if not (ON_SAIL and kind.grows)}
    result = aggregate(given, window, aggregates=chosen, arrival="arrival", **COMMON)
    own: dict[str, list[Event]] = {}
    for event in events:
        own.setdefault(str(event.key), []).append(event)
    expected = {key: expected_of(mine, window, chosen) for key, mine in own.items()}
    some = {key: windows for key, windows in expected.items() if windows}
    drawn.check(by_key(rows(result)), some, lambda key: cases[drawn.number(key)])


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    "window",
    [
        CountWindow(size=5, per="stream"),
        CountWindow(size=40, advance=40, per="stream"),
        CountWindow(size=9, advance=4, per="stream", order="time"),
        CountWindow(size=None, advance=50, per="stream"),
    ],
    ids=str,
)
def test_windows_of_the_whole_stream(spark: SparkSession, window: CountWindow) -> None:
    events = [event for case in drawn.cases(crowds(), 60)[-20:] for event in case]
    given = frame(spark, [*events, Event(None, 5, 1)])
    result = aggregate(given, window, aggregates=BOTH, arrival="arrival", **COMMON)
    assert result.columns[:4] == ["window_start", "window_end", "first_event", "last_event"]
    assert Counter(rows(result)) == expected_of(events, window, BOTH)


def test_without_events_there_are_none(spark: SparkSession) -> None:
    result = aggregate(
        frame(spark, []), CountWindow(size=2), aggregates=BOTH, arrival="arrival", **COMMON
    )
    assert result.columns == [
        "key",
        "window_start",
        "window_end",
        "first_event",
        "last_event",
        "n",
        "total",
    ]
    assert rows(result) == []


@pytest.mark.parametrize(
    ("engine", "window"),
    [
        ("plain", CountWindow(size=5, advance=2)),
        ("plain", CountWindow(size=4, advance=3, order="time")),
        ("plain", CountWindow(size=None, advance=3)),
        ("storm", CountWindow(size=5, advance=2)),
        ("storm", CountWindow(size=2, advance=5)),
        ("flink", CountWindow(size=5, advance=3)),
        ("flink", CountWindow(size=4, order="time")),
    ],
    ids=str,
)
def test_they_are_those_of_the_replay(
    spark: SparkSession, engine: str, window: CountWindow
) -> None:
    cases = drawn.cases(drawn.few_or_many(st.integers(1, 60)), 100)
    placed = [
        [Event("a", t * 1000 + i % 2, i, None, i) for i, t in enumerate(times)] for times in cases
    ]
    result = aggregate(
        frame(spark, [*drawn.apart(placed), Event("0:a", None, 1)]),
        window,
        aggregates=BOTH,
        engine=engine,
        arrival="arrival",
        **COMMON,
    )
    windows = by_key((key, start, end, *values) for key, start, end, _, _, *values in rows(result))
    late = {"watermark_delay": "1h"} if engine == "flink" and window.order == "time" else {}
    expected = {}
    for number, events in enumerate(placed):
        replayed = replay(
            arriving(events),
            window,
            engine=engine,
            aggregates=BOTH,
            **late,  # type: ignore[arg-type]
        )
        assert not replayed.dropped
        if replayed.final:
            expected[f"{number}:a"] = Counter(
                (w.start, w.end, w.values["n"], w.values["total"]) for w in replayed.final
            )
    drawn.check(windows, expected, lambda key: cases[drawn.number(key)])


def arriving(events: Sequence[Event]) -> list[Arriving]:
    return [
        Arriving(key="a", time=e.time, arrival=i, value={"value": e.value})
        for i, e in enumerate(events)
    ]


def test_they_are_samzas_panes_by_count(spark: SparkSession) -> None:
    """Discarding panes of an early trigger by count, in a window that does not end before them."""
    cases = drawn.cases(drawn.few_or_many(st.integers(0, 60)).map(sorted), 100)
    placed = [[Event("a", t * 1000, i, None, i) for i, t in enumerate(times)] for times in cases]
    result = aggregate(
        frame(spark, [*drawn.apart(placed), Event("0:a", None, 1)]),
        CountWindow(size=4, advance=4),
        aggregates=BOTH,
        engine="samza",
        arrival="arrival",
        **COMMON,
    )
    windows = by_key((key, first, *values) for key, _, _, first, _, *values in rows(result))
    expected = {}
    for number, events in enumerate(placed):
        replayed = replay(
            arriving(events),
            TumblingWindow(size="1h"),
            engine="samza",
            early=4,
            accumulation="discarding",
            aggregates=BOTH,
        )
        panes = [emission.values for emission in replayed.emissions if emission.values]
        if panes:
            expected[f"{number}:a"] = Counter(
                (4 * i + 1, pane["n"], pane["total"]) for i, pane in enumerate(panes)
            )
    drawn.check(windows, expected, lambda key: cases[drawn.number(key)])


def test_a_copy_of_an_event_counts_once(spark: SparkSession) -> None:
    events = [
        Event("a", 10, 1, "x", 2),
        Event("a", 10, 5, "x", 1),
        Event("a", 12, 7, None, 3),
        Event("a", 12, 7, None, 3),
        Event("b", 10, 4, "x", 4),
    ]
    for per, expected in (
        ("key", [("a", 10, 12, 1, 2, 12), ("a", 12, 12, 3, 3, 7), ("b", 10, 10, 1, 1, 4)]),
        ("stream", [(10, 12, 1, 2, 12), (10, 12, 3, 4, 11)]),
    ):
        result = aggregate(
            frame(spark, events),
            CountWindow(size=2, advance=2, per=per),
            aggregates={"total": agg.sum("value")},
            id="id",
            arrival="arrival",
            **COMMON,
        )
        assert sorted(rows(result)) == expected


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    "arrived",
    [
        "cast(timestamp_millis(offset) as timestamp_ntz)",
        pytest.param("cast(offset / 3 as double)", marks=pytest.mark.spark_only),
        "cast(offset / 3 as decimal(20, 5))",
    ],
)
def test_arrivals_of_any_type(spark: SparkSession, arrived: str) -> None:
    """By partition, then place in it; NULL before all others, NaN after them."""
    events = spark.range(40).selectExpr(
        "id time", "cast(id % 3 as string) partition", "(id * 17) % 41 - 20 offset", "id value"
    )
    placed = events.withColumn("at", F.when(F.col("offset") != 7, F.expr(arrived)))
    if "double" in arrived:
        placed = placed.withColumn(
            "at", F.when(F.col("offset") == 3, F.lit("NaN").cast("double")).otherwise(F.col("at"))
        )
    result = aggregate(
        placed,
        CountWindow(size=1),
        key=[],
        time="time",
        time_format="epoch_us",
        arrival=["partition", "at"],
        aggregates={"value": agg.max("value")},
    )

    def place(i: int) -> Any:
        offset = i * 17 % 41 - 20
        if offset == 7:
            return (i % 3, 0, 0)
        return (i % 3, 2 if offset == 3 and "double" in arrived else 1, offset)

    values = [value for _, value in sorted((row[2], row[4]) for row in rows(result))]
    assert values == sorted(range(40), key=place)


def test_null_keys_are_a_group_where_the_engine_has_them(spark: SparkSession) -> None:
    events = [
        Event(None if value < 4 else "a", value * 1000, value, None, value)
        for value in (1, 2, 3, 4, 5)
    ]
    for window, expected in (
        (CountWindow(size=2, advance=2), [3]),
        (CountWindow(size=70), [1, 3, 6]),
        (CountWindow(size=None), [1, 3, 6]),
    ):
        result = aggregate(
            frame(spark, events),
            window,
            aggregates={"total": agg.sum("value")},
            arrival="arrival",
            engine="flink",
            **COMMON,
        )
        windows = [row for row in rows(result) if row[0] is None]
        assert [row[-1] for row in sorted(windows, key=lambda row: row[4])] == expected


def test_storms_spans_are_closed_at_their_end(spark: SparkSession) -> None:
    events = frame(spark, [Event("a", t * 1000, 1) for t in (5, 10, 11, 20, 21)])
    for window, plain, storm in (
        (CountWindow(size=9, advance="10ms", order="time"), [1, 3, 5], [2, 4, 5]),
        (CountWindow(size="10ms", advance=2, order="time"), [2, 3], [2, 2]),
    ):
        for engine, expected in (("plain", plain), ("storm", storm)):
            result = aggregate(
                events, window, aggregates={"n": agg.count()}, engine=engine, **COMMON
            )
            assert [row[-1] for row in sorted(rows(result), key=lambda row: row[4])] == expected


def test_what_has_no_meaning_is_refused(spark: SparkSession) -> None:
    events = frame(spark, [Event("a", 1, 1)])

    def count(window: CountWindow, **more: Any) -> None:
        aggregate(events, window, **{"aggregates": BOTH, **COMMON, **more})

    with pytest.raises(WindowError, match=r'order: the events have no arrival .*order="time"'):
        count(CountWindow(size=2))
    with pytest.raises(
        ColumnError,
        match=r"arrival: must be a number or a time, to number events by it .*id string",
    ):
        count(CountWindow(size=2), arrival="id")
    with pytest.raises(WindowError, match="combine: has no meaning"):
        count(CountWindow(size=2), arrival="arrival", combine=True)
    with pytest.raises(AggregateError, match=r"aggregates: the name is reserved .*first_event"):
        count(CountWindow(size=2), arrival="arrival", aggregates={"first_event": agg.count()})
    if not ON_SAIL:
        own = agg.custom("value", partial=F.max, merge=F.greatest)
        with pytest.raises(AggregateError, match="is not available for"):
            count(CountWindow(size=70), arrival="arrival", aggregates={"own": own})
    for engine in ENGINES.values():
        if not engine.rules.gaps_between_windows:
            with pytest.raises(WindowError, match="advance: is larger than the size 2"):
                count(CountWindow(size=2, advance=3), arrival="arrival", engine=engine.name)

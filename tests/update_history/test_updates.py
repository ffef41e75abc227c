"""`updates` on Spark, each key apart, against one replay of all the events in plain Python."""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from backfill import (
    AfterAll,
    AfterAny,
    AfterCount,
    AfterEventTime,
    AfterProcessingTime,
    AfterSilence,
    CountWindow,
    HoppingWindow,
    Repeatedly,
    SessionWindow,
    TumblingWindow,
    aggregate,
    table_as_of,
    updates,
)
from backfill import aggregates as agg
from backfill.columns import TIME, key_name
from backfill.engines import engine
from backfill.errors import AggregateError, ColumnError, JobFileError, ReplayError, WindowError
from backfill.replay import Event, Replayed, replay
from backfill.replay.apart import Apart
from backfill.update_history.arrivals import CLOCK, ORDER, PARTITION, PLACE, WALL
from backfill.update_history.worker import PASSES, Replaying, value_name
from tests import drawn
from tests.event_frames import rows

pytestmark = pytest.mark.usefixtures("interpreted")
MS = 1_000
SCHEMA = (
    "key string, time bigint, arrival bigint, amount bigint, shop string, part string, "
    "batch bigint, mark bigint, wall bigint"
)
GAP = SessionWindow(gap="20ms")
HOPS = HoppingWindow(size="40ms", advance="20ms")
COMMON: dict[str, Any] = {"key": "key", "time": "time", "time_format": "epoch_us"}
OFTEN = Repeatedly(AfterAny(AfterCount(4), AfterAll(AfterProcessingTime("30ms"), AfterCount(2))))

#: The aggregates by name: here as Spark computes them, below over the fields of the replay.
AGGREGATES = {
    "n": agg.count(),
    "total": agg.sum("amount"),
    "most": agg.max("amount * 2"),
    "buys": agg.count(where="amount > 0"),
    "shops": agg.count_distinct("shop"),
    "first": agg.first("shop"),
    "mean": agg.mean("amount"),
}
FIELDS = {
    "n": agg.count(),
    "total": agg.sum("amount"),
    "most": agg.max("twice"),
    "buys": agg.count(where="positive"),
    "shops": agg.count_distinct("shop"),
    "first": agg.first("shop"),
    "mean": agg.mean("amount"),
}


@dataclass(frozen=True)
class Case:
    """An engine, its settings, and which columns the events bring.

    `no_key`, `no_time`: it accepts events without a key or without a time, rather than failing;
    `ordered`: time is processing time.
    """

    engine: str
    settings: dict[str, Any]
    columns: tuple[str, ...] = ()
    no_key: bool = True
    no_time: bool = False
    ordered: bool = False


CASES = {
    "kafka-streams": Case("kafka-streams", {"grace": "9ms"}, no_time=True),
    "kafka-streams, partitions": Case(
        "kafka-streams", {"grace": "9ms", "emit": "suppressed"}, ("partition",), no_time=True
    ),
    "suppressed": Case("kafka-streams", {"grace": "9ms", "emit": "suppressed"}, no_time=True),
    "spark": Case("spark", {"watermark_delay": "9ms"}, ("batch",), no_time=True),
    "spark, idle": Case(
        "spark",
        {"idle_batches": True, "allow_multiple": False},
        ("batch", "watermark"),
        no_time=True,
    ),
    "flink": Case(
        "flink",
        {"watermark_delay": "9ms", "allowed_lateness": "15ms", "early": 2},
        no_key=False,
    ),
    "flink, sql": Case("flink", {"api": "sql-group", "watermark_delay": "9ms"}, no_time=True),
    "beam": Case("beam", {"watermark_delay": "9ms", "allowed_lateness": "15ms", "late": 2}),
    "beam, watermarks": Case(
        "beam", {"allowed_lateness": "15ms", "accumulation": "accumulating"}, ("watermark",)
    ),
    "beam, bundles": Case(
        "beam",
        {"watermark_delay": "9ms", "early": Repeatedly(AfterAny(AfterCount(2)))},
        ("batch",),
    ),
    "beam, triggers": Case(
        "beam",
        {
            "early": OFTEN,
            "late": Repeatedly(AfterAny(AfterSilence("9ms"), AfterEventTime("12ms"))),
            "allowed_lateness": "200ms",
            "accumulation": "retracting",
        },
        ("wall_clock",),
    ),
    "samza": Case("samza", {"early": AfterProcessingTime("15ms")}, ordered=True),
    "samza, timers": Case("samza", {"timer_interval": "30ms", "early": 2}, ordered=True),
    "plain": Case("plain", {}, no_key=False),
}

Row = tuple[Any, ...]


@st.composite
def streams(draw: st.DrawFn) -> list[Row]:
    """Rows of SCHEMA around the epoch, mostly in order, with ties, copies and unusable rows."""
    row = st.tuples(
        st.sampled_from(["a", "a", "b", "c", None]),
        st.integers(-40, 40) | st.none(),
        st.sampled_from([0, 0, 1, 999]),
        st.none() | st.integers(-3, 3),
        st.sampled_from("xyz"),
        st.integers(0, 6),
    )
    draws = draw(st.lists(row, min_size=40, max_size=120))
    base, wall, mark, made = -150, 0, -(10**6), []
    for i, (key, off, fine, amount, shop, step) in enumerate(draws):
        base += step
        wall += 3 * step
        mark = max(mark, (base - 20) * MS) if shop == "x" else mark
        time = None if off is None or not i % 7 else (base + off // (1 if i % 3 else 9)) * MS + fine
        # Batches of a few events; some are empty.
        batch = 2 * (i // 5) - (i // 5) % 2
        part = "01"[ord(key) % 2] if key else "0"
        own = (key, time, 7 * i - 300, amount, shop, part, batch)
        made.append((*own, mark if shop == "x" else None, wall * MS + fine))
    return made


def told_to(case: Case, stream: Sequence[Row]) -> list[Row]:
    """The stream in the form that the engine accepts."""
    accepted = []
    for key, time, *rest in stream:
        if case.ordered:
            time = rest[-1]
        if (key is None and not case.no_key) or (time is None and not case.no_time):
            continue
        accepted.append((key, time, *rest))
    return accepted


def played(case: Case, window: Any, stream: Iterable[Row]) -> Replayed:
    events = [
        Event(
            key=key,
            time=time,
            arrival=arrival,
            value={
                "amount": amount,
                "shop": shop,
                "twice": None if amount is None else 2 * amount,
                "positive": amount is not None and amount > 0,
            },
            partition=part if "partition" in case.columns else 0,
            batch=batch if "batch" in case.columns else None,
            watermark=mark if "watermark" in case.columns else None,
            wall_clock=wall if "wall_clock" in case.columns else None,
        )
        for key, time, arrival, amount, shop, part, batch, mark, wall in stream
    ]
    return replay(events, window, engine=case.engine, aggregates=FIELDS, **case.settings)


COLUMNS = {"partition": "part", "batch": "batch", "watermark": "mark", "wall_clock": "wall"}


def made(spark: SparkSession, case: Case, window: Any, stream: Sequence[Row]) -> DataFrame:
    frame = spark.createDataFrame(list(reversed(stream)), SCHEMA).repartition(3)
    return updates(
        frame,
        window,
        arrival="arrival",
        aggregates=AGGREGATES,
        engine=case.engine,
        **COMMON,
        **{name: COLUMNS[name] for name in case.columns},
        **case.settings,
    )


def by_key(found: Iterable[Row]) -> dict[Any, list[Row]]:
    """The results of each key in order, from rows of key, number and the rest."""
    own: dict[Any, list[Row]] = defaultdict(list)
    for key, _, *rest in sorted(found, key=lambda row: row[1]):
        own[key].append(tuple(rest))
    return dict(own)


def of_spark(frame: DataFrame) -> dict[Any, list[Row]]:
    bounds = ("window_start", "window_end", "arrival", "op", "is_retraction")
    return by_key(rows(frame.select("key", "number", *bounds, *AGGREGATES)))


def of_python(result: Replayed) -> dict[Any, list[Row]]:
    last: dict[Any, list[Any]] = {}
    results = []
    for i, emission in enumerate(result.emissions):
        place = emission.key, emission.start, emission.end
        if emission.values is not None:
            last[place] = list(emission.values.values())
        back = emission.values is None
        results.append(
            (
                emission.key,
                i,
                emission.start,
                emission.end,
                emission.arrival,
                emission.op,
                back,
                *last[place],
            )
        )
    return by_key(results)


@pytest.mark.parametrize("name", CASES)
def test_as_one_replay_of_all(spark: SparkSession, name: str) -> None:
    case = CASES[name]
    for stream, window in zip(drawn.cases(streams(), 2), (GAP, HOPS), strict=True):
        taken = told_to(case, stream)
        results = of_spark(made(spark, case, window, taken))
        expected = of_python(played(case, window, taken))
        drawn.check(results, expected, lambda key, given=(window, taken): given)


def table(emissions: Iterable[Any], *, deltas: bool) -> set[Row]:
    """What a reader has: the last result of each window, or their sum, without retracted ones."""
    windows: dict[Any, Any] = {}
    for emission in emissions:
        place = emission.key, emission.start, emission.end
        if emission.values is None:
            windows.pop(place, None)
        else:
            before = windows.get(place, 0) if deltas else 0
            windows[place] = emission.values["n"] + before
    return {(*place, count) for place, count in windows.items()}


@pytest.mark.parametrize("name", ["kafka-streams", "beam, triggers", "beam", "flink, sql"])
def test_the_table_as_of_an_arrival(spark: SparkSession, name: str) -> None:
    case = CASES[name]
    (stream, *_) = drawn.cases(streams(), 2)
    taken = told_to(case, stream)
    window = TumblingWindow(size="40ms") if name == "beam" else GAP
    whole, sent = played(case, window, taken), made(spark, case, window, taken).cache()
    # Beam's panes are deltas by default.
    deltas = dict.fromkeys(AGGREGATES, "sum") if name == "beam" else None
    arrivals = [row[2] for row in taken]
    for arrival in [arrivals[0] - 1, *arrivals[:: len(arrivals) // 5], arrivals[-1], None]:
        frame = table_as_of(sent, arrival, key="key", deltas=deltas)
        expected = whole.emissions if arrival is None else whole.as_of(arrival)
        windows = rows(frame.select("key", "window_start", "window_end", "n"))
        assert len(windows) == len(set(windows))
        assert set(windows) == table(expected, deltas=name == "beam")
    sent.unpersist()


def one(spark: SparkSession, *values: tuple[Any, ...], schema: str, **more: Any) -> DataFrame:
    """Events of these values, in Flink's windows of a second, with a result for each event."""
    given: dict[str, Any] = {
        "key": "key",
        "time": "time",
        "time_format": "epoch_s",
        "arrival": "arrival",
        "aggregates": {"n": agg.count()},
        "engine": "flink",
        "api": "datastream",
        "emit": "on_update",
        "watermark_delay": "1h",
    }
    frame = spark.createDataFrame(list(values), schema)
    return updates(frame, TumblingWindow(size="1s"), **{**given, **more})


class TestResults:
    def test_none_and_one(self, spark: SparkSession) -> None:
        schema = "key string, time bigint, arrival bigint"
        assert one(spark, schema=schema).collect() == []
        batches = {**BARE, "engine": "spark", "batch": "arrival"}
        assert one(spark, schema=schema, **batches).collect() == []
        (row,) = one(
            spark, ("a", -1, 5), schema=schema, emit="on_close", aggregates={"n": "count"}
        ).collect()
        assert (row.arrival, row.number, row.op, row.n) == (None, 1, "on_time", 1)
        assert row.is_retraction is False

    def test_a_sum_that_is_too_large(self, spark: SparkSession) -> None:
        schema = "key string, time bigint, arrival bigint"
        sent = one(
            spark,
            ("a", 1, 1),
            ("a", 1, 2),
            schema=schema,
            aggregates={"sum": f"sum({2**63 - 1})"},
        )
        with pytest.raises(Exception, match=r"aggregates.sum: a value is too large for the type"):
            sent.collect()

    def test_columns(self, spark: SparkSession) -> None:
        sent = one(spark, ("a", 1, 5), schema="key string, time bigint, arrival int")
        assert sent.dtypes == [
            ("key", "string"),
            ("window_start", "timestamp"),
            ("window_end", "timestamp"),
            ("arrival", "int"),
            ("number", "bigint"),
            ("op", "string"),
            ("is_retraction", "boolean"),
            ("n", "bigint"),
        ]

    def test_sessions_have_the_ids_that_aggregate_gives(self, spark: SparkSession) -> None:
        events = spark.createDataFrame(
            [("a", -5, 1), ("a", 3, 2), ("b", 9, 3)], "key string, time bigint, arrival bigint"
        )
        common: dict[str, Any] = {
            **COMMON,
            "aggregates": {"n": agg.count()},
            "engine": "beam",
            "arrival": "arrival",
        }
        batch = aggregate(events, GAP, **common)
        last = table_as_of(updates(events, GAP, **common, early=1, accumulation="retracting"),
                           key="key")  # fmt: skip
        both = [
            {(row.key, row.session_id, row.window_start, row.n) for row in frame.collect()}
            for frame in (batch, last)
        ]
        assert both[0] == both[1]
        assert len(both[0]) == 2

    def test_events_of_one_arrival_have_an_order(self, spark: SparkSession) -> None:
        values = [("a", time, 7, time) for time in range(9)]
        schema = "key string, time bigint, arrival bigint, x bigint"
        first = None
        for order in (values, values[::-1]):
            sent = one(spark, *order, schema=schema, aggregates={"x": agg.last("x")})
            early = sorted(tuple(row) for row in sent.where("op = 'early'").collect())
            first = first or early
            assert early == first
        assert first is not None
        assert [(row[3], row[4], row[7]) for row in first] == [(7, i + 1, i) for i in range(9)]

    def test_the_first_and_last_of_one_arrival_are_those_of_aggregate(
        self, spark: SparkSession
    ) -> None:
        picks = {
            f"{how.__name__}_{name}": how(name)
            for how in (agg.first, agg.last)
            for name in ("x", "y")
        }
        values = [("a", 1, 7, 1, 5), ("a", 1, 7, 2, 3), ("a", 1, 7, 2, None), ("b", 1, 7, 0, 0)]
        schema = "key string, time bigint, arrival bigint, x bigint, y bigint"
        batch = aggregate(
            spark.createDataFrame(values, schema),
            TumblingWindow(size="1s"),
            key="key",
            time="time",
            time_format="epoch_s",
            arrival="arrival",
            aggregates=picks,
        )
        expected = sorted(rows(batch.select("key", *picks)))
        for order in (values, values[::-1]):
            sent = one(spark, *order, schema=schema, aggregates=picks, emit="on_close")
            assert sorted(rows(sent.select("key", *picks))) == expected
        assert expected[0] == ("a", 1, None, 2, 5)

    def test_keys_of_any_kind(self, spark: SparkSession) -> None:
        nan = float("nan")
        values = [(nan, 1), (nan, 2), (0.0, 3), (-0.0, 4), (None, 5)]
        sent = one(
            spark,
            *((key, "b", 0, arrival) for key, arrival in values),
            schema="key double, other string, time bigint, arrival bigint",
            key=["key", "other"],
        )
        sent = sent.where("op = 'early'")
        counts = {(str(row.key), row.number): row.n for row in sent.collect()}
        assert counts == {
            ("nan", 1): 1,
            ("nan", 2): 2,
            ("0.0", 1): 1,
            ("0.0", 2): 2,
            ("None", 1): 1,
        }
        whole = one(
            spark,
            *((0, arrival) for arrival in range(3)),
            schema="time bigint, arrival bigint",
            key=[],
        )
        numbered = sorted((row.number, row.arrival, row.n) for row in whole.collect())
        assert numbered == [(1, 0, 1), (2, 1, 2), (3, 2, 3), (4, None, 3)]

    def test_values_have_the_types_that_aggregate_gives(self, spark: SparkSession) -> None:
        aggregates = {
            "total": agg.sum("price"),
            "mean": agg.mean("price"),
            "at": agg.max("at"),
            "spread": agg.stddev("x"),
            "low": agg.min("x"),
        }
        frame = spark.sql(
            "SELECT 'a' AS key, id AS time, id AS arrival, CAST(id + 0.55 AS DECIMAL(10, 2)) price,"
            " timestamp_seconds(1793494800 + 1800 * id) AS at,"
            " IF(id = 1, double('nan'), double(id)) AS x FROM range(3)"
        )
        common: dict[str, Any] = {
            "key": "key", "time": "time", "time_format": "epoch_s", "aggregates": aggregates,
        }  # fmt: skip
        window = TumblingWindow(size="1h")
        batch = aggregate(frame, window, **common)
        last = updates(frame, window, arrival="arrival", engine="flink", **common)
        names = list(aggregates)
        assert last.select(*names).dtypes == batch.select(*names).dtypes
        (row,), (expected,) = rows(last.select(*names)), rows(batch.select(*names))
        assert str(row) == str(expected)
        assert row[1] == Decimal("1.550000")

    def test_arrival_can_be_a_timestamp(self, spark: SparkSession) -> None:
        frame = spark.sql(
            "SELECT 'a' AS key, id AS time, timestamp_seconds(1793494800 + 1800 * id) AS arrival "
            "FROM range(3)"
        )
        sent = updates(
            frame, TumblingWindow(size="1h"), key="key", time="time", time_format="epoch_s",
            arrival="arrival", aggregates={"n": agg.count()}, engine="kafka-streams",
        )  # fmt: skip
        assert rows(sent.select("arrival", "n").orderBy("number")) == [
            ((1793494800 + 1800 * i) * 1_000_000, i + 1) for i in range(3)
        ]
        seen = table_as_of(sent, F.timestamp_seconds(F.lit(1793494800 + 1800)), key="key")
        assert [row.n for row in seen.collect()] == [2]


#: Settings of other engines, without Flink's.
BARE: dict[str, Any] = {"api": None, "emit": None, "watermark_delay": None}
KAFKA: dict[str, Any] = {"api": None, "watermark_delay": None, "engine": "kafka-streams"}


class TestRefused:
    SCHEMA = "key string, time bigint, arrival bigint, name string"

    @pytest.mark.parametrize(
        ("error", "message", "more"),
        [
            (ReplayError, "caching: with it, under kafka-streams", {"caching": True, **KAFKA}),
            (ReplayError, "emit: with it, under kafka-streams", {"emit": "on_close", **KAFKA}),
            (ReplayError, "engine: with it, under storm", {"engine": "storm", **BARE}),
            (ReplayError, "batch: is missing", {"engine": "spark", **BARE}),
            (ReplayError, "batch: flink has no batches", {"batch": "arrival"}),
            (ReplayError, "watermark: kafka-streams has no", {"watermark": "time", **KAFKA}),
            (ReplayError, "watermark_delay: means nothing where", {"watermark": "time"}),
            (ReplayError, "partition: under flink", {"partition": "name"}),
            (ReplayError, "batch_size: there is no such setting here", {"batch_size": 3}),
            (ReplayError, "earli: there is no such setting here", {"earli": 3}),
            (ReplayError, "grace: the engine flink has no such", {"grace": "1s"}),
            (ColumnError, "name: the arrival must be a whole number", {"arrival": "name"}),
            (
                ColumnError,
                "events: no such column",
                {"watermark": "mark", **BARE, "engine": "beam"},
            ),
            (ColumnError, "no such column", {"arrival": "none"}),
            (
                AggregateError,
                "aggregates.names: has no form in plain Python",
                {"aggregates": {"names": agg.collect_set("name")}},
            ),
            (
                AggregateError,
                "aggregates.op: the result has another column",
                {"aggregates": {"op": agg.count()}},
            ),
            (AggregateError, "aggregates.n: must be an aggregate", {"aggregates": {"n": 3}}),
            (JobFileError, "timezone", {"timezone": "Mars/Base"}),
        ],
    )
    def test_what(
        self, spark: SparkSession, error: Any, message: str, more: dict[str, Any]
    ) -> None:
        with pytest.raises(error, match=message):
            one(spark, ("a", 1, 1, "x"), schema=self.SCHEMA, **more)

    def test_windows_and_bundles(self, spark: SparkSession) -> None:
        frame = spark.createDataFrame([("a", 1, 1, "x")], self.SCHEMA)
        with pytest.raises(ColumnError, match="must be a DataFrame of Spark"):
            updates([], GAP, engine="beam", **COMMON, arrival="arrival", aggregates={})  # type: ignore[arg-type]
        with pytest.raises(WindowError, match=r"must be a window.*gap='30m'"):
            updates(frame, "30m", engine="beam", **COMMON, arrival="arrival", aggregates={})  # type: ignore[arg-type]
        common: dict[str, Any] = {**COMMON, "arrival": "arrival", "aggregates": {"n": agg.count()}}
        with pytest.raises(WindowError, match="each row of such windows is sent once"):
            updates(frame, CountWindow(size=3), engine="flink", **common)
        with pytest.raises(ReplayError, match="batch: triggers that wait for the wall clock"):
            updates(frame, GAP, engine="beam", batch="arrival", early=OFTEN, **common)
        with pytest.raises(ReplayError, match="emit: every batch would repeat"):
            updates(frame, GAP, engine="spark", batch="arrival", emit="complete", **common)
        frame = frame.selectExpr("*", "arrival % 2 AS batch").union(
            frame.selectExpr("key", "time", "arrival + 1", "name", "0")
        )
        frame = frame.union(frame.selectExpr("key", "time", "arrival + 2", "name", "batch"))
        with pytest.raises(ReplayError, match="batch: its events do not all arrive"):
            updates(frame, GAP, engine="spark", batch="batch", **common)
        with pytest.raises(ColumnError, match=r"batch: must be a whole number.*name string"):
            updates(frame, GAP, engine="spark", batch="name", **common)
        absent = frame.selectExpr("*", "nullif(batch, 0) AS read_by")
        with pytest.raises(ReplayError, match="batch: is NULL for some events"):
            updates(absent, GAP, engine="spark", batch="read_by", **common)

    def test_tables(self, spark: SparkSession) -> None:
        sent = one(spark, ("a", 1, 1, "x"), schema=self.SCHEMA)
        for deltas, message in [
            ({}, "deltas.n: is missing"),
            ({"n": "mean"}, "deltas.n: deltas can't be combined this way"),
            ({"n": "sum", "m": "sum"}, "deltas.m: is not an aggregate"),
        ]:
            with pytest.raises(AggregateError, match=message):
                table_as_of(sent, key="key", deltas=deltas)
        with pytest.raises(ColumnError, match="updates: no such column"):
            table_as_of(sent, key="other")


@pytest.mark.parametrize("before", [True, False])
def test_a_worker_leaves_the_garbage_collector_as_it_was(before: bool) -> None:
    replaying = Replaying(
        apart=Apart.of(TumblingWindow(size="1s"), engine("flink"), "UTC", {}),
        settings={},
        aggregates={"n": agg.count()},
        keys=(key_name(0),),
        fields=(),
        batches=None,
    )
    # Two parts, as a part of so many rows holds whole keys.
    numbers = dict.fromkeys([ORDER, PLACE, TIME, CLOCK, WALL, value_name(0)], 1)
    row = {**numbers, PARTITION: "", PASSES: False}
    rows = [row | {key_name(0): "a"}] * 50_000 + [row | {key_name(0): "b"}]
    seen = []

    def batches() -> Iterator[pa.RecordBatch]:
        yield from pa.Table.from_pylist(rows).to_batches()

    enabled = gc.isenabled()
    (gc.enable if before else gc.disable)()
    try:
        made = replaying(batches())
        parts = [next(made)]
        seen.append(gc.isenabled())
        parts += made
        seen.append(gc.isenabled())
    finally:
        (gc.enable if enabled else gc.disable)()
    assert [part.num_rows for part in parts] == [1, 1]
    assert seen == [before, before]

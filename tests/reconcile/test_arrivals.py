"""What gives the order of arrival: columns of any type, with equal and with missing values."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from backfill import Job, TumblingWindow
from backfill import aggregates as agg
from backfill.errors import ColumnError, JobFileError
from backfill.reconciliation.result import Reconciled
from backfill.replay import Event, replay
from backfill.time.durations import Fixed
from backfill.time.epoch import moment_of
from tests.files import write_rows
from tests.on_sail import spark_only

pytestmark = pytest.mark.usefixtures("interpreted")

SECOND = 1_000_000
MINUTE = 60 * SECOND
JOB = """
source: {path: src, format: parquet}
events: {key: user, time: at, arrival: %s}
engine: %s
windows: {w: {tumbling: {size: 1m}, aggregates: {n: count}}}
tables: {path: out}
checks: {builtin: off}
"""
BEGAN = dt.datetime(2026, 1, 10)
UTC = dt.timezone.utc
#: Three arrivals of each type, within one second where its values can be.
TYPES = [
    pytest.param(pa.int64(), [1, 2, 10], id="bigint"),
    pytest.param(pa.decimal128(20, 0), [Decimal(9), Decimal(10), Decimal(11)], id="whole decimal"),
    pytest.param(pa.uint64(), [9, 10, 2**63], id="unsigned"),
    pytest.param(pa.binary(), [b"a", b"b", b"\xff"], id="binary"),
    pytest.param(
        pa.decimal128(16, 3), [Decimal(f"1768003200.{n}") for n in (1, 2, 30)], id="decimal"
    ),
    pytest.param(pa.float64(), [0.25, 0.5, 0.75], id="double", marks=spark_only),
    pytest.param(
        pa.timestamp("us", "UTC"),
        [BEGAN.replace(microsecond=n, tzinfo=UTC) for n in range(3)],
        id="timestamp",
    ),
    pytest.param(
        pa.timestamp("us"), [BEGAN.replace(microsecond=n) for n in range(3)], id="timestamp_ntz"
    ),
    pytest.param(pa.date32(), [dt.date(2026, 1, n) for n in (1, 2, 10)], id="date"),
    pytest.param(pa.string(), [f"2026-01-10T00:00:00.{n}Z" for n in (1, 2, 3)], id="text"),
]
Rows = Sequence[tuple[str, int, Any]]


def reconciled(
    spark: SparkSession,
    folder: Path,
    rows: Rows,
    windows: Sequence[tuple[str, int, int]],
    type: pa.DataType,
    arrival: str = "arrival",
    engine: str = "flink",
    **settings: Any,
) -> tuple[Reconciled, list[str]]:
    """The result of the comparison, and what was said meanwhile.

    Args:
        rows: key, event time (µs) and arrival of each event, as they are in the file.
        windows: key, start (µs) and count of each that the stream has.
    """
    folder.mkdir(exist_ok=True)
    (folder / "job.yaml").write_text(JOB % (arrival, engine))
    instant = pa.timestamp("us", "UTC")
    schema = pa.schema({"user": "string", "at": instant, "arrival": type, "part": "string"})
    events = [
        {"user": key, "at": moment_of(at), "arrival": arrival, "part": "0"}
        for key, at, arrival in rows
    ]
    write_rows(folder / "src" / "a.parquet", events, schema)
    stream = [
        {
            "user": key,
            "window_start": moment_of(start),
            "window_end": moment_of(start + MINUTE),
            "n": count,
        }
        for key, start, count in windows
    ]
    write_rows(folder / "stream" / "a.parquet", stream)
    job = Job.load(folder / "job.yaml")
    job.run(spark)
    said: list[str] = []
    given = {"stream": str(folder / "stream"), "format": "table", **settings}
    return job.reconcile("w", spark, progress=said.append, **given), said


def causes(found: Reconciled) -> list[tuple[str, bool]]:
    return [
        (difference.explanation.causes[0], difference.explanation.proved)
        for difference in found.differences
    ]


#: The stream has one of the first window's two events.
LACKS_ONE = [("a", 0, 1), ("a", 3 * MINUTE, 1)]


@pytest.mark.parametrize(("type", "arrivals"), TYPES)
def test_columns_of_any_type_that_can_be_sorted(
    spark: SparkSession, tmp_path: Path, type: pa.DataType, arrivals: list[Any]
) -> None:
    first, second, third = arrivals
    late = [("a", 10 * SECOND, third), ("a", 200 * SECOND, second), ("a", 0, first)]
    result, _ = reconciled(spark, tmp_path, late, LACKS_ONE, type)
    assert causes(result) == [("late", True)]
    assert result.ordered


@pytest.mark.parametrize(
    ("type", "arrivals"), [case for case in TYPES if case.id in ("decimal", "text")]
)
def test_nothing_is_late_in_order(
    spark: SparkSession, tmp_path: Path, type: pa.DataType, arrivals: list[Any]
) -> None:
    first, second, third = arrivals
    lost = [("a", 10 * SECOND, second), ("a", 200 * SECOND, third), ("a", 0, first)]
    result, _ = reconciled(spark, tmp_path, lost, LACKS_ONE, type)
    # It does not show which of the two was lost.
    assert causes(result) == [("missing_in_stream", False)]
    assert result.ordered


def test_events_that_arrived_at_once_are_late_in_some_orders_only(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = [("a", 10 * SECOND, 1), ("a", 200 * SECOND, 1), ("a", 0, 0)]
    result, _ = reconciled(spark, tmp_path, rows, LACKS_ONE, pa.int64())
    assert causes(result) == [("late", False)]


@pytest.mark.parametrize("given", [{"emit": "on_close"}, {"caching": True}])
def test_keys_that_are_replayed_together(
    spark: SparkSession, tmp_path: Path, given: dict[str, Any]
) -> None:
    rows = [("a", 10 * SECOND, 1), ("b", 200 * SECOND, 1), ("b", 9_000 * SECOND, 5)]
    windows = [("b", 3 * MINUTE, 1), ("b", 150 * MINUTE, 1)]
    engine = {"engine": "kafka-streams", "grace": "0s"}
    for arrival, proved in ((1, False), (2, True)):
        rows[1] = ("b", 200 * SECOND, arrival)
        folder = tmp_path / str(arrival)
        result, _ = reconciled(spark, folder, rows, windows, pa.int64(), **engine, **given)
        lost = [difference for difference in result.differences if difference.key == ("a",)]
        assert [difference.explanation.proved for difference in lost] == [proved]


def test_what_is_late_in_every_order_is_proved(spark: SparkSession, tmp_path: Path) -> None:
    rows = [("a", 10 * SECOND, 2), ("a", 201 * SECOND, 2), ("a", 200 * SECOND, 1), ("a", 0, 0)]
    windows = [("a", 0, 1), ("a", 3 * MINUTE, 2)]
    result, _ = reconciled(spark, tmp_path, rows, windows, pa.int64())
    assert causes(result) == [("late", True)]


def test_nothing_is_proved_by_order_where_an_event_has_none(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = [("a", 10 * SECOND, 3), ("a", 200 * SECOND, 2), ("a", 0, None)]
    result, said = reconciled(spark, tmp_path, rows, LACKS_ONE, pa.int64())
    assert causes(result) == [("late", False)]
    assert not result.ordered
    assert any(message.startswith("events without arrival: 1, so causes that") for message in said)


@pytest.mark.parametrize(
    ("arrival", "given", "error", "message"),
    [
        (
            "[arrival, at]",
            {"engine": "spark"},
            ColumnError,
            "events.arrival: must be a whole number: the number of an event's micro-batch",
        ),
        (
            "[part, arrival]",
            {"engine": "kafka-streams", "restarts": "0:1"},
            JobFileError,
            "stream.restarts: needs offsets, but arrival is not a whole number",
        ),
    ],
)
def test_what_is_refused(
    spark: SparkSession,
    tmp_path: Path,
    arrival: str,
    given: dict[str, Any],
    error: type[Exception],
    message: str,
) -> None:
    rows = [("a", 0, "x"), ("a", 200 * SECOND, "y")]
    with pytest.raises(error, match=message):
        reconciled(spark, tmp_path, rows, [("a", 0, 2)], pa.string(), arrival, **given)


def test_proofs_hold_whatever_the_order_of_what_arrived_at_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Each key's stream is Flink's in one order of arrival; the job knows only groups of nine."""
    random = Random(3)
    events: list[Event] = []
    for arrival in range(900):
        late = random.choice((61, 90)) if random.random() < 0.1 else 0
        at = arrival // 3 - late
        key = f"k{arrival % 200}"
        events.append(Event(key=key, time=at * SECOND, arrival=arrival, value={}))
    gone = {event.arrival for event in events if random.random() < 0.03}
    made = replay(
        [event for event in events if event.arrival not in gone],
        TumblingWindow(size=Fixed(MINUTE)),
        engine="flink",
        aggregates={"n": agg.count()},
    )
    windows = [(window.key, window.start, window.values["n"]) for window in made.final]
    rows = [(event.key, event.time or 0, event.arrival // 9) for event in events]
    random.shuffle(rows)
    result, _ = reconciled(spark, tmp_path, rows, windows, pa.int64())
    lost = {(event.key, event.time) for event in events if event.arrival in gone}
    by_arrival = {event.arrival: event for event in events}
    dropped = {(by_arrival[n].key, by_arrival[n].time) for n in (d.arrival for d in made.dropped)}
    said: dict[str, set[tuple[str, int]]] = {"left_out": set(), "dropped": set()}
    for difference in result.differences:
        if difference.explanation.proved:
            for name, of_it in said.items():
                places = difference.explanation.evidence.get(name, ())
                of_it |= {(difference.key[0], place["time_us"]) for place in places}
    assert said["dropped"]
    # An event that was lost would have been late, too.
    assert said["dropped"] <= dropped | lost
    assert said["left_out"]
    assert said["left_out"] <= lost

"""Rows with a column for everything: Spark's, Flink's, Beam's, Storm's, Samza's, and tables."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from backfill.errors import (
    AggregateError,
    BackfillError,
    ColumnError,
    JobFileError,
    SourceError,
    WindowError,
)
from backfill.windows import CumulatingWindow, HoppingWindow, SessionWindow, TumblingWindow
from tests import reference
from tests.files import write_rows
from tests.on_sail import spark_only
from tests.reconcile.streams import (
    BOTH,
    RECORDED,
    USER,
    final,
    reasons,
    recorded,
    stream,
)

pytestmark = pytest.mark.usefixtures("interpreted")

GAP = SessionWindow(gap="30s")
MINUTE = TumblingWindow(size="60s")
HOUR = TumblingWindow(size="1h")
KEY = {"key": T.StringType()}
SUMS = {"events": "sum", "amount": "sum"}
S = 1_000_000


def row(user: Any, start: Any, end: Any, events: Any, **more: Any) -> dict[str, Any]:
    return {"user": user, "window_start": start, "window_end": end, "events": events, **more}


def accepted(name: str) -> list[reference.Event]:
    """The events that a recorded Flink took: those with a key that it did not call late."""
    late = {event["arrival"] for event in recorded("flink", name, "late.jsonl.gz")}
    lines = (RECORDED / "events.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    return [
        reference.Event(e["key"], e["time"] * 1000, e["amount"], None, e["arrival"])
        for e in events
        if e["arrival"] not in late and e["key"] is not None
    ]


def sums(found: dict[tuple[Any, ...], list[reference.Event]]) -> dict[Any, Any]:
    return {place: (len(own), sum(e.value for e in own)) for place, own in found.items()}


def sessions_of(events: list[reference.Event]) -> dict[Any, Any]:
    sessions = reference.sessions(events, 30 * S)
    return sums({(own[0].key, own[0].time, own[-1].time): own for own in sessions})


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("session-10s-late-60s", {"firing": "accumulating"}),
        ("session-10s-late-60s-delta", {"firing": "delta"}),
        ("session-10s-late-1h", {"firing": "accumulating"}),
    ],
)
def test_recorded_late_firings_of_sessions(
    spark: SparkSession, name: str, options: dict[str, str]
) -> None:
    """The final sessions are those of the events that were taken, each event in one of them."""
    path = RECORDED / "flink" / name / "output.jsonl.gz"
    decoded = stream(spark, path, "flink", GAP, key=KEY, aggregates=BOTH, merged_by=SUMS, **options)
    events = accepted(name)
    sessions = final(decoded)
    assert sessions == sessions_of(events)
    assert sum(values[0] for values in sessions.values()) == len(events)
    assert decoded.engine.name == "flink"


def test_recorded_windows(spark: SparkSession) -> None:
    name = "tumbling-10s-late-1h-delta"
    path = RECORDED / "flink" / name / "output.jsonl.gz"
    decoded = stream(
        spark, path, "flink", MINUTE, key=KEY, aggregates=BOTH, merged_by=SUMS, firing="delta"
    )
    expected = sums(reference.grouped(accepted(name), reference.hopping(60 * S, 60 * S)))
    assert final(decoded) == expected
    counts = decoded.counts()
    assert counts.used == counts.rows == len(recorded("flink", name, "output.jsonl.gz"))
    assert counts.windows == len(expected) < counts.used

    # -U and +U of SQL, with local times of the session's zone as text.
    name = "sql-group-tumble-late-60s"
    rows = recorded("flink", name, "output.jsonl.gz")
    last = {(change["key"], change["window_start"]): change for change in rows}
    assert all(change["op"] in ("+I", "+U") for change in last.values())
    path = RECORDED / "flink" / name / "output.jsonl.gz"
    decoded = stream(spark, path, "flink", MINUTE, key=KEY, aggregates=BOTH)
    windows = final(decoded)
    assert sorted(windows.values()) == sorted((e["events"], e["amount"]) for e in last.values())
    retracted = sum(change["op"] == "-U" for change in rows)
    counts = decoded.counts()
    assert (counts.tombstones, counts.superseded) == (retracted, retracted)
    assert retracted > 20

    # Tumbling windows in Berlin's hours (the clocks jump): instants of local times.
    path = RECORDED / "flink" / "sql-tumble-berlin" / "output.jsonl.gz"
    two = TumblingWindow(size="2h")
    berlin = stream(spark, path, "flink", two, key=KEY, aggregates=BOTH, zone="Europe/Berlin")
    hour = 3600 * S
    lengths = {place[2] - place[1] for place in final(berlin)}
    assert lengths == {hour, 2 * hour}


@spark_only
def test_sparks_forms(spark: SparkSession, tmp_path: Path) -> None:
    def at(second: float) -> dt.datetime:
        return dt.datetime.fromtimestamp(second, dt.timezone.utc)

    # Append: a struct, real timestamps, NULL as a key, and names with awkward characters.
    odd = {"us`er.id": T.StringType()}
    rows = [
        {"us`er.id": key, "window": {"start": at(start), "end": at(end)}, "n ,'": n}
        for key, start, end, n in (("a'\n", 1.5, 41.25, 2), (None, -50, -20, 1), ("b", 5, 35, 4))
    ]
    path = tmp_path / "append.parquet"
    write_rows(path, rows)
    aggregates = {"n ,'": T.IntegerType()}
    decoded = stream(spark, path, "spark-append", GAP, key=odd, aggregates=aggregates)
    assert final(decoded) == {
        ("a'\n", 1_500_000, 11_250_000): (2,),
        (None, -50 * S, -50 * S): (1,),
        ("b", 5 * S, 5 * S): (4,),
    }

    # Update: the last batch of each window, in files whose names are in no order.
    iso = "1970-01-01T0{}:00:00.000Z"
    hours = [iso.format(i) for i in range(4)]
    updates = [
        row("a", hours[0], hours[1], 1, batch_id=2),
        row("a", hours[0], hours[1], 5, batch_id=10),
        row("a", hours[0], hours[1], 3, batch_id=9),
        row("b", hours[1], hours[2], 7, batch_id=0),
        row("b", hours[1], hours[2], "many", batch_id=11),
        row("c", "soon", hours[2], 7, batch_id=0),
    ]
    write_rows(tmp_path / "update" / "b.csv", updates[:2])
    write_rows(tmp_path / "update" / "a.csv", updates[2:])
    decoded = stream(spark, tmp_path / "update", "spark-update", HOUR)
    hour = 3600 * S
    assert final(decoded) == {("a", 0, hour): (5,), ("b", hour, 2 * hour): (7,)}
    assert reasons(decoded) == {
        "events is not of type bigint": 1,
        "window_start is not a time in the years 1 to 9999": 1,
    }
    counts = decoded.counts()
    assert (counts.rows, counts.used, counts.superseded, counts.undecoded) == (6, 2, 2, 2)
    evidence = {window["_key0"]: window["_written"] for window in decoded.frame.collect()}
    assert evidence["a"] == f"{tmp_path}/update/b.csv, batch_id 10"
    assert decoded.order == "batch_id, file and row"

    # Complete: what is not in the last batch is not there.
    complete = [
        row("a", 0, 3600_000, 1, batch_id=1),
        row("b", 0, 3600_000, 2, batch_id=1),
        row("a", 0, 3600_000, 4, batch_id=2),
        row("c", 0, 3600_000, 9, batch_id=2),
    ]
    write_rows(tmp_path / "complete.json", complete)
    decoded = stream(spark, tmp_path / "complete.json", "spark-complete", HOUR)
    assert final(decoded) == {("a", 0, hour): (4,), ("c", 0, hour): (9,)}
    counts = decoded.counts()
    assert (counts.rows, counts.used, counts.superseded, counts.windows) == (4, 2, 2, 2)


@spark_only
def test_repeated_sessions(spark: SparkSession, tmp_path: Path) -> None:
    """What was merged into a longer session goes; what only overlaps stays."""
    rows = [
        row("a", 0, 30_000, 1, pane_index=0, low=5),
        row("a", 50_000, 80_000, 1, pane_index=0, low=4),
        row("a", 0, 80_000, 3, pane_index=0, low=3),  # both, and one between them
        row("a", 0, 80_000, 4, pane_index=2, low=2),
        row("a", 0, 80_000, 3, pane_index=1, low=3),
        row("a", 70_000, 110_000, 6, pane_index=0, low=1),  # legal: the first was gone
        row("a", 75_000, 106_000, 2, pane_index=0, low=9),
        row("b", 0, 30_000, 1, pane_index=0, low=5),
        row("b", 0, 30_000, 1, pane_index="first", low=5),
    ]
    write_rows(tmp_path / "panes.json", rows)
    types = {"events": T.LongType(), "low": T.IntegerType()}

    def decoded(panes: str) -> Any:
        return stream(
            spark,
            tmp_path / "panes.json",
            "beam",
            GAP,
            aggregates=types,
            panes=panes,
            merged_by={"events": "sum", "low": "min"},
        )

    repeated = decoded("accumulating")
    assert final(repeated) == {
        ("a", 0, 50 * S): (4, 2),
        ("a", 70 * S, 80 * S): (6, 1),
        ("b", 0, 0): (1, 5),
    }
    counts = repeated.counts()
    assert (counts.rows, counts.used, counts.superseded, counts.undecoded) == (9, 3, 5, 1)
    parts = decoded("discarding")
    assert final(parts) == {
        ("a", 0, 50 * S): (1 + 1 + 3 + 4 + 3, 2),
        ("a", 70 * S, 80 * S): (8, 1),
        ("b", 0, 0): (1, 5),
    }
    counts = parts.counts()
    assert (counts.rows, counts.used, counts.superseded, counts.windows) == (9, 8, 0, 3)
    assert reasons(parts) == {"pane_index is NULL or not a whole number": 1}


def test_panes_that_are_taken_back(spark: SparkSession, tmp_path: Path) -> None:
    rows = [
        row("a", 0, 30_000, 1, pane_index=0, is_retraction=False),
        row("a", 60_000, 90_000, 2, pane_index=0, is_retraction=False),
        row("a", 0, 30_000, 1, pane_index=1, is_retraction=True),
        row("a", 60_000, 90_000, 2, pane_index=1, is_retraction=True),
        row("a", 0, 90_000, 4, pane_index=1, is_retraction=False),
        row("b", 0, 30_000, 5, pane_index=0, is_retraction=False),
        row("b", 0, 30_000, 5, pane_index=1, is_retraction=True),
        row("b", 0, 30_000, 6, pane_index=1, is_retraction=False),
        row("c", 0, 30_000, 7, pane_index=0, is_retraction=None),
    ]
    write_rows(tmp_path / "panes.json", rows)
    decoded = stream(spark, tmp_path / "panes.json", "beam", GAP, panes="retracting")
    assert final(decoded) == {("a", 0, 60 * S): (4,), ("b", 0, 0): (6,)}
    counts = decoded.counts()
    assert (counts.rows, counts.tombstones, counts.undecoded, counts.windows) == (9, 3, 1, 2)
    assert reasons(decoded) == {"is_retraction is NULL": 1}
    with pytest.raises(
        JobFileError, match=r"stream\.panes: the format samza does not take panes back"
    ):
        stream(spark, tmp_path / "panes.json", "samza", GAP, panes="retracting")


@spark_only
def test_changelog_in_an_order_of_its_own(spark: SparkSession, tmp_path: Path) -> None:
    rows = [
        row("a", 0, 60_000, 2, op="+U", n=4),
        row("a", 0, 60_000, 1, op="+I", n=2),
        row("a", 0, 60_000, 1, op="-U", n=3),
        row("b", 0, 60_000, 1, op="+I", n=5),
        row("b", 0, 60_000, 1, op="-D", n=10),
        row("c", 0, 60_000, 1, op="insert", n=7),
    ]
    write_deltalake(str(tmp_path / "delta"), pa.Table.from_pylist(rows))
    delta = tmp_path / "delta"
    decoded = stream(spark, delta, "flink", MINUTE, columns={"n": "order"})
    assert final(decoded) == {("a", 0, 60 * S): (2,)}
    assert decoded.order == "order, file and row"
    assert reasons(decoded) == {"op is not +I, -U, +U or -D": 1}
    counts = decoded.counts()
    assert (counts.rows, counts.tombstones, counts.superseded) == (6, 2, 2)
    with pytest.raises(ColumnError, match=r"a Delta table does not keep.*theirs=order"):
        stream(spark, delta, "flink", MINUTE)


@spark_only
def test_windows_known_by_one_bound(spark: SparkSession, tmp_path: Path) -> None:
    ends = [{"user": "a", "window_end": 20_000, "events": 3}]
    starts = [{"user": "a", "window_start": "1970-01-01 01:00", "events": 3}]
    storm = write_rows(tmp_path / "storm.json", ends)
    samza = write_rows(tmp_path / "samza.csv", starts)
    hops = HoppingWindow(size="60s", advance="20s")
    assert final(stream(spark, storm, "storm", hops)) == {("a", -40 * S, 20 * S): (3,)}
    decoded = stream(spark, samza, "samza", HOUR, zone="Europe/Berlin")
    assert final(decoded) == {("a", 0, 3600 * S): (3,)}
    growing = CumulatingWindow(size="1h", step="20m")
    with pytest.raises(ColumnError, match="window_start: the stream has no such column"):
        stream(spark, storm, "table", growing)


@spark_only
def test_tables(spark: SparkSession, tmp_path: Path) -> None:
    """Every type of time, renamed columns, and lines that are no rows."""
    naive, aware = dt.datetime(2025, 3, 30, 3), dt.datetime(2025, 3, 30, 2, tzinfo=dt.timezone.utc)
    rows = [{"who": "a", "from": naive, "to": aware, "n": 2.0, "tags": [1, None]}]
    path = write_rows(tmp_path / "t.parquet", rows)
    columns = {"who": "user", "from": "window_start", "to": "window_end", "n": "events"}
    types = {"events": T.LongType(), "tags": T.ArrayType(T.StringType())}
    berlin = {"zone": "Europe/Berlin", "columns": columns}
    decoded = stream(spark, path, "table", HOUR, aggregates=types, **berlin)  # type: ignore[arg-type]
    one = 1743296400 * S  # 01:00 UTC, when Berlin's clocks jumped from 2 to 3
    assert final(decoded) == {("a", one, one + 3600 * S): (2, ["1", None])}
    # The job's engine says what a session's end is.
    decoded = stream(
        spark,
        path,
        "table",
        GAP,
        aggregates=types,
        engine="flink",
        **berlin,  # type: ignore[arg-type]
    )
    assert final(decoded) == {("a", one, one + 3570 * S): (2, ["1", None])}

    lines = tmp_path / "lines"
    lines.write_text(
        '{"user": "a", "window_start": 0, "window_end": 3600000, "events": 1}\n'
        "{'user\n"
        '{"user": "b", "window_start": 5, "window_end": 5, "events": null}\n'
        '{"user": "b", "window_start": 5, "window_end": 4, "events": null}\n'
    )
    decoded = stream(spark, lines, "table", HOUR)
    assert final(decoded) == {("a", 0, 3600 * S): (1,), ("b", 5_000, 5_000): (None,)}
    assert reasons(decoded) == {"the line is not JSON": 1, "the window ends before it begins": 1}
    raw = {line.raw for line in decoded.undecoded.collect()}
    assert "{'user" in raw


@spark_only
def test_what_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    path = write_rows(tmp_path / "a.json", [row("a", 0, 60_000, 1, pane_index=0)])
    write_rows(tmp_path / "mixed" / "a.json", [row("a", 0, 60_000, 1)])
    write_rows(tmp_path / "mixed" / "b.csv", [row("a", 0, 60_000, 1)])
    types = {"events": T.LongType(), "pages": T.LongType()}
    day = TumblingWindow(size="1 day")
    cases: list[tuple[Any, str, Any, dict[str, Any], type[BackfillError], str]] = [
        (path, "flnk", MINUTE, {}, JobFileError, "stream.format: .*Did you mean 'flink'"),
        (
            path,
            "flink",
            MINUTE,
            {"firing": "deltas"},
            JobFileError,
            "stream.firing: .*: once",
        ),
        (
            path,
            "flink",
            MINUTE,
            {"topic": "changelog"},
            JobFileError,
            "stream.topic: .*Leave",
        ),
        (
            path,
            "flink",
            MINUTE,
            {"columns": {"a": "b", "c": "b"}},
            JobFileError,
            "columns: two",
        ),
        (path, "beam", MINUTE, {}, ColumnError, "pane_index: .*Set panes"),
        (path, "spark-update", MINUTE, {}, ColumnError, "batch_id: the stream has no such"),
        (
            path,
            "spark-update",
            GAP,
            {},
            WindowError,
            "does not write session windows in the format spark-update",
        ),
        (path, "storm", GAP, {}, WindowError, "the engine storm has no such windows"),
        (path, "spark-append", day, {}, WindowError, "the engine spark has no such windows"),
        (
            path,
            "table",
            MINUTE,
            {"aggregates": types},
            ColumnError,
            "pages: .*theirs=ours",
        ),
        (path, "table", MINUTE, {"key": {"usr": USER["user"]}}, ColumnError, "Did you mean 'user'"),
        (path, "flink", MINUTE, {"firing": "delta"}, AggregateError, "events: rows are deltas"),
        (
            path,
            "table",
            MINUTE,
            {"columns": {"user": "window_start", "window_start": "w"}},
            SourceError,
            "none of 1 rows .*because user|window_start is not a time",
        ),
        (
            tmp_path / "mixed",
            "table",
            MINUTE,
            {},
            SourceError,
            "b.csv: a csv file among json",
        ),
        (tmp_path / "gone", "table", MINUTE, {}, SourceError, "stream.path: nothing is there"),
    ]
    for where, format, window, options, kind, message in cases:
        if "columns" in options and kind is SourceError:
            options["key"] = {"w": T.LongType()}
        with pytest.raises(kind, match=message):
            stream(spark, where, format, window, **options)

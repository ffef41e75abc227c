"""Every engine, format, window and order of arrival goes through a comparison, or is refused.

Each engine meets each format, and each format each window and order of arrival. With
BACKFILL_COMBINATIONS=all every combination of the four is compared.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from backfill import Job
from backfill.engines import ENGINES
from backfill.errors import BackfillError
from backfill.reconciliation.output.options import FORMS
from backfill.replay.windowed_keys import WindowedKey, encode_windowed_key
from backfill.spec import JobSpec
from tests.memory_store import MemoryStore

pytestmark = pytest.mark.usefixtures("interpreted")

JOB = """
source: {path: ../events, format: parquet}
events: {key: user, time: at%s}
engine: %s
windows:
%s
tables: {path: out}
checks: {builtin: off}
"""
DEFINITIONS = {
    "sessions": "session: {gap: 60s}",
    "tumbling": "tumbling: {size: 60s}",
    "hopping": "hopping: {size: 60s, advance: 20s}",
    "growing": "cumulating: {size: 60s, step: 20s}",
}
WINDOWS = tuple(DEFINITIONS)
ARRIVALS = {"none": "", "one": ", arrival: place", "two": ", arrival: [partition, offset]"}
BEGAN = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
SECOND = 1_000_000
#: Key and second, in order of arrival; the event of a at 25 s comes late under every engine. No
#: event is at the edge of a window, which engines draw differently.
EVENTS = [("a", 5), ("a", 35), ("b", 1_005), ("a", 25), ("b", 5_005)]
#: Windows that an engine does not have, so no stream of its can have written them.
HAS_NO = {
    "kafka-streams": {"growing"},
    "spark": {"growing"},
    "beam": {"growing"},
    "storm": {"sessions", "growing"},
    "samza": {"sessions", "growing"},
}
#: The further columns of a format's rows.
COLUMNS: dict[str, dict[str, Any]] = {
    "spark-append": {"batch_id": 0},
    "spark-update": {"batch_id": 0},
    "spark-complete": {"batch_id": 0},
    "flink": {"op": "+I"},
    "beam": {"pane_index": 0},
    "samza": {"pane_index": 0},
}
#: The options that a format needs.
OPTIONS = {"beam": {"panes": "accumulating"}, "samza": {"panes": "accumulating"}}
#: The errors for combinations without meaning.
REFUSED = "has no such window|does not write session windows in the format spark-update"


@dataclass(frozen=True)
class Written:
    """A window of one key: its first and last event, or its bounds; seconds."""

    key: str
    start: int
    end: int
    events: int


def windows(name: str) -> list[Written]:
    """The windows of all events, late or not."""
    counts: dict[tuple[str, int, int], int] = {}
    if name == "sessions":
        return [
            Written("a", 5, 35, 3),
            Written("b", 1_005, 1_005, 1),
            Written("b", 5_005, 5_005, 1),
        ]
    for key, second in EVENTS:
        first = second // 60 * 60
        bounds = {
            "tumbling": [(first, first + 60)],
            "hopping": [(s, s + 60) for s in range(second // 20 * 20 - 40, second + 1, 20)],
            "growing": [(first, e) for e in range(first + 20, first + 61, 20) if second < e],
        }[name]
        for start, end in bounds:
            counts[key, start, end] = counts.get((key, start, end), 0) + 1
    return [Written(*place, count) for place, count in counts.items()]


def rows(found: Iterable[Written], name: str, format: str, engine: str) -> list[dict[str, Any]]:
    """Windows in the format; those of b have another value, so that its key is replayed."""
    written = FORMS[format].engine or engine
    later = 0
    if name == "sessions" and ENGINES[written].rules.session_end == "last_event_plus_gap":
        later = 60
    began = round(BEGAN.timestamp()) * SECOND
    listed = []
    for offset, window in enumerate(found):
        n = 7 if window.key == "b" else window.events
        if FORMS[format].keyed_bytes:
            end = began + window.end * SECOND if name == "sessions" else None
            key = WindowedKey(window.key.encode(), began + window.start * SECOND, end)
            form: Any = "session" if name == "sessions" else "window"
            record = {
                "key": encode_windowed_key(key, form),
                "value": n.to_bytes(8, "big"),
                "partition": 0,
                "offset": offset,
            }
            listed.append(record)
            continue
        bounds = {"window_start": window.start, "window_end": window.end + later}
        instants = {at: BEGAN + dt.timedelta(seconds=s) for at, s in bounds.items()}
        listed.append({"user": window.key, **instants, "n": n, **COLUMNS.get(format, {})})
    return listed


def combinations(engine: str, arrival: str) -> list[tuple[str, str]]:
    """Formats and windows for one job: all, or as few as let each engine meet each format."""
    if os.environ.get("BACKFILL_COMBINATIONS") == "all":
        return [(format, window) for format in FORMS for window in WINDOWS]
    formats, e, a = list(FORMS), list(ENGINES).index(engine), list(ARRIVALS).index(arrival)
    # Each arrival has a third of the nine formats, which begins elsewhere for each engine.
    return [(formats[(3 * a + n + e) % 9], WINDOWS[(3 * e + 2 * a + n) % 4]) for n in range(3)]


def test_each_engine_meets_each_format_and_each_format_each_window_and_arrival() -> None:
    met = [
        (engine, arrival, *combination)
        for engine in ENGINES
        for arrival in ARRIVALS
        for combination in combinations(engine, arrival)
    ]
    assert {(e, f) for e, _, f, _ in met} == {(e, f) for e in ENGINES for f in FORMS}
    assert {(f, w) for *_, f, w in met} == {(f, w) for f in FORMS for w in WINDOWS}
    assert {(a, f) for _, a, f, _ in met} == {(a, f) for a in ARRIVALS for f in FORMS}
    assert {(e, w) for e, _, _, w in met} == {(e, w) for e in ENGINES for w in WINDOWS}


@pytest.mark.slow
@pytest.mark.parametrize("arrival", ARRIVALS)
@pytest.mark.parametrize("engine", ENGINES)
def test_combinations_are_compared(
    spark: SparkSession, tmp_path: Path, engine: str, arrival: str
) -> None:
    job = job_of(tmp_path, engine, arrival, EVENTS, spark)
    in_time: Job | None = None
    for format, name in combinations(engine, arrival):
        writer = FORMS[format].engine or engine
        case = f"{engine}, {arrival}, {format}, {name}"
        path = tmp_path / f"{format}_{name}.parquet"
        pq.write_table(pa.Table.from_pylist(rows(windows(name), name, format, engine)), path)
        compared, said = job, OPTIONS.get(format, {})
        if writer == "samza" and arrival != "none":
            # The wall clock, which is Samza's time, does not go back.
            events = sorted(EVENTS, key=lambda event: event[1])
            in_time = in_time or job_of(tmp_path / "in_time", engine, arrival, events, spark)
            compared = in_time
        refused = name in HAS_NO.get(writer, ()) or (
            name == "sessions" and not FORMS[format].sessions
        )
        if refused:
            with pytest.raises(BackfillError, match=REFUSED):
                compared.reconcile(name, spark, stream=str(path), format=format, **said)
            continue
        reconciled = compared.reconcile(name, spark, stream=str(path), format=format, **said)
        count = {key: sum(w.key == key for w in windows(name)) for key in "ab"}
        assert (reconciled.matched, len(reconciled.differences)) == (count["a"], count["b"]), case
        assert {difference.key for difference in reconciled.differences} == {("b",)}, case
        assert all(difference.explanation.causes for difference in reconciled.differences), case


def job_of(
    folder: Path, engine: str, arrival: str, events: list[tuple[str, int]], spark: SparkSession
) -> Job:
    """A job over these events that has run."""
    path = folder / "job" / "job.yaml"
    path.parent.mkdir(parents=True)
    names = dict.fromkeys(name for _, name in combinations(engine, arrival))
    own = [f"  {name}: {{{DEFINITIONS[name]}, aggregates: {{n: count}}}}" for name in names]
    path.write_text(JOB % (ARRIVALS[arrival], engine, "\n".join(own)))
    (folder / "events").mkdir()
    places = list(range(len(events)))
    columns = {
        "user": [key for key, _ in events],
        "at": pa.array([BEGAN + dt.timedelta(seconds=second) for _, second in events]),
        "place": places,
        "partition": [0 for _ in places],
        "offset": places,
    }
    pq.write_table(pa.table(columns), folder / "events" / "a.parquet")
    job = Job(JobSpec.load(path), MemoryStore())
    job.run(spark)
    return job

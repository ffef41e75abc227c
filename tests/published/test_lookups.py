"""Looking published windows up by key and time, and the events of a window."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from backfill import Job
from backfill.errors import ColumnError, JobFileError, TableError
from backfill.published.lookups import key_values

pytestmark = pytest.mark.usefixtures("interpreted")

US = dt.timedelta(microseconds=1)
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
MINUTE = 60_000_000

JOB = """\
source: {{path: events.json, format: json}}
events: {{key: [shop, user], time: at, time_format: epoch_us, id: id}}
engine: {engine}
windows:
  sessions: {{session: {{gap: 30m}}, aggregates: {{n: count}}}}
  hourly: {{tumbling: {{size: 1h}}, aggregates: {{n: count}}}}
  hopping: {{hopping: {{size: 1h, advance: 20m}}, aggregates: {{n: count}}}}
{more}
tables: {{path: out}}
checks: {{builtin: off}}
"""
MORE = """\
  short: {session: {gap: 30m, max_events: 2}, aggregates: {n: count}}
  moving: {sliding: {size: 1h}, aggregates: {n: count}}
  ahead: {sliding: {size: 10m, following: 30m}, aggregates: {n: count}}
  before: {sliding: {size: 1h, before: true}, aggregates: {n: count}}
  pairs: {count: {size: 2, order: time}, aggregates: {n: count}}
"""
DISTINCT = "  distinct: {sliding: {size: 1h, distinct: true}, aggregates: {n: count}}"
#: Exact gaps, ties, edges of hours, a time before 1970, a key whose user is missing.
TIMES = [0, 0, 30, 60, 61, 120, 121, 121, 121, 180, 240, 300]
KEYS = [(1, "a"), (1, None), (2, "a")]


def written(folder: Path, engine: str, more: str) -> Job:
    """A job whose events are in a file, with copies of some."""
    first = 0 if engine == "kafka-streams" else -100 * MINUTE
    rows = [
        {"id": f"{n}", "shop": shop, "user": user, "at": first + (minute + 7 * k) * MINUTE}
        for k, (shop, user) in enumerate(KEYS)
        for n, minute in enumerate(TIMES)
    ]
    text = "".join(json.dumps(row) + "\n" for row in [*rows, *rows[:5]])
    (folder / "events.json").write_text(text)
    path = folder / "job.yaml"
    path.write_text(JOB.format(engine=engine, more=more))
    return Job.load(path)


def us(moment: dt.datetime) -> int:
    return (moment - EPOCH) // US


def instant(at: int) -> dt.datetime:
    return EPOCH + at * US


@pytest.fixture(scope="module")
def jobs(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Job]:
    """Published jobs by engine: windows end with their last event, after it, or at a bound."""
    made = {}
    for engine, more in (("plain", MORE), ("kafka-streams", DISTINCT), ("storm", ""), ("beam", "")):
        job = written(tmp_path_factory.mktemp(engine), engine, more)
        job.run(spark)
        made[engine] = job
    return made


def holds(engine: str, name: str, row: dict[str, Any], at: int) -> bool:
    """Whether an instant is in a window, by the engines' documented conventions."""
    if name == "moving":
        return us(row["event_time"]) - 60 * MINUTE <= at <= us(row["event_time"])
    if name == "ahead":
        return us(row["event_time"]) - 10 * MINUTE <= at <= us(row["event_time"]) + 30 * MINUTE
    start, end = us(row["window_start"]), us(row["window_end"])
    if name == "distinct" or (name == "sessions" and engine != "beam"):
        return start <= at <= end
    if engine == "storm":
        return start < at <= end
    return start <= at < end


_CASES = [
    *(("plain", name) for name in ("sessions", "hourly", "hopping", "moving", "ahead")),
    *(("kafka-streams", name) for name in ("sessions", "hourly", "distinct")),
    *((engine, name) for engine in ("storm", "beam") for name in ("sessions", "hopping")),
]
#: Instants on and beside the edges.
_INSTANTS = st.builds(
    lambda step, beside: step * 10 * MINUTE + beside,
    st.integers(-12, 45),
    st.sampled_from([0, 0, 1, -1, 7 * MINUTE]),
)


@settings(max_examples=300)
@given(
    case=st.sampled_from(_CASES),
    first=_INSTANTS,
    length=st.none() | st.integers(1, 90 * MINUTE),
    key=st.none() | st.sampled_from(KEYS),
)
def test_windows_covering(
    jobs: dict[str, Job],
    case: tuple[str, str],
    first: int,
    length: int | None,
    key: tuple[int, str | None] | None,
) -> None:
    engine, name = case
    job = jobs[engine]
    last = first if length is None else first + length - 1
    end = None if length is None else instant(first + length)
    windows = job.windows_covering(name, instant(first), end, key=key).to_pylist()
    expected = [
        row
        for row in job.fetch(name).to_pylist()
        if holds(engine, name, row, first)
        and holds(engine, name, row, last)
        and key in (None, (row["shop"], row["user"]))
    ]
    assert windows == expected


@settings(max_examples=200)
@given(
    engine=st.sampled_from(["plain", "kafka-streams", "storm", "beam"]),
    key=st.sampled_from(KEYS),
    earliest_end=_INSTANTS,
    latest_start=_INSTANTS,
)
def test_find_sessions_to_merge(
    jobs: dict[str, Job],
    engine: str,
    key: tuple[int, str | None],
    earliest_end: int,
    latest_start: int,
) -> None:
    job = jobs[engine]
    sessions = job.find_sessions_to_merge(
        "sessions", key, instant(earliest_end), instant(latest_start)
    )
    later = 30 * MINUTE if engine == "beam" else 0
    assert sessions.to_pylist() == [
        row
        for row in job.fetch("sessions", key).to_pylist()
        if us(row["window_end"]) - later >= earliest_end and us(row["window_start"]) <= latest_start
    ]


@settings(max_examples=100)
@given(first=_INSTANTS, length=st.integers(1, 90 * MINUTE), key=st.sampled_from(KEYS))
def test_fetch_by_range(
    jobs: dict[str, Job], first: int, length: int, key: tuple[int, str | None]
) -> None:
    job, end = jobs["plain"], first + length
    rows = job.fetch("hourly").to_pylist()
    own = [row for row in rows if (row["shop"], row["user"]) == key]
    windows = job.fetch("hourly", key, start=instant(first), end=instant(end)).to_pylist()
    assert windows == [
        row for row in own if us(row["window_start"]) < end and us(row["window_end"]) > first
    ]
    assert job.fetch("hourly", key, limit=1).to_pylist() == own[:1]


@pytest.mark.parametrize(
    ("engine", "name"),
    [*_CASES, ("plain", "short")],
    ids=lambda value: str(value),
)
def test_events_in(spark: SparkSession, jobs: dict[str, Job], engine: str, name: str) -> None:
    """They are as many as the window has counted; copies and other keys are left out."""
    job = jobs[engine]
    rows = job.fetch(name).to_pylist()
    counts = []
    for row in rows[:: max(1, len(rows) // 2)]:
        events = job.events_in(name, row, spark).collect()
        assert {(event.shop, event.user) for event in events} == {(row["shop"], row["user"])}
        assert len({event.id for event in events}) == len(events)
        counts.append((len(events), row["n"]))
    assert counts
    assert [number for number, _ in counts] == [wanted for _, wanted in counts]


def test_keys_by_column(jobs: dict[str, Job]) -> None:
    job = jobs["plain"]
    rows = job.fetch("hourly", (1, None)).to_pylist()
    assert rows
    assert job.fetch("hourly", {"user": None, "shop": 1}).to_pylist() == rows
    assert job.fetch("hourly", ["1", None]).to_pylist() == rows


def test_bytes_are_one_value() -> None:
    assert key_values(b"ab", ["k"]) == {"k": b"ab"}
    assert key_values([b"a", b"b"], ["k", "l"]) == {"k": b"a", "l": b"b"}


@pytest.mark.parametrize(
    ("key", "error", "expected"),
    [
        ("a", JobFileError, "1 given, but the key's columns are: shop, user"),
        ({"user": "a"}, JobFileError, "user given, but the key's columns are: shop, user"),
        ((1.5, "a"), ColumnError, "shop"),
        ((2**70, "a"), ColumnError, "shop"),
        (("one", "a"), ColumnError, "shop"),
    ],
    ids=str,
)
def test_wrong_keys(jobs: dict[str, Job], key: Any, error: type[Exception], expected: str) -> None:
    with pytest.raises(error, match=expected):
        jobs["plain"].fetch("hourly", key)


def test_what_cannot_be_looked_up(
    spark: SparkSession, jobs: dict[str, Job], tmp_path: Path
) -> None:
    job = jobs["plain"]
    with pytest.raises(JobFileError, match="only sessions with a gap in time"):
        job.find_sessions_to_merge("hourly", (1, "a"), instant(0), instant(0))
    with pytest.raises(JobFileError, match="must be later than start"):
        job.windows_covering("hourly", instant(5), instant(5))
    with pytest.raises(JobFileError, match="Did you mean 'hourly'"):
        job.fetch("hourli")
    with pytest.raises(JobFileError, match="place in the order"):
        job.events_in("pairs", job.fetch("pairs").to_pylist()[0], spark)
    with pytest.raises(JobFileError, match="came before"):
        job.events_in("before", job.fetch("before").to_pylist()[0], spark)
    with pytest.raises(ColumnError, match="window_start"):
        job.events_in("hourly", {"shop": 1, "user": "a"}, spark)
    with pytest.raises(JobFileError, match="not a date or a time"):
        job.windows_covering("hourly", None)
    with pytest.raises(JobFileError, match=r"start: not a date or a time \(got '5'\)"):
        job.fetch("hourly", start=5)
    with pytest.raises(JobFileError, match="end: must be later than start"):
        job.fetch("hourly", start=instant(5), end=instant(5))
    for limit in ("5", 1.5, 0, -1, True):
        with pytest.raises(JobFileError, match="limit: must be a whole number, at least 1"):
            job.fetch("hourly", limit=limit)
    for name in (None, 5, ["hourly"]):
        with pytest.raises(JobFileError, match="the job has no such window"):
            job.fetch(name)
    with pytest.raises(TableError, match="`backfill run` publishes it"):
        written(tmp_path, "plain", "").fetch("hourly")

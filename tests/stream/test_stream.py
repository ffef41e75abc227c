"""The job as real streaming queries, compared with Spark's rules in plain Python."""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from backfill import Job
from backfill.errors import BackfillError, ColumnError, TableError
from backfill.stream import Streamed
from backfill.stream.checkpoints import Checkpoint
from backfill.time.durations import Fixed
from tests import reference
from tests.event_frames import rows as micros
from tests.reference import Event

pytestmark = pytest.mark.usefixtures("interpreted")

S = 1_000_000
GAP, DELAY = 10 * S, 5 * S
NO_WATERMARK = 0

JOB = """\
source: {path: events, format: json, schema: "user string, at bigint, amount bigint, page string"}
events: {key: user, time: at, time_format: epoch_us}
windows:
  sessions:
    session: {gap: 10s}
    aggregates: &all {n: count, total: sum(amount), paid: count where amount > 2, page: last(page)}
  tumbling: {tumbling: {size: 10s, offset: -3s}, aggregates: *all}
  hopping: {hopping: {size: 10s, advance: 4s, offset: 3s}, aggregates: *all}
tables: {path: out}
stream: {watermark_delay: 5s}
"""
AGGREGATES: dict[str, Callable[[list[Event]], Any]] = {
    "n": len,
    "total": lambda own: sum(e.value[0] for e in own),
    "paid": lambda own: sum(e.value[0] > 2 for e in own),
    "page": lambda own: max((e.time, e.value[1]) for e in own)[1],
}
WINDOWS = {
    "tumbling": reference.hopping(10 * S, 10 * S, -3 * S),
    "hopping": reference.hopping(10 * S, 4 * S, 3 * S),
}

Row = tuple[Any, ...]
State = dict[tuple[str | None, int, int], list[Event]]


@dataclass
class Operator:
    """Spark's stateful operator in append mode, batch by batch.

    Lateness is judged by the watermark after the batch before the last one. Windows that have ended
    by the watermark after the last one go out.
    """

    windows: Callable[[int], list[tuple[int, int]]] | None
    state: State = field(default_factory=dict)
    watermarks: list[int] = field(default_factory=lambda: [NO_WATERMARK, NO_WATERMARK])
    late: int = 0

    def batch(self, events: Sequence[Event]) -> list[Row]:
        lateness, eviction = self.watermarks[-2:]
        for incoming in events:
            windows = self.windows or (lambda t: [(t, t + GAP)])
            for start, end in windows(incoming.time):
                if end <= lateness:
                    self.late += 1
                elif self.windows:
                    self.state.setdefault((incoming.key, start, end), []).append(incoming)
                else:
                    self._merge(incoming, start, end)
        # Spark's watermark has whole milliseconds.
        latest = max((e.time // 1000 * 1000 - DELAY for e in events), default=eviction)
        self.watermarks.append(max(eviction, latest))
        gone = [window for window in self.state if window[2] <= eviction]
        return [result(window, self.state.pop(window)) for window in gone]

    def _merge(self, event: Event, start: int, end: int) -> None:
        touched = [w for w in self.state if w[0] == event.key and w[1] <= end and start <= w[2]]
        events = [event, *(e for w in touched for e in self.state.pop(w))]
        bounds = [(start, end), *(w[1:] for w in touched)]
        window = (event.key, min(a for a, _ in bounds), max(b for _, b in bounds))
        self.state[window] = events


def result(window: tuple[str | None, int, int], events: list[Event]) -> Row:
    return (*window, *(of(events) for of in AGGREGATES.values()))


def event(key: str | None, seconds: float, amount: int = 1, page: str = "/") -> Event:
    return Event(key, round(seconds * S), (amount, page))


# Each is a file, and so a batch.
FILES = [
    [
        event("a", 100, 5, "/a"),
        event("a", 110, 2, "/b"),  # a gap apart: the same session
        event("a", 120.000001, 3, "/c"),  # one microsecond more: another
        event("b", 103.5),
        event(None, 104, 7),  # a group like others
        event("old", -20),  # ended at 0, where the watermark begins
        event("old", -5),
        event("z", 122.0009),  # the watermark: 117
    ],
    [
        event("a", 100, 5, "/a"),  # delivered again
        event("b", 90),  # the watermark is past it, though not for this batch
        event("c", 131.0005),
        event("c", 101, 4),  # goes out with this batch, and is not late by its watermark
    ],
    [
        event("b", 104, 9),  # late
        event("c", 107, 4),  # late, too: its windows end at the watermark
        event("c", 112, 2),  # late for some windows
        event("b", 125, 3),
        event("a", 160.123999, 3),
    ],
]
LATER = [
    [event("c", 128), event("a", 165, 2), event("d", 149), event("d", 144)],
    [
        event("e", 140),
        event("a", 302.0005),  # the watermark: 297, without the half of a millisecond
        event("f", 287),  # ends there
        event("h", 287.0003),  # ends after it
    ],
]
UNUSABLE = [
    {"user": "a", "at": None, "amount": 1, "page": "/"},
    {"user": "a", "at": "soon", "amount": 1, "page": "/"},
    "no object",
]


def write(folder: Path, number: int, events: list[Event], *others: Any) -> None:
    rows = [{"user": e.key, "at": e.time, "amount": e.value[0], "page": e.value[1]} for e in events]
    folder.mkdir(exist_ok=True)
    path = folder / f"{number}.json"
    path.write_text("".join(json.dumps(row) + "\n" for row in [*rows, *others]))
    os.utime(path, (number, number))  # read in this order


def streamed(spark: SparkSession, to: Path, window: str) -> list[Row]:
    return sorted(micros(spark.read.parquet(str(to / window))), key=str)


@dataclass
class World:
    """The queries after their first start, and after another one."""

    messages: list[str]
    done: list[dict[str, Streamed]]
    found: list[dict[str, list[Row]]]
    conf: list[str | None]


@pytest.fixture(scope="module")
def world(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("stream")
    (folder / "job.yaml").write_text(JOB)
    job = Job.load(folder / "job.yaml")
    provider = "spark.sql.streaming.stateStore.providerClass"
    world = World([], [], [], [spark.conf.get(provider, None)])
    for first, files in ((1, FILES), (len(FILES) + 1, LATER), (0, [])):
        for number, events in enumerate(files, first):
            write(folder / "events", number, events, *(UNUSABLE if number == 1 else ()))
        to = folder / "streamed"
        done = job.stream(spark, to=to, files_per_batch=1, progress=world.messages.append)
        world.done.append(done)
        world.found.append({name: streamed(spark, to, name) for name in done})
    world.conf.append(spark.conf.get(provider, None))
    offsets = (folder / "streamed/_checkpoints/sessions/offsets/0").read_text()
    world.conf.append("RocksDB" if "RocksDBStateStoreProvider" in offsets else offsets)
    return world


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sessions", "tumbling", "hopping"])
def test_windows_are_those_of_sparks_rules(world: World, name: str) -> None:
    operator = Operator(WINDOWS.get(name))
    # When the input is drained, a batch without data emits what the last one closed.
    expected = [row for batch in [*FILES, []] for row in operator.batch(batch)]
    assert world.found[0][name] == sorted(expected, key=str)
    first = operator.late
    assert first > 0
    assert world.done[0][name] == Streamed(
        read=sum(map(len, FILES)) + len(UNUSABLE),
        unusable=len(UNUSABLE),
        rows=len(expected),
        batches=4,
        watermark_us=155_123_000,
    )
    assert operator.state

    more = [row for batch in [*LATER, []] for row in operator.batch(batch)]
    assert more
    assert operator.late > first
    assert world.found[1][name] == sorted([*expected, *more], key=str)
    assert (world.done[1][name].rows, world.done[1][name].batches) == (len(more), 3)
    assert world.done[1][name].watermark_us == operator.watermarks[-1] == 297 * S
    assert operator.state  # windows whose end the watermark has not reached are not written


@pytest.mark.slow
def test_without_new_files_nothing_is_done(world: World) -> None:
    assert world.done[2] == dict.fromkeys(world.done[0], Streamed())
    assert world.found[2] == world.found[1]


@pytest.mark.slow
def test_the_session_keeps_its_settings(world: World) -> None:
    before, after, used = world.conf
    assert before == after
    assert used == "RocksDB"


@pytest.mark.slow
def test_batches_are_told(world: World) -> None:
    assert "sessions: batch 0: 11 rows read, 0 windows written" in world.messages


ALL = """\
{n: count, s: sum(amount), lo: min(amount), hi: max(page), mean: mean(amount),
    var: variance(amount), sd: stddev(amount), one: first(page), end: last(page),
    list: collect_list(page), set: collect_set(page), pages: count_distinct(page),
    some: "count_distinct(page, true)", median: "quantile(amount, 0.5)",
    exact: "quantile(amount, 0.5, true)"}"""


@pytest.mark.slow
def test_ordered_input_gives_what_the_batch_gives(spark: SparkSession, tmp_path: Path) -> None:
    """All aggregates, over CSV in folders of dates, under a name that looks like a glob."""
    text = f"""\
source:
  path: "e[v]"
  format: csv
  schema: "user string, shop int, at string, amount bigint, page string, place int"
  date_column: day
events: {{key: [user, shop], time: at, time_format: iso, timezone: Europe/Oslo, arrival: place}}
engine: spark
windows:
  sessions: {{session: {{gap: 30m}}, aggregates: {ALL}}}
  hopping: {{hopping: {{size: 6h, advance: 4h}}, aggregates: {ALL}}}
tables: {{path: out}}
"""
    (tmp_path / "job.yaml").write_text(text)
    begin = dt.datetime(2026, 3, 28, 20)
    lines: dict[str, list[str]] = {}
    for i in range(60):
        at = begin + i * dt.timedelta(minutes=11, seconds=i, microseconds=i)
        user, amount = "ab"[i % 7 // 4], "" if i % 11 == 0 else i * i - 50
        line = f"{user},{i % 2},{at.isoformat()},{amount},/{i % 5},{i}"
        lines.setdefault(f"{at:%Y-%m-%d}", []).append(line)
    lines["2026-03-28"] += ["a,1,2026-03-27T23:30:00,1,/,0", "a,1,2026-03-28T12:00:00,x,/,0", "a"]
    for number, (day, day_lines) in enumerate(lines.items()):
        path = tmp_path / "e[v]" / f"day={day}" / "x.csv"
        path.parent.mkdir(parents=True)
        path.write_text("\n".join(["user,shop,at,amount,page,place", *day_lines]) + "\n")
        os.utime(path, (number, number))
    job = Job.load(tmp_path / "job.yaml")
    ran = job.run(spark)
    assert ran.quarantined["wrong_date"] == 1
    to = tmp_path / "stream"
    done = job.stream(spark, to=to, files_per_batch=1, watermark_delay="1m")
    for name, query in done.items():
        assert (query.read, query.unusable, query.batches) == (63, 3, 3)
        assert query.watermark_us is not None
        table = job.table(name, spark)
        own = spark.read.parquet(str(to / name))
        end = own.columns.index("window_end")
        batch = [row for row in micros(table.select(own.columns)) if row[end] <= query.watermark_us]
        rows = streamed(spark, to, name)
        assert len(rows) == query.rows == len(batch) > 5
        # Up to 4.2 a reader calls some of the columns not nullable.
        assert own.dtypes == table.select(own.columns).dtypes
        assert [*map(rounded, rows)] == [*map(rounded, sorted(batch, key=str))]


def rounded(row: Row) -> Row:
    """Doubles are added up in another order."""
    return tuple(float(f"{value:.12g}") if isinstance(value, float) else value for value in row)


SMALL = """\
source: {path: events, format: json, schema: "user string, at bigint"}
events: {key: user, time: at, time_format: epoch_us}
windows:
  sessions: {session: {gap: 10s}, aggregates: {n: count}}
tables: {path: out}
"""


@pytest.mark.slow
def test_a_query_that_fails_says_why(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "events", 1, [event("a", 1)])
    (tmp_path / "job.yaml").write_text(SMALL.replace("n: count", "n: sum(1 div (at - 1000000))"))
    with pytest.raises(ColumnError, match="a division by zero in an expression"):
        Job.load(tmp_path / "job.yaml").stream(spark, to=tmp_path / "stream")


REFUSED = [
    ("session: {gap: 10s}", "tumbling: {size: 1 day}", "windows.sessions: Structured Streaming "
     "does not support calendar windows (got 'tumbling(size=1 day)')"),
    ("session: {gap: 10s}", "hopping: {size: 1 week, advance: 1 day}",
     "does not support calendar windows"),
    ("session: {gap: 10s}", "cumulating: {size: 1h, step: 5m}", "windows.sessions: Structured "
     "Streaming does not support cumulating windows"),
    ("windows:\n  sessions: {session: {gap: 10s}", "engine: flink\nwindows:\n  sessions: "
     "{hopping: {size: 1h, advance: 2h}", "windows.sessions.advance: is larger than the size 1h"),
    ("json, schema: \"user string, at bigint\"", "delta", "source.format: can't be read as a "
     "stream of files (got 'delta')"),
    ("json, schema: \"user string, at bigint\"", "table", "(got 'table')"),
    ("json, schema: \"user string, at bigint\"", "access_log", "(got 'access_log')"),
    ("format: json", "format: json, options: {cleanSource: delete}", "source.options.cleanSource"),
    ("path: events", "path: .", "to: the output would be written into the folder that events are "
     "read from"),
    ("n: count", "n: sum(amuont)", "sum(amuont): does not fit the events"),
    ("key: user", "key: usr", "key: there is no such column (got 'usr')"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "expected"), REFUSED, ids=[new for _, new, _ in REFUSED])
def test_what_can_not_be_streamed_is_refused_by_name(
    spark: SparkSession, tmp_path: Path, old: str, new: str, expected: str
) -> None:
    assert old in SMALL
    write(tmp_path / "events", 1, [event("a", 1)])
    # The fault is found before the tables' folder is checked.
    text = SMALL.replace(old, new, 1).replace("path: out", "path: ../out")
    (tmp_path / "job.yaml").write_text(text)
    with pytest.raises(BackfillError) as caught:
        Job.load(tmp_path / "job.yaml").stream(spark, to=tmp_path / "stream")
    assert expected in str(caught.value)
    assert caught.value.exit_code == 2
    assert not (tmp_path / "stream").exists()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"files_per_batch": 0}, "files_per_batch: must be a whole number, at least 1"),
        ({"files_per_batch": True}, "files_per_batch: must be a whole number, at least 1"),
        ({"watermark_delay": "1 day"}, "watermark_delay: can't be a calendar span"),
        ({"watermark_delay": "-1s"}, "watermark_delay: must not be negative"),
        ({"watermark_delay": "10"}, "watermark_delay: a bare number has no unit"),
        ({"watermark_delay": "1us"}, "watermark_delay: must be whole milliseconds"),
        ({"to": "s3a://bucket/x"}, "to: must be a local folder"),
        ({"to": ""}, "to: must be a local folder"),
        ({"to": __file__}, "to: must be a local folder"),
    ],
    ids=str,
)
def test_wrong_arguments(
    spark: SparkSession, tmp_path: Path, arguments: dict[str, Any], expected: str
) -> None:
    (tmp_path / "job.yaml").write_text(SMALL)
    with pytest.raises(BackfillError) as caught:
        Job.load(tmp_path / "job.yaml").stream(spark, **{"to": tmp_path / "stream", **arguments})
    assert expected in str(caught.value)


@pytest.mark.parametrize("to", ["out", "out/sessions", "out/quarantine/more"])
def test_output_is_not_written_into_tables(spark: SparkSession, tmp_path: Path, to: str) -> None:
    write(tmp_path / "events", 1, [event("a", 1)])
    (tmp_path / "job.yaml").write_text(SMALL)
    with pytest.raises(TableError, match=r"to: the output would be .* of a table of the job"):
        Job.load(tmp_path / "job.yaml").stream(spark, to=tmp_path / to)
    assert not (tmp_path / "out").exists()


def begun(spark: SparkSession, folder: Path) -> Path:
    """A query that was recorded and is now asked for again."""
    write(folder / "events", 1, [event("a", 1)])
    (folder / "job.yaml").write_text(SMALL)
    to = folder / "stream"
    schema = spark.read.json(str(folder / "events"), schema="user string, at bigint").schema
    spec = Job.load(folder / "job.yaml").spec
    Checkpoint(spec, "sessions", to, (Fixed(0), Fixed(0))).begin(schema)
    return to


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("10s", "20s", "windows.sessions (was session(gap=10s))"),
        ("key: user", "key: []", "events.key (was user)"),
        ("tables:", "stream: {watermark_delay: 5s}\ntables:", "stream.watermark_delay (was 0s)"),
        ("at bigint", "at int", "column at was bigint when the query was started, and is now int"),
    ],
)
def test_a_checkpoint_is_of_one_query(
    spark: SparkSession, tmp_path: Path, old: str, new: str, expected: str
) -> None:
    to = begun(spark, tmp_path)
    (tmp_path / "job.yaml").write_text(SMALL.replace(old, new))
    with pytest.raises(BackfillError) as caught:
        Job.load(tmp_path / "job.yaml").stream(spark, to=to)
    assert expected in str(caught.value)


def test_output_and_checkpoint_belong_together(spark: SparkSession, tmp_path: Path) -> None:
    to = begun(spark, tmp_path)
    job = Job.load(tmp_path / "job.yaml")
    (to / "_checkpoints/sessions/commits").mkdir(parents=True)
    (to / "_checkpoints/sessions/commits/0").touch()
    with pytest.raises(BackfillError, match="stream/sessions: is missing"):
        job.stream(spark, to=to)
    (to / "sessions").mkdir()
    (to / "sessions/mine.parquet").touch()
    (to / "_checkpoints/sessions.json").unlink()
    with pytest.raises(
        BackfillError, match="stream/sessions: holds files that this job's stream did not"
    ):
        job.stream(spark, to=to)

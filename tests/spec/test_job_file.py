"""Valid job files, and everything that can be wrong with one."""

from __future__ import annotations

from pathlib import Path

import pytest

from backfill.cli.init import TEMPLATE
from backfill.errors import JobFileError
from backfill.spec import JobSpec
from backfill.spec.stream import Stream
from backfill.time.durations import Calendar, Fixed
from backfill.triggers import AfterCount, Repeatedly
from backfill.windows import (
    CountWindow,
    CumulatingWindow,
    HoppingWindow,
    SessionWindow,
    SlidingWindow,
    TumblingWindow,
)
from backfill.windows.message_gaps import messages

SAMPLE = Path(__file__).parents[2] / "data/samples/job.yaml"

FULL = """\
source:
  path: data/events
  format: csv
  schema: "user_id string, amount double"
  options: {sep: ";", header: true, nullValue: off, maxColumns: 007, escape: ''}
  date_column: day
events:
  key: [user_id, shop]
  time: event_time
  time_format: yyyy-MM-dd HH:mm
  timezone: Europe/Oslo
  id: event_id
  arrival: [partition, offset]
  max_future: 1d
engine: flink
windows:
  sessions: {session: {gap: 30m}, aggregates: {events: count, revenue: sum(amount)}}
  daily:    {tumbling: {size: 1 day, offset: -1h}, aggregates: {events: count}}
  trailing: {hopping: {size: 24h, advance: 1h}, aggregates: {p: "quantile(amount, 0.5)"}}
  no:       {cumulating: {size: P1D, step: 1h, offset: 2h},
             aggregates: {events: count where amount > 1}}
tables: {path: ../out}
stream:
  path: stream_out
  format: kafka-streams
  grace: 10s
  watermark_delay: 5s
  right_watermark_delay: 7s
  allowed_lateness: 1m
  retention: 1h
  emit: on_close
  api: sql
  topic: changelog
  key_format: string
  value_format: json
  bytes: hex
  columns: {user: user_id}
  firing: delta
  panes: discarding
  caching: true
  commits: commits.json
  restarts: [[0, 1200], [1, 7]]
  store: memory
  emit_interval: 5s
  early: Repeatedly(AfterCount(100))
  late: 3
  drained: false
  spurious: true
  wall_clock: read_at
"""

SMALL = """\
source: {path: events, format: parquet}
events:
  key: user_id
  time: event_time
windows:
  sessions:
    session: {gap: 30m}
    aggregates: {events: count}
tables: {path: out}
"""


def load(folder: Path, text: str | bytes) -> JobSpec:
    path = folder / "job.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return JobSpec.load(path)


def problems(folder: Path, text: str | bytes) -> list[str]:
    """The messages about a bad file, without the folder's name."""
    with pytest.raises(JobFileError) as caught:
        load(folder, text)
    return str(caught.value).replace(f"{folder}/", "").split("\n")


def problem(folder: Path, text: str | bytes) -> str:
    (only,) = problems(folder, text)
    return only


def test_everything_is_read(tmp_path: Path) -> None:
    spec = load(tmp_path, FULL)
    assert spec.path == tmp_path / "job.yaml"
    assert spec.source.path == str(tmp_path / "data/events")
    assert spec.source.schema == "user_id string, amount double"
    assert spec.source.date_column == "day"
    assert spec.source.timezone == spec.timezone == "Europe/Oslo"
    assert spec.key == ("user_id", "shop")
    assert (spec.time, spec.time_format) == ("event_time", "yyyy-MM-dd HH:mm")
    assert (spec.id, spec.arrival) == ("event_id", ("partition", "offset"))
    assert spec.max_future_us == 86_400_000_000
    assert spec.engine.name == "flink"
    assert spec.tables.uri == str(tmp_path.parent / "out")
    assert dict(spec.stream) == {
        "path": str(tmp_path / "stream_out"),
        "format": "kafka-streams",
        "api": "sql",
        "grace": Fixed(10_000_000),
        "watermark_delay": Fixed(5_000_000),
        "right_watermark_delay": Fixed(7_000_000),
        "allowed_lateness": Fixed(60_000_000),
        "retention": Fixed(3_600_000_000),
        "emit": "on_close",
        "topic": "changelog",
        "key_format": "string",
        "value_format": "json",
        "bytes": "hex",
        "columns": {"user": "user_id"},
        "firing": "delta",
        "panes": "discarding",
        "caching": True,
        "commits": str(tmp_path / "commits.json"),
        "restarts": ((0, 1200), (1, 7)),
        "store": "memory",
        "emit_interval": Fixed(5_000_000),
        "early": Repeatedly(AfterCount(100)),
        "late": 3,
        "drained": False,
        "spurious": True,
        "wall_clock": "read_at",
    }
    hour = Fixed(3_600_000_000)
    assert [entry.window for entry in spec.windows.values()] == [
        SessionWindow(gap="30m"),
        TumblingWindow(size=Calendar(1, "day"), offset="-1h"),
        HoppingWindow(size="24h", advance=hour),
        CumulatingWindow(size="1 day", step="1h", offset="2h"),
    ]
    assert list(spec.windows) == ["sessions", "daily", "trailing", "no"]
    assert str(spec.windows["no"].aggregates["events"]) == "count where amount > 1"
    assert str(spec.windows["trailing"].aggregates["p"]) == "quantile(amount, 0.5)"


def test_options_reach_spark_as_they_are_written(tmp_path: Path) -> None:
    assert load(tmp_path, FULL).source.options == {
        "sep": ";",
        "header": "true",
        "nullValue": "off",
        "maxColumns": "007",
        "escape": "",
    }


def test_what_is_left_out_has_defaults(tmp_path: Path) -> None:
    spec = load(tmp_path, SMALL)
    assert spec.engine.name == "plain"
    assert spec.timezone == "UTC"
    assert (spec.key, spec.arrival) == (("user_id",), ())
    assert (spec.time_format, spec.id, spec.max_future_us) == (None, None, None)
    assert spec.stream == Stream()
    assert (spec.stream.path, spec.stream.watermark_delay) == (None, None)


def test_an_optional_setting_may_be_left_empty(tmp_path: Path) -> None:
    assert load(tmp_path, SMALL.replace("  time:", "  id:\n  time:")).id is None


@pytest.mark.parametrize("path", [SAMPLE, TEMPLATE], ids=["sample", "template"])
def test_files_that_are_shipped_are_valid(path: Path) -> None:
    assert "sessions" in JobSpec.load(path).windows


def test_no_key_is_one_group(tmp_path: Path) -> None:
    assert load(tmp_path, SMALL.replace("key: user_id", "key: []")).key == ()


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("events/*/x.parquet", "{folder}/events/*/x.parquet"),
        ("/var/events", "/var/events"),
        ("s3a://bucket/events", "s3a://bucket/events"),
        ("file:/var/events", "file:/var/events"),
    ],
)
def test_only_plain_relative_paths_are_made_absolute(
    tmp_path: Path, path: str, expected: str
) -> None:
    spec = load(tmp_path, SMALL.replace("path: events", f"path: '{path}'"))
    assert spec.source.path == expected.format(folder=tmp_path)


def test_a_relative_job_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    load(Path(), SMALL)
    assert JobSpec.load("job.yaml").source.path == str(tmp_path / "events")


def test_a_catalog_table_is_a_name(tmp_path: Path) -> None:
    spec = load(tmp_path, SMALL.replace("events, format: parquet", "lake.clicks, format: table"))
    assert spec.source.path == "lake.clicks"


def test_aliases_share_parts(tmp_path: Path) -> None:
    text = SMALL.replace("aggregates: {", "aggregates: &shared {").replace(
        "tables:", "  hourly: {tumbling: {size: 1h}, aggregates: *shared}\ntables:"
    )
    assert load(tmp_path, text).windows["hourly"].aggregates.keys() == {"events"}


def test_sliding_windows(tmp_path: Path) -> None:
    text = SMALL.replace("session: {gap: 30m}", "sliding: {size: %s}")
    windows = {
        given: load(tmp_path, text % given).windows["sessions"].window
        for given in ("24h", "1h, before: true", "null", "1h, following: 5m", "1h, distinct: true")
    }
    assert list(windows.values()) == [
        SlidingWindow(size="24h"),
        SlidingWindow(size="1h", before=True),
        SlidingWindow(size=None),
        SlidingWindow(size="1h", following="5m"),
        SlidingWindow(size="1h", distinct=True),
    ]


def test_count_windows_and_gaps_in_messages(tmp_path: Path) -> None:
    text = SMALL.replace("  time:", "  arrival: [partition, offset]\n  time:")
    counts = text.replace("session: {gap: 30m}", "count: {size: %s}")
    windows = {
        given: load(tmp_path, counts % given).windows["sessions"].window
        for given in (
            "5",
            "100, advance: 10",
            "null, advance: 3, order: time",
            "9, per: stream",
            "10, advance: 1m, order: time",
            "1h, advance: 5, order: time",
        )
    }
    assert list(windows.values()) == [
        CountWindow(size=5),
        CountWindow(size=100, advance=10),
        CountWindow(size=None, advance=3, order="time"),
        CountWindow(size=9, per="stream"),
        CountWindow(size=10, advance="1m", order="time"),
        CountWindow(size="1h", advance=5, order="time"),
    ]
    chats = load(tmp_path, text.replace("gap: 30m", "gap: 5 messages"))
    assert chats.windows["sessions"].window == SessionWindow(gap=messages(5))


def test_numbers_are_columns_of_count_windows(tmp_path: Path) -> None:
    text = SMALL.replace("session: {gap: 30m}", "count: {size: 5, order: time}")
    for given, message in (
        (
            text.replace("{events: count}", "{Last_event: count}"),
            "aggregates.Last_event: is a name",
        ),
        (text.replace("key: user_id", "key: first_event"), "the key 'first_event' is a name"),
    ):
        assert message in problem(tmp_path, given)
        load(tmp_path, given.replace("count: {size: 5, order: time}", "session: {gap: 1h}"))


def test_the_id_is_a_column_of_rows_of_events(tmp_path: Path) -> None:
    text = SMALL.replace("session: {gap: 30m}", "sliding: {size: 1h}")
    for id, message in (("Events", "'Events' names both an aggregate"), ("date", "the id 'date'")):
        named = text.replace("  time:", f"  id: {id}\n  time:")
        assert message in problem(tmp_path, named)
        # Tables of other windows have no such column.
        load(tmp_path, named.replace("sliding: {size: 1h}", "session: {gap: 1h}"))
        load(tmp_path, named.replace("size: 1h", "size: 1h, distinct: true"))


# One change to the small file, and what is said about it.
BAD = [
    ("events:\n", "evnts:\n", ["job.yaml:1: events: is missing", "job.yaml:2: evnts: no such set"]),
    ("key:", "kye:", ["job.yaml:2: events.key: is missing", "Did you mean 'key'?"]),
    ("key: user_id", "key:", ["job.yaml:3: events.key: is empty"]),
    ("key: user_id", "key: [a, a]", ["job.yaml:3: events.key: is listed twice (got 'a')"]),
    ("key: user_id", "key: [a, A]", ["job.yaml:3: events.key: 'a' and 'A' differ only in case"]),
    ("key: user_id", "key: {a: b}", ["job.yaml:3: events.key: must be a column name or a list"]),
    ("key: user_id", "key: Date", ["job.yaml:3: events.key: is a name reserved for the tables"]),
    ("key: user_id", "key: [a, _b]", ["(got '_b')"]),
    ("time: event_time", "time: ''", ["job.yaml:4: events.time: is empty"]),
    ("time: event_time", "time: [a]", ["job.yaml:4: events.time: must be text"]),
    ("  time:", "  time_format: epoch\n  time:", ["epoch_s", "yyyy-MM-dd", "(got 'epoch')"]),
    ("  time:", "  timezone: Europe/Olso\n  time:", ["4: events.timezone: ", "'Europe/Oslo'?"]),
    ("  time:", "  timezone: ../etc\n  time:", ["(got '../etc')", "UTC"]),
    ("  time:", "  max_future: 30:00\n  time:", ["not a duration (got '30:00')"]),
    ("  time:", "  max_future: -1h\n  time:", ["must not be negative"]),
    ("  time:", "  max_future: 1 day\n  time:", ["can't be a calendar span", "24h"]),
    ("gap: 30m", "gap: 0s", ["job.yaml:7: windows.sessions.session.gap: must be greater"]),
    ("gap: 30m", "gap: -5m", ["windows.sessions.session.gap: must be greater than zero"]),
    ("gap: 30m", "gap: 30", ["a bare number has no unit (got 30)", "30m"]),
    ("gap: 30m", "gap: 1e3", ["not a duration (got '1e3')"]),
    ("gap: 30m", "gap: 1 day", ["windows.sessions.session.gap: can't be a calendar span"]),
    ("gap: 30m", "gap: 5 messages", ["session.gap: is a number of messages, but the job does not"]),
    ("gap: 30m", "gap: 0 messages", ["session.gap: must be a whole number of messages, at least"]),
    ("gap: 30m", "gap: [1]", ["windows.sessions.session.gap: not a duration"]),
    ("gap: 30m", "gab: 30m", ["session.gap: is missing", "session.gab: no such", "mean 'gap'?"]),
    ("session: {gap: 30m}", "sesion: {gap: 30m}", ["windows.sessions.sesion", "'session'?"]),
    (
        "session: {gap: 30m}",
        "count: {size: 5}",
        [
            "7: windows.sessions.count.order: depends on arrival",
            "events.arrival, or use order: time",
        ],
    ),
    *(
        ("session: {gap: 30m}", f"count: {{{given}}}", [f"7: windows.sessions.count{message}"])
        for given, message in (
            ("advance: 5", ".size: is missing"),
            ("size: 0, order: time", ".size: must be a whole number of events"),
            ("size: 2.5, order: time", ".size: must be a whole number of events"),
            ("size: 5, advance: x, order: time", ".advance: not a duration"),
            ("size: 5, order: tme", ".order: must be arrival or time"),
            ("size: 5, per: user, order: time", ".per: must be key or stream"),
            ("size: 5, advance: 6, order: time", ".advance: is larger than the size 5"),
            ("size: 1h, advance: 1m, order: time", ".advance: can't be a duration if the size is"),
            ("size: 1h", ".order: must be time if the size or the advance is a duration"),
        )
    ),
    ("session: {gap: 30m}", "session: 30m", ["windows.sessions.session: must be a mapping"]),
    (
        "session: {gap: 30m}",
        "session: {gap: 30m}\n    tumbling: {size: 1h}",
        ["job.yaml:6: windows.sessions: has session and tumbling", "Give one of session, tumbling"],
    ),
    ("    session: {gap: 30m}\n", "", ["windows.sessions: has no window type"]),
    (
        "session: {gap: 30m}",
        "hopping: {size: 1h, advance: 2h}",
        ["job.yaml:7: windows.sessions.hopping.advance: is larger than the size 1h"],
    ),
    (
        "session: {gap: 30m}",
        "cumulating: {size: 1h, step: 7m}",
        ["windows.sessions.cumulating.step: the size 1h is not a whole number of steps"],
    ),
    *(
        ("session: {gap: 30m}", f"sliding: {{{given}}}", [f"7: windows.sessions.sliding{message}"])
        for given, message in (
            ("size: 1 day", ".size: can't be a calendar span"),
            ("size: 0s", ".size: must be greater than zero"),
            ("before: true", ".size: is missing"),
            ("size: 1h, before: yes", ".before: must be true or false (got 'yes')"),
            ("size: 1h, following: 1 week", ".following: can't be a calendar span"),
            ("size: 1h, before: true, following: 1m", ".following: can't be combined with bef"),
            ("size: null, distinct: true", ".size: distinct windows need a size"),
        )
    ),
    ("windows:", "engine: flonk\nwindows:", ["job.yaml:5: engine: no such engine", "'flink'?"]),
    ("windows:", "engine: [flink]\nwindows:", ["job.yaml:5: engine: must be a name"]),
    ("format: parquet", "format: kafka", ["1: source.topic: is missing"]),
    ("format: parquet", "format: parqet", ["1: source.format: no such format", "'parquet'?"]),
    ("count}", "cuont}", ["8: windows.sessions.aggregates.events: no such", "'count'?"]),
    ("count}", "'sum(x'}", ["windows.sessions.aggregates.events: is cut off"]),
    ("events: count}", "p: quantile(x, 0.5)}", ["Put it in quotes"]),
    ("events: count}", "p: 'quantile(x, 2)'}", ["must be between 0 and 1 (got 2)"]),
    ("events: count}", "p: [a]}", ["windows.sessions.aggregates.p: must be text"]),
    ("events: count}", "}", ["8: windows.sessions.aggregates: needs at least one aggregate"]),
    ("    aggregates: {events: count}\n", "", ["windows.sessions.aggregates: is missing"]),
    ("events: count}", "user_ID: count}", ["is already a key column"]),
    (
        "events: count}",
        "is_open: count}",
        ["windows.sessions.aggregates.is_open: is a name reserved"],
    ),
    (
        "events: count}",
        "events: count where rand() < 1}",
        [
            "8: windows.sessions.aggregates.events: calls rand, which can give the same event "
            "another"
        ],
    ),
    ("gap: 30m}", "gap: 30m, start_when: at > Now ()}", ["start_when: calls Now, which can give"]),
    ("events: count}", "Session_Id: count}", ["is a name reserved for the tables"]),
    ("events: count}", "_n: count}", ["is a name reserved for the tables"]),
    ("events: count}", "a b: count}", ["can't be used as a column name", "letters, digits"]),
    ("events: count}", "n: count, N: count}", ["'n' and 'N' differ only in case"]),
    ("  sessions:", "  Quarantine:", ["6: windows.Quarantine: is a name reserved for the tables"]),
    ("  sessions:", "  events:", ["6: windows.events: is a name reserved for the tables"]),
    ("  sessions:", "  _sessions:", ["can't be used as a table name"]),
    ("  sessions:", "  ../x:", ["can't be used as a table name", "letters, digits"]),
    ("  sessions:", "  sitzungen für:", ["can't be used as a table name"]),
    ("  sessions:", '  "a\\n\\e[31m":', ["windows.a\\n\\x1b[31m: can't be used as a table name"]),
    ("path: out", "path: ftp://b/out", ["9: tables.path: must be a local folder, or a URL"]),
    ("path: out", "path: s3://KEY:x@b/out", ["9: tables.path: contains a key or a password"]),
    ("path: out", "path: s3://b/o#x", ["9: tables.path: has something that a library"]),
    ("path: out", "path: events/out", ["9: tables.path: the tables would be written into"]),
    ("path: events", "path: out/sessions", ["written into the folder that events are read from:"]),
    ("path: events", "path: out/quarantine/x/*.csv", ["9: tables.path: the tables would be"]),
    ("path: events", "path: o*/*", ["9: tables.path: the tables would be written into"]),
    ("path: events", "path: '{in,out}/[^q]*'", ["9: tables.path: the tables would be written"]),
    ("path: out", "catalog: lake", ["9: tables.schema: is missing", "schema of the catalog"]),
    ("path: out", "catalog: a/b, schema: web", ["9: tables.catalog: can't be used as a name"]),
    ("path: out", "path: out, schema: web", ["9: tables.schema: has no meaning without a cat"]),
    ("path: out", "format: delta", ["9: tables.path: is missing", "catalog: lake"]),
    ("path: out", "path: out, format: iceberg", ["9: tables.format: Iceberg tables need a cat"]),
    ("path: out", "path: out, format: hudi", ["9: tables.format: no such format of tables"]),
    (
        "path: out",
        "catalog: lake, schema: web, format: delta",
        ["9: tables.path: is missing", "where the tables' files go"],
    ),
    (
        "path: out",
        "catalog: lake, schema: web, format: delta, path: out, options: {uri: x}",
        ["9: tables.options: does not apply to Delta tables"],
    ),
    (
        "path: out",
        "path: out, sort_by: [user_id, event]",
        ["9: tables.sort_by: no table has such a column (got 'event')", "'events'?"],
    ),
    (
        "path: out",
        "path: out, properties: {delta.targetFilesize: 1mb}",
        ["9: tables.properties.delta.targetFilesize: can't be set", "'delta.targetFileSize'?"],
    ),
    (
        "path: out",
        "path: out, properties: {delta.targetFileSize: big}",
        ["9: tables.properties.delta.targetFileSize: must be a size, such as 128mb (got 'big')"],
    ),
    (
        "path: out",
        "catalog: lake, schema: web, properties: {format-version: 3}",
        ["9: tables.properties.format-version: can't be set, since runs rely on it"],
    ),
    (
        "path: out",
        "catalog: lake, schema: web, properties: {write.target-file-size-bytes: 128mb}",
        ["bytes: must be a number of bytes, such as 134217728 (got '128mb')"],
    ),
    (
        "path: out",
        "catalog: lake, schema: web, options: {uri: [postgresql://u:secret@h/d]}",
        ["9: tables.options.uri: must be text"],
    ),
    ("tables:", "retention: 0s\ntables:", ["9: retention: must be greater than zero"]),
    ("tables:", "retention: 1 month\ntables:", ["9: retention: "]),
    ("tables:", "timezone: Europe/Paris\ntables:", ["9: timezone: no such", "under events"]),
    ("tables:", "path: out2\ntables:", ["9: path: no such", "under source or tables or stream"]),
    ("key: user_id", "key: user_id\n  engine: flink", ["events.engine: no such", "at the top"]),
    ("tables:", "stream: {delay: 1s}\ntables:", ["9: stream.delay: no such setting"]),
    ("tables:", "stream: {graze: 1s}\ntables:", ["9: stream.graze: no such", "mean 'grace'?"]),
    ("tables:", "stream: {format: spark}\ntables:", ["9: stream.format: no such format", "spark-"]),
    ("tables:", "stream: {format: flnk}\ntables:", ["no such format (got 'flnk')", "'flink'?"]),
    ("tables:", "stream: {path: [x]}\ntables:", ["9: stream.path: must be text"]),
    ("tables:", "stream: {grace: 10}\ntables:", ["9: stream.grace: a bare number has no unit"]),
    ("tables:", "stream: {grace: 1 day}\ntables:", ["stream.grace: can't be a calendar span"]),
    ("tables:", "stream: {retention: -1s}\ntables:", ["stream.retention: must not be negative"]),
    ("tables:", "stream: {watermark_delay: 1us}\ntables:", ["must be whole milliseconds"]),
    ("tables:", "stream: {emit: on_updat}\ntables:", ["stream.emit: no such", "'on_update'?"]),
    ("tables:", "stream: {topic: input}\ntables:", ["stream.topic: ", "changelog, output"]),
    ("tables:", "stream: {bytes: hexa}\ntables:", ["stream.bytes: ", "'hex'?"]),
    ("tables:", "stream: {key_format: text}\ntables:", ["stream.key_format: no such key encoding"]),
    ("tables:", "stream: {columns: {a: n, b: N}}\ntables:", ["stream.columns: 'n' and 'N' diff"]),
    ("tables:", "stream: {firing: late}\ntables:", ["stream.firing: ", "accumulating, delta"]),
    ("tables:", "checks: {builtin: {x: off}}\ntables:", ["9: checks.builtin.x: no such check"]),
    ("tables: {path: out}", "", ["job.yaml:1: tables: is missing"]),
    ("tables: {path: out}", "tables: out", ["9: tables: must be a mapping"]),
]


@pytest.mark.parametrize(("old", "new", "expected"), BAD, ids=[new for _, new, _ in BAD])
def test_bad_settings(tmp_path: Path, old: str, new: str, expected: list[str]) -> None:
    assert old in SMALL
    lines = problems(tmp_path, SMALL.replace(old, new, 1))
    for line in lines:
        assert line.startswith("job.yaml:")
    for part in expected:
        assert part in "\n".join(lines)


def test_all_problems_are_told_in_the_order_of_lines(tmp_path: Path) -> None:
    text = (
        SMALL.replace("gap: 30m", "gap: 0s")
        .replace("parquet", "parket")
        .replace("  time: event_time", "  time: event_time\n  tiem: x")
        .replace("{path: out}", "{}")
    )
    assert [line.split(": ")[0:2] for line in problems(tmp_path, text)] == [
        ["job.yaml:1", "source.format"],
        ["job.yaml:5", "events.tiem"],
        ["job.yaml:8", "windows.sessions.session.gap"],
        ["job.yaml:10", "tables.path"],
    ]


def test_a_single_problem_has_its_facts(tmp_path: Path) -> None:
    with pytest.raises(JobFileError) as caught:
        load(tmp_path, SMALL.replace("parquet", "parket"))
    assert caught.value.field == f"{tmp_path}/job.yaml:1: source.format"
    assert caught.value.value == "parket"
    assert caught.value.way_out == "Did you mean 'parquet'?"


@pytest.mark.parametrize(
    "source",
    [
        "{path: e, format: csv, options: {password: [hunter2]}}",
        "{path: e, format: csv, options: {password: {a: hunter2}}}",
        "{path: e, format: csv, options: password=hunter2}",
        "{path: e, format: csv, options: [hunter2]}",
        "{path: e, format: csv, password: hunter2}",
        "{path: [hunter2], format: csv}",
        "s3a://user:hunter2@bucket",
        "{path: 's3://KEY:hunter2/x@shop/events', format: csv}",
        "{path: e, format: csv, options: {a: hunter2, a: hunter2}}",
        "{path: e, format: csv, options: {password: hunter2",
    ],
)
def test_no_secret_is_told(tmp_path: Path, source: str) -> None:
    text = SMALL.replace("{path: events, format: parquet}", source)
    assert "hunter2" not in problem(tmp_path, text)


def test_engines_have_rules_of_their_own(tmp_path: Path) -> None:
    gaps = SMALL.replace("session: {gap: 30m}", "hopping: {size: 1h, advance: 2h}")
    assert load(tmp_path, f"{gaps}engine: flink\n").engine.name == "flink"
    fine = SMALL.replace("gap: 30m", "gap: 1us") + "engine: flink\n"
    assert "session.gap: must be whole milliseconds" in problem(tmp_path, fine)


RULED = SMALL.replace("{gap: 30m}", "{%s}")


def test_rules_of_sessions(tmp_path: Path) -> None:
    rules = (
        "gap: 30m, max_duration: 4h, max_duration_on: grid, max_events: 100, new_when: campaign, "
        "null_is_change: true, start_when: page = '/', end_when: 'x > 1', split: 06:00, "
        "min_events: 2, min_duration: 1s"
    )
    window = load(tmp_path, RULED % rules).windows["sessions"].window
    assert window == SessionWindow(
        gap="30m",
        max_duration="4h",
        max_duration_on="grid",
        max_events=100,
        new_when=["campaign"],
        null_is_change=True,
        start_when="page = '/'",
        end_when="x > 1",
        split="06:00",
        min_events=2,
        min_duration="1s",
    )


def test_presets_of_sessions(tmp_path: Path) -> None:
    window = load(tmp_path, RULED % "preset: mixpanel, gap: 20m").windows["sessions"].window
    assert window == SessionWindow(gap="20m", split="midnight")


@pytest.mark.parametrize(
    ("rules", "problem"),
    [
        ("max_duration: 4h", "session.gap: is missing. Give a gap such as 30m, or a preset"),
        ("preset: ga5", "session.preset: no such preset (got 'ga5'). Did you mean 'ga4'?"),
        ("gap: 30m, max_duration: 0s", "session.max_duration: must be greater than zero"),
        ("gap: 30m, max_events: none", "session.max_events: must be a whole number of events"),
        ("gap: 30m, split: noon", "session.split: must be midnight or a time of day"),
        ("gap: 30m, max_duration_on: grid", "session.max_duration_on: has no meaning without"),
        ("gap: 30m, new_when: [a, a]", "session.new_when: is listed twice"),
        (
            "gap: 30m, new_when: [a], null_is_change: perhaps",
            "session.null_is_change: must be true or false",
        ),
        ("gap: 30m, min_event: 2", "session.min_event: no such setting. Did you mean 'min_events'"),
    ],
)
def test_wrong_rules_of_sessions(tmp_path: Path, rules: str, problem: str) -> None:
    with pytest.raises(JobFileError) as error:
        load(tmp_path, RULED % rules)
    assert f"windows.sessions.{problem}" in str(error.value)

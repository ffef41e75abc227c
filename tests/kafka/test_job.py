"""A job over a topic: from the broker to the reconciliation with what an operator sent."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from deltalake import write_deltalake
from pyspark.sql import SparkSession

from backfill.cli import main
from backfill.errors import JobFileError, SourceError
from backfill.job import Job
from tests.kafka.broker import Broker, Sent
from tests.on_sail import spark_only

pytestmark = pytest.mark.usefixtures("interpreted")

RECORDED = Path(__file__).parent.parent / "engines" / "recorded"


@pytest.fixture
def job(broker: Broker, topic: str, tmp_path: Path) -> Callable[..., Path]:
    """Writes a job file over the test's topic."""

    def write(**settings: Any) -> Path:
        source = {
            "format": "kafka",
            "path": "copied",
            "topic": topic,
            "options": {"bootstrap.servers": broker.address},
            "schema": "user string, at string, amount double, more struct<page: string>",
        }
        document = {
            "source": source,
            "events": {"key": "user", "time": "at", "time_format": "iso"},
            "windows": {
                "sessions": {
                    "session": {"gap": "30m"},
                    "aggregates": {
                        "events": "count",
                        "revenue": "sum(amount)",
                        "last_page": "last(more.page)",
                        "keys": "collect_list(kafka_key)",
                        "at_us": "max(unix_micros(kafka_timestamp))",
                    },
                }
            },
            "tables": {"path": "out"},
            **settings,
        }
        path = tmp_path / "job.yaml"
        path.write_text(yaml.safe_dump(document))
        return path

    return write


def _visit(minute: int, amount: float | None, page: str, **where: Any) -> Sent:
    at = f"2026-01-31T{minute // 60:02}:{minute % 60:02}:00Z"
    value = {"user": "ü", "at": at, "amount": amount, "more": {"page": page, "other": 1}}
    return Sent(json.dumps(value, ensure_ascii=False).encode(), **where)


def _sessions(job: Job, spark: SparkSession) -> list[tuple[Any, ...]]:
    columns = ["user", "events", "revenue", "last_page", "keys", "at_us"]
    rows = job.table("sessions", spark).orderBy("window_start")
    return [tuple(row) for row in rows.select(*columns).collect()]


@spark_only
def test_a_topic_is_computed_and_continued(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    job: Callable[..., Path],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    path = job()
    loaded = Job.load(path)
    with pytest.raises(SourceError, match="no records of the topic have been copied") as caught:
        loaded.run(spark)
    assert caught.value.way_out == "backfill pull copies them"
    broker.send(
        topic,
        [
            _visit(0, 1.5, "/", key=b"a", at_ms=7),
            # At the same time: the record with the larger place is the last one.
            _visit(10, None, "/b", partition=1, key=b"\xff", at_ms=5),
            _visit(10, 2, "/c", partition=0, at_ms=6),
            _visit(100, 8, "/late", partition=1),
        ],
    )
    assert main(["pull", str(path)]) == 0
    printed = capsys.readouterr()
    assert f"Copied 4 records of {topic} into {tmp_path / 'copied'}." in printed.out
    assert f"copied 4 records of {topic}" in printed.err
    assert loaded.run(spark).read == 4
    first = ("ü", 3, 3.5, "/b", ["a", "0xFF"], 7_000)
    assert _sessions(loaded, spark) == [first, ("ü", 1, 8.0, "/late", [], 1_000)]
    assert loaded.recompute(spark) is None
    broker.send(topic, [_visit(60, 4, "/d", key=b"z"), _visit(30, 4, "/e", key=b"y")])
    assert main(["pull", str(path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document == {
        "ok": True,
        "topic": topic,
        "path": str(tmp_path / "copied"),
        "partitions": [
            {"partition": 0, "first": 2, "next": 4, "records": 2, "lost": 0},
            {"partition": 1, "first": 2, "next": 2, "records": 0, "lost": 0},
        ],
    }
    done = loaded.recompute(spark)
    assert done is not None
    assert done.read == 2
    merged = ("ü", 5, 11.5, "/d", ["a", "0xFF", "y", "z"], 7_000)
    assert _sessions(loaded, spark) == [merged, ("ü", 1, 8.0, "/late", [], 1_000)]
    assert all(outcome.success for outcome in loaded.validate(spark=spark))
    broker.send(topic, [_visit(0, 1, "/")])
    broker.delete_before(topic, 0, 5)
    assert main(["pull", str(path)]) == 1
    assert "Kafka had deleted 1 offsets before they were copied" in capsys.readouterr().out


@spark_only
def test_what_is_no_event_is_quarantined_with_its_place(
    spark: SparkSession, broker: Broker, topic: str, job: Callable[..., Path], tmp_path: Path
) -> None:
    bad = [
        b"",
        None,
        b"nonsense",
        b'["a"]',
        b"7",
        b'{"user": "a"',
        b"\xff",
        b'{"user": "\xff", "at": "2026-01-31T00:00:00Z"}',
        b'{"user": "a", "at": "2026-01-31T00:00:00Z", "amount": "many"}',
        b'{"user": "a", "at": "2026-01-31T00:00:00Z", "more": 1}',
    ]
    broker.send(topic, [*map(Sent, bad), Sent(b'{"user": "a"}'), _visit(0, 1, "/")])
    loaded = Job.load(job(checks={"builtin": {"quarantined_share": "1"}}))
    loaded.pull()
    done = loaded.run(spark)
    assert (done.accepted, done.quarantined) == (1, {"unparsable_line": 10, "no_time": 1})
    rows = loaded.table("quarantine", spark).collect()
    (file,) = (tmp_path / "copied").glob("*.parquet")
    by_source = {row["source"]: row["raw"] for row in rows if row["reason"] == "unparsable_line"}
    text = ["" if value is None else value.decode(errors="replace") for value in bad]
    assert by_source == {f"{file}:0:{offset}": raw for offset, raw in enumerate(text)}


@spark_only
def test_the_output_of_kafka_streams_comes_from_its_topic(
    spark: SparkSession, broker: Broker, topic: str, job: Callable[..., Path], tmp_path: Path
) -> None:
    """A recorded run: what went into the operator, and what it sent, byte by byte."""
    with open(RECORDED / "events.jsonl") as lines:
        sent = [Sent(line.encode()) for line in lines]
    with gzip.open(RECORDED / "kafka-driver" / "session-10s" / "output.jsonl.gz", "rt") as lines:
        output = [json.loads(line) for line in lines]
    broker.send(topic, sent)
    out = f"{topic}-output"
    broker.create(out)
    broker.send(
        out,
        [
            Sent(record["value"] and bytes.fromhex(record["value"]), bytes.fromhex(record["key"]))
            for record in output
        ],
    )
    source = {**yaml.safe_load(job().read_text())["source"], "schema": "key string, time long"}
    path = job(
        source=source,
        events={"key": "key", "time": "time", "time_format": "epoch_ms", "arrival": "offset"},
        engine="kafka-streams",
        windows={"sessions": {"session": {"gap": "30s"}, "aggregates": {"events": "count"}}},
        stream={"path": "streamed", "format": "kafka-streams", "grace": "10s"},
    )
    loaded = Job.load(path)
    assert loaded.pull().records == len(sent)
    assert loaded.pull(topic=out, to=tmp_path / "streamed").records == len(output)
    loaded.run(spark)
    reconciled = loaded.reconcile("sessions", spark)
    assert reconciled.matched == 354
    assert reconciled.causes == {"late": 61, "engine_loss": 17}
    assert reconciled.unexplained == reconciled.possible == 0


def test_settings_of_a_topic(job: Callable[..., Path]) -> None:
    path = job()
    text = path.read_text()
    for setting in ("topic", "schema", "options"):
        document = yaml.safe_load(text)
        del document["source"][setting]
        path.write_text(yaml.safe_dump(document))
        with pytest.raises(JobFileError, match="is missing") as caught:
            Job.load(path)
        assert f"source.{setting}" in str(caught.value)
    path.write_text(text.replace("format: kafka", "format: json"))
    with pytest.raises(JobFileError, match="no meaning for this format"):
        Job.load(path)
    document = yaml.safe_load(text)
    document["source"] = {"path": "events", "format": "parquet"}
    path.write_text(yaml.safe_dump(document))
    with pytest.raises(JobFileError, match="only topics of Kafka are copied"):
        Job.load(path).pull()
    path.write_text(text)
    with pytest.raises(JobFileError, match="another topic needs a folder of its own"):
        Job.load(path).pull(topic="other")


@spark_only
def test_names_that_are_taken(
    spark: SparkSession, broker: Broker, topic: str, job: Callable[..., Path]
) -> None:
    broker.send(topic, [_visit(0, 1, "/")])
    path = job()
    document = yaml.safe_load(path.read_text())
    document["source"]["schema"] += ", Offset long"
    path.write_text(yaml.safe_dump(document))
    loaded = Job.load(path)
    loaded.pull()
    with pytest.raises(SourceError, match="name of a column that each event gets from its record"):
        loaded.run(spark)
    document["source"]["schema"] = "user strin"
    path.write_text(yaml.safe_dump(document))
    with pytest.raises(SourceError, match="Spark cannot read this as a schema"):
        Job.load(path).run(spark)
    document["source"] |= {"path": "other", "schema": "user string"}
    path.write_text(yaml.safe_dump(document))
    write_deltalake(path.parent / "other", pa.table({"user": ["a"]}))
    with pytest.raises(SourceError, match="something other than a topic's records"):
        Job.load(path).run(spark)
    with pytest.raises(SourceError, match="late events of a source of format kafka") as caught:
        Job.load(path).recompute(spark, late="late")
    assert caught.value.way_out == "backfill pull copies them"

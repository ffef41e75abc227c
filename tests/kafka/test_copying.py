"""Copying topics of a real broker: each record once, whatever happens on either side."""

from __future__ import annotations

import datetime as dt
import multiprocessing
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake

from backfill.errors import SetupError, SourceError
from backfill.folders import delta_options
from backfill.kafka import copying
from backfill.kafka import topic as topics
from backfill.kafka.copying import Copied, CopiedPartition, copy_topic
from backfill.kafka.records import SCHEMA, RecordTable
from tests import objects
from tests.kafka.broker import Broker, Sent

pytestmark = pytest.mark.one_lane

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)


def _silent(_: str) -> None:
    pass


@pytest.fixture
def copy(broker: Broker, topic: str, tmp_path: Path) -> Callable[..., Copied]:
    def call(
        name: str = topic,
        *,
        to: Path | str = tmp_path / "copied",
        progress: Callable[[str], None] = _silent,
        **settings: str,
    ) -> Copied:
        given = {"bootstrap.servers": broker.address, **settings}
        return copy_topic(name, given, str(to), progress)

    return call


def _rows(folder: Path) -> list[dict[str, Any]]:
    """The rows in order of partition and offset."""
    rows = DeltaTable(folder).to_pyarrow_table().to_pylist()
    return sorted(rows, key=lambda row: (row["partition"], row["offset"]))


def _numbered(numbers: range, partition: int = 0) -> list[Sent]:
    return [Sent(b"%d" % number, partition=partition) for number in numbers]


def _two_hundred() -> list[Sent]:
    """Two hundred records, half of them in each partition."""
    return [*_numbered(range(100)), *_numbered(range(100, 200), partition=1)]


def _values(folder: Path) -> list[int]:
    return [int(row["value"]) for row in _rows(folder)]


def test_records_are_copied_as_they_are(
    broker: Broker, topic: str, copy: Callable[..., Copied], tmp_path: Path
) -> None:
    sent = [
        Sent(b'{"a": 1}', b"key", 0, 1_767_225_600_123),
        Sent(b"\xff\x00", None, 1, 1),
        Sent(None, b"\xfe", 1, 2),
        Sent(b"", b"", 0, 1_767_225_600_122),
    ]
    broker.send(topic, sent)
    folder = tmp_path / "copied"
    assert copy() == Copied(
        topic, str(folder), (CopiedPartition(0, 0, 2, 2, 0), CopiedPartition(1, 0, 2, 2, 0))
    )
    assert _rows(folder) == [
        {
            "key": record.key,
            "value": record.value,
            "partition": record.partition,
            "offset": offset,
            "timestamp": EPOCH + dt.timedelta(milliseconds=record.at_ms),
        }
        for offset, record in [(0, sent[0]), (1, sent[3]), (0, sent[1]), (1, sent[2])]
    ]


def test_a_timestamp_beyond_the_calendar_is_none(
    broker: Broker, topic: str, copy: Callable[..., Copied], tmp_path: Path
) -> None:
    last_ms = 253_402_300_799_999
    nanoseconds = 1_767_225_600_000_000_000
    broker.send(topic, [Sent(b"", b"", 0, at) for at in (last_ms, last_ms + 1, nanoseconds)])
    assert copy().records == 3
    last = EPOCH + dt.timedelta(milliseconds=last_ms)
    assert [row["timestamp"] for row in _rows(tmp_path / "copied")] == [last, None, None]


def test_a_copy_continues_where_the_last_one_ended(
    broker: Broker, topic: str, copy: Callable[..., Copied], tmp_path: Path
) -> None:
    folder = tmp_path / "copied"
    assert copy().records == 0
    broker.send(topic, _numbered(range(3)))
    assert copy().records == 3
    version = DeltaTable(folder).version()
    assert copy().records == 0
    # Nothing came, so nothing is written.
    assert DeltaTable(folder).version() == version
    broker.send(topic, [*_numbered(range(3, 5)), *_numbered(range(5, 9), partition=1)])
    assert copy().partitions == (CopiedPartition(0, 3, 5, 2, 0), CopiedPartition(1, 0, 4, 4, 0))
    assert _values(folder) == list(range(9))


def test_large_copies_take_several_commits(
    broker: Broker,
    topic: str,
    copy: Callable[..., Copied],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(topics, "_AT_ONCE", 10)
    monkeypatch.setattr(copying, "_RECORDS", 25)
    broker.send(topic, _two_hundred())
    said: list[str] = []
    assert copy(progress=said.append).records == 200
    assert len(said) > 5
    assert said[-1] == f"copied 200 records of {topic}"
    # Each commit has records, even the last one.
    assert len(set(said)) == len(said)
    assert _values(tmp_path / "copied") == list(range(200))
    monkeypatch.setattr(copying, "_BYTES", 10)
    broker.send(topic, _numbered(range(100, 200)))
    said.clear()
    copy(progress=said.append)
    assert len(said) > 5
    places = [(row["partition"], row["offset"]) for row in _rows(tmp_path / "copied")]
    assert places == [(0, n) for n in range(200)] + [(1, n) for n in range(100)]


def _killed(name: str, address: str, folder: str) -> None:
    commits: list[str] = []

    def progress(message: str) -> None:
        commits.append(message)
        if len(commits) == 3:
            os.kill(os.getpid(), 9)

    topics._AT_ONCE = copying._RECORDS = 10
    copy_topic(name, {"bootstrap.servers": address}, folder, progress)


def test_a_killed_copy_is_continued(
    broker: Broker, topic: str, copy: Callable[..., Copied], tmp_path: Path
) -> None:
    broker.send(topic, _two_hundred())
    folder = tmp_path / "copied"
    process = multiprocessing.get_context("spawn").Process(
        target=_killed, args=(topic, broker.address, str(folder))
    )
    process.start()
    process.join()
    assert process.exitcode == -9
    there = len(_rows(folder))
    assert 0 < there < 200
    assert copy().records == 200 - there
    assert _values(folder) == list(range(200))


def test_of_two_copies_at_once_one_fails(
    broker: Broker,
    topic: str,
    copy: Callable[..., Copied],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(topics, "_AT_ONCE", 10)
    monkeypatch.setattr(copying, "_RECORDS", 10)
    broker.send(topic, _numbered(range(100)))
    others: list[Copied] = []

    def other(_: str) -> None:
        if not others:
            others.append(copy())

    with pytest.raises(SourceError, match="another process copies into the same folder"):
        copy(progress=other)
    assert 0 < others[0].records < 100
    assert _values(tmp_path / "copied") == list(range(100))


def test_of_two_first_copies_one_fails(
    broker: Broker, topic: str, copy: Callable[..., Copied], tmp_path: Path
) -> None:
    broker.send(topic, _numbered(range(10)))
    table = RecordTable(str(tmp_path / "copied"), topic, "any")
    assert copy().records == 10
    with pytest.raises(SourceError, match="another process copies into the same folder"):
        table.append(SCHEMA.empty_table(), {0: 10})
    assert _values(tmp_path / "copied") == list(range(10))


def test_what_kafka_deletes_before_is_counted(
    broker: Broker, topic: str, copy: Callable[..., Copied], tmp_path: Path
) -> None:
    broker.send(topic, [*_numbered(range(10)), *_numbered(range(100, 110), partition=1)])
    # What was deleted before the first copy never belonged to this table.
    broker.delete_before(topic, 0, 4)
    assert copy().partitions == (CopiedPartition(0, 4, 10, 6, 0), CopiedPartition(1, 0, 10, 10, 0))
    broker.send(topic, _numbered(range(10, 20)))
    broker.delete_before(topic, 0, 17)
    done = copy()
    assert done.partitions[0] == CopiedPartition(0, 17, 20, 3, 7)
    assert done.lost == 7
    broker.send(topic, _numbered(range(20, 22)))
    broker.delete_before(topic, 0, 22)
    # Nothing is left to copy; the loss is reported once.
    assert copy().partitions[0] == CopiedPartition(0, 22, 22, 0, 2)
    assert copy().lost == 0
    assert _values(tmp_path / "copied") == [*range(4, 10), *range(17, 20), *range(100, 110)]


def test_only_committed_transactions_are_copied(
    broker: Broker, topic: str, copy: Callable[..., Copied], tmp_path: Path
) -> None:
    folder, producer = tmp_path / "copied", broker.transactions(topic)
    for begin, finish in (
        (0, producer.commit_transaction),
        (100, producer.abort_transaction),
        (10, producer.commit_transaction),
    ):
        producer.begin_transaction()
        broker.send(topic, _numbered(range(begin, begin + 10)), producer)
        finish(30)
    producer.begin_transaction()
    broker.send(topic, _numbered(range(20, 30)), producer)
    # Each end of a transaction has an offset, and the last one has not ended.
    assert copy().partitions[0] == CopiedPartition(0, 0, 33, 20, 0)
    assert _values(folder) == list(range(20))
    broker.send(topic, _numbered(range(30, 33)))
    assert copy().records == 0
    producer.commit_transaction(30)
    assert copy().records == 13
    assert _values(folder) == list(range(33))


def test_a_topic_that_was_made_again_is_another(
    broker: Broker, topic: str, copy: Callable[..., Copied], tmp_path: Path
) -> None:
    broker.send(topic, _numbered(range(3)))
    copy()
    broker.delete(topic)
    broker.create(topic)
    broker.send(topic, _numbered(range(5)))
    with pytest.raises(
        SourceError, match="an earlier one of this name that has been deleted"
    ) as caught:
        copy()
    assert caught.value.way_out == "Choose another folder"
    assert copy(to=tmp_path / "again").records == 5


def test_partitions_can_be_added(
    broker: Broker, topic: str, copy: Callable[..., Copied], tmp_path: Path
) -> None:
    from confluent_kafka.admin import NewPartitions

    broker.send(topic, _numbered(range(3)))
    copy()
    broker.admin.create_partitions([NewPartitions(topic, 3)])[topic].result(30)
    broker.send(topic, _numbered(range(3, 7), partition=2))
    broker.delete_before(topic, 2, 2)
    done = copy()
    assert (done.records, done.lost) == (2, 2)
    assert _values(tmp_path / "copied") == [0, 1, 2, 5, 6]


def test_the_folder_holds_nothing_else(
    broker: Broker, topic: str, copy: Callable[..., Copied], tmp_path: Path
) -> None:
    broker.send(topic, _numbered(range(3)))
    copy()
    broker.create(f"{topic}-other")
    with pytest.raises(SourceError, match=f"holds the records of {topic}"):
        copy(f"{topic}-other")
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "a.parquet").touch()
    with pytest.raises(SourceError, match="holds files that are not records"):
        copy(to=folder)
    other = tmp_path / "delta"
    write_deltalake(other, DeltaTable(tmp_path / "copied").to_pyarrow_table().select(["key"]))
    with pytest.raises(SourceError, match="something other than a topic's records"):
        copy(to=other)


def test_a_folder_in_an_object_store(
    broker: Broker, topic: str, copy: Callable[..., Copied], monkeypatch: pytest.MonkeyPatch
) -> None:
    with objects.served() as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        folder = f"{objects.make_bucket(environment, 'topics')}/copied"
        broker.send(topic, _numbered(range(3)))
        assert copy(to=folder).records == 3
        broker.send(topic, _numbered(range(3, 5)))
        assert copy(to=folder).records == 2
        table = DeltaTable(folder, storage_options=delta_options())
        assert sorted(table.to_pyarrow_table()["value"].to_pylist()) == [
            b"0",
            b"1",
            b"2",
            b"3",
            b"4",
        ]


def test_what_is_wrong_is_said_without_values(
    copy: Callable[..., Copied], topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SourceError, match=f"no such topic .*Did you mean '{topic}'") as caught:
        copy(topic[:-1])
    assert caught.value.field == "source.topic"
    with pytest.raises(SourceError, match="does not accept this setting") as caught:
        copy(**{"sasl.passwort": "s3cret"})
    assert caught.value.field == "source.options.sasl.passwort"
    with pytest.raises(SourceError, match="or not this value") as caught:
        copy(**{"security.protocol": "s3cret"})
    assert caught.value.field == "source.options.security.protocol"
    assert "s3cret" not in str(caught.value)
    with pytest.raises(SourceError, match="cannot be changed") as caught:
        copy(**{"enable.auto.commit": "true"})
    assert caught.value.field == "source.options.enable.auto.commit"
    monkeypatch.setattr(topics, "_ANSWER_S", 1)
    with pytest.raises(SourceError, match="brokers refuse, or do not answer"):
        copy(**{"bootstrap.servers": "127.0.0.1:1"})


def test_the_library_is_asked_for(
    copy: Callable[..., Copied], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "backfill.kafka.topic")
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(SetupError, match=r"pip install 'backfill\[kafka\]'"):
        copy()

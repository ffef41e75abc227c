"""Copying a topic: what has come since the last copy, up to the topic's current end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from backfill.errors import SetupError, SourceError
from backfill.kafka.records import SCHEMA, RecordTable
from backfill.printable import shown

if TYPE_CHECKING:
    from confluent_kafka import Message

    from backfill.kafka.topic import Topic

#: The size of a commit; a copy needs little memory, and loses little when it is killed.
_BYTES = 64 << 20
_RECORDS = 500_000
_MS_US = 1_000
# From the epoch to the end of the year 9999. -1 means that there is none; brokers may accept any
# other number, such as nanoseconds.
_TIMESTAMPS_MS = range(253_402_300_800_000)


@dataclass(frozen=True)
class CopiedPartition:
    """What was copied from one partition.

    Attributes:
        partition: its number.
        first: the first offset to be copied.
        next: the offset after the last one; the next copy begins there.
        records: how many were copied; fewer than offsets if Kafka has removed some, or if
            transactions have ended.
        lost: offsets that Kafka had deleted before they were copied.
    """

    partition: int
    first: int
    next: int
    records: int
    lost: int


@dataclass(frozen=True)
class Copied:
    """What a copy has added.

    Attributes:
        topic: its name.
        path: the folder.
        partitions: in order of number.
    """

    topic: str
    path: str
    partitions: tuple[CopiedPartition, ...]

    @property
    def records(self) -> int:
        """How many records were copied."""
        return sum(partition.records for partition in self.partitions)

    @property
    def lost(self) -> int:
        """How many offsets Kafka had deleted before they were copied."""
        return sum(partition.lost for partition in self.partitions)


def copy_topic(
    name: str, settings: Mapping[str, str], uri: str, progress: Callable[[str], None]
) -> Copied:
    """Copies the records of a topic that its table does not have yet.

    Args:
        name: the topic's name.
        settings: librdkafka's settings.
        uri: the table's folder.
        progress: called with a line of text for each commit.

    Raises:
        SourceError: Kafka does not answer, or the folder holds something else.
        SetupError: the package `confluent-kafka` is missing.
    """
    try:
        from backfill.kafka.topic import Topic
    except ImportError as error:
        raise SetupError(
            f"Kafka needs a library that is missing: {error.name}",
            field="source.format",
            value="kafka",
            way_out="pip install 'backfill[kafka]'",
        ) from error
    with closing(Topic(name, settings)) as topic:
        table = RecordTable(uri, name, topic.identity)
        before = table.reached(topic.partitions)
        starts = {
            partition: _start(topic, partition, offset) for partition, offset in before.items()
        }
        ends = {
            partition: high
            for partition, (_, high) in topic.partitions.items()
            if high > starts[partition]
        }
        lost = {
            partition: starts[partition] - offset
            for partition, offset in before.items()
            if offset is not None
        }
        copied, reached, committed = Counter[int](), dict(starts), before
        batch = _Batch()

        def commit() -> None:
            nonlocal committed
            copied.update(batch.columns["partition"])
            table.append(batch.taken(), reached)
            committed = dict(reached)
            progress(f"copied {copied.total():,} records of {name}")

        for records, so_far in topic.records(starts, ends):
            batch.add(records)
            reached |= so_far
            if batch.is_full:
                commit()
        if reached != committed:
            commit()
    partitions = (
        CopiedPartition(
            partition, first, reached[partition], copied[partition], lost.get(partition, 0)
        )
        for partition, first in starts.items()
    )
    return Copied(name, uri, tuple(partitions))


def _start(topic: Topic, partition: int, reached: int | None) -> int:
    low, high = topic.partitions[partition]
    if reached is not None and reached > high:
        raise SourceError(
            f"partition {partition} ends at offset {high}, but was copied up to offset {reached}: "
            "the topic has lost records",
            field="source.topic",
            value=shown(topic.name),
            way_out="Copy it into another folder",
        )
    return low if reached is None else max(low, reached)


@dataclass
class _Batch:
    """The records for one commit."""

    columns: dict[str, list[Any]] = field(
        default_factory=lambda: {name: [] for name in SCHEMA.names}
    )
    bytes: int = 0

    def add(self, records: Iterable[Message]) -> None:
        for message in records:
            key, value = message.key(), message.value()
            _, at_ms = message.timestamp()
            at_us = at_ms * _MS_US if at_ms in _TIMESTAMPS_MS else None
            record = key, value, message.partition(), message.offset(), at_us
            for column, part in zip(self.columns.values(), record, strict=True):
                column.append(part)
            self.bytes += len(key or b"") + len(value or b"")

    @property
    def is_full(self) -> bool:
        return self.bytes >= _BYTES or len(self.columns["key"]) >= _RECORDS

    def taken(self) -> pa.Table:
        """Returns the records, and empties the batch."""
        table = pa.table(self.columns, SCHEMA)
        for column in self.columns.values():
            column.clear()
        self.bytes = 0
        return table

"""A topic: its partitions, and the records in a range of offsets of each."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from backfill.errors import SourceError, did_you_mean
from backfill.printable import shown

#: How long the brokers may take to answer, and how long the wait for a record may be.
_ANSWER_S = 15
_SILENCE_S = 60
_AT_ONCE = 10_000
_LOGGER = logging.getLogger("backfill.kafka")
#: Settings that the copy relies on: it keeps no offsets in Kafka, and is told where a partition
#: ends; a range that has been deleted is an error, and is not skipped.
_OURS = {
    "auto.offset.reset": "error",
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "enable.partition.eof": "true",
}
_SETTING = re.compile(r'property:? "?([\w.]+)')


class Topic:
    """A topic as it is now.

    Attributes:
        name: the topic's name.
        identity: how Kafka tells it from others of that name; empty if Kafka does not.
        partitions: by number, the first offset that is kept and the one after the last.
    """

    def __init__(self, name: str, settings: Mapping[str, str]) -> None:
        """Asks the brokers.

        Args:
            name: the topic's name.
            settings: librdkafka's settings, such as `bootstrap.servers`.

        Raises:
            SourceError: a setting is invalid, the brokers do not answer, or there is no such topic.
        """
        self.name = name
        for setting in settings.keys() & _OURS.keys():
            raise SourceError(
                "this setting cannot be changed: each record must be copied exactly once",
                field=f"source.options.{setting}",
                way_out="Leave it out",
            )
        with _answering():
            self._settings = {"group.id": "backfill", **settings, **_OURS}
            self.identity, numbers = self._described(settings)
            self._consumer = Consumer(self._settings, logger=_LOGGER)
            self.partitions = {
                partition: self._consumer.get_watermark_offsets(
                    TopicPartition(name, partition), timeout=_ANSWER_S
                )
                for partition in numbers
            }

    def _described(self, settings: Mapping[str, str]) -> tuple[str, list[int]]:
        admin = AdminClient(dict(settings), logger=_LOGGER)
        try:
            asked = admin.describe_topics(TopicCollection([self.name]), request_timeout=_ANSWER_S)
            description = asked[self.name].result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
            topics = admin.list_topics(timeout=_ANSWER_S).topics
            raise SourceError(
                "there is no such topic",
                field="source.topic",
                value=shown(self.name),
                way_out=did_you_mean(self.name, topics) if topics else "The brokers have no topics",
            ) from error
        return str(description.topic_id), sorted(
            partition.id for partition in description.partitions
        )

    def records(
        self, starts: Mapping[int, int], ends: Mapping[int, int]
    ) -> Iterator[tuple[list[Message], dict[int, int]]]:
        """The records of ranges of offsets, in the order of offsets within a partition.

        Args:
            starts: by partition, the first offset.
            ends: by partition, the offset after the last one, greater than the first.

        Returns:
            Some records at a time, and by partition the offset before which all have come. That
            offset can be greater than the last record's by more than 1: removed records and ends
            of transactions take offsets, too.

        Raises:
            SourceError: the brokers do not answer, or records have been deleted meanwhile.
        """
        left, reached = dict(ends), {partition: starts[partition] for partition in ends}
        with _answering():
            self._consumer.assign([TopicPartition(self.name, *pair) for pair in reached.items()])
            heard = time.monotonic()
            while left:
                messages = self._consumer.consume(_AT_ONCE, timeout=1)
                if messages:
                    heard = time.monotonic()
                elif time.monotonic() > heard + _SILENCE_S:
                    raise SourceError(
                        f"no record came for {_SILENCE_S} seconds, before the end of the topic",
                        field="source.options.bootstrap.servers",
                        way_out="Copy again when the brokers answer: it continues from there",
                    )
                yield (
                    [message for message in messages if self._is_wanted(message, left, reached)],
                    reached,
                )

    def _is_wanted(self, message: Message, left: dict[int, int], reached: dict[int, int]) -> bool:
        """Whether a message is a record of its partition's range; notes the offset reached."""
        partition, offset, error = message.partition(), message.offset(), message.error()
        # An unfinished transaction ends a partition before its last record.
        ends = error is not None and error.code() == KafkaError._PARTITION_EOF
        if error is not None and not ends:
            raise KafkaException(error)
        if partition is None or offset is None or partition not in left:
            return False
        wanted = not ends and offset < left[partition]
        reached[partition] = offset if ends else min(offset + 1, left[partition])
        if ends or reached[partition] == left[partition]:
            del left[partition]
            self._consumer.incremental_unassign([TopicPartition(self.name, partition)])
        return wanted

    def close(self) -> None:
        """Disconnects from the brokers."""
        self._consumer.close()


@contextmanager
def _answering() -> Iterator[None]:
    """For uses of the client: its errors become SourceErrors, without values of settings."""
    try:
        yield
    except KafkaException as error:
        cause: Any = error.args[0]
        if cause.code() == KafkaError._INVALID_ARG:
            setting = _SETTING.search(cause.str())
            raise SourceError(
                "Kafka's client does not accept this setting, or not this value",
                field=f"source.options.{setting[1]}" if setting else "source.options",
                way_out="Use settings of librdkafka, such as bootstrap.servers",
            ) from error
        if cause.code() == KafkaError._AUTO_OFFSET_RESET:
            raise SourceError(
                "records were deleted from the topic while it was copied",
                field="source.topic",
                way_out="Copy again: it continues with the records that are left, and reports how "
                "many were lost",
            ) from error
        raise SourceError(
            f"Kafka's brokers refuse, or do not answer: {shown(cause.str())}",
            field="source.options.bootstrap.servers",
            way_out="Check the address, the credentials and the network",
        ) from error

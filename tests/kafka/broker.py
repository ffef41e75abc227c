"""A Kafka broker on loopback, in its own JVM."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.java_server import SPARK_JARS, jvm
from tests.maven import jars
from tests.objects import free_port

_VERSION = "4.1.1"
_OWN = (
    "kafka-clients",
    "kafka-coordinator-common",
    "kafka-group-coordinator",
    "kafka-group-coordinator-api",
    "kafka-metadata",
    "kafka-raft",
    "kafka-server",
    "kafka-server-common",
    "kafka-share-coordinator",
    "kafka-storage",
    "kafka-storage-api",
    "kafka-tools-api",
    "kafka-transaction-coordinator",
    "kafka_2.13",
)
# Other dependencies, except those that pyspark includes.
_OTHERS = (
    "com.fasterxml.jackson.dataformat:jackson-dataformat-csv:2.19.0",
    "com.fasterxml.jackson.datatype:jackson-datatype-jdk8:2.19.0",
    "com.github.ben-manes.caffeine:caffeine:3.2.0",
    "com.google.re2j:re2j:1.8",
    "com.typesafe.scala-logging:scala-logging_2.13:3.9.5",
    "com.yammer.metrics:metrics-core:2.2.0",
    "commons-validator:commons-validator:1.9.0",
    "net.sf.jopt-simple:jopt-simple:5.0.4",
    "net.sourceforge.argparse4j:argparse4j:0.7.0",
    "org.bitbucket.b_c:jose4j:0.9.6",
    "org.hdrhistogram:HdrHistogram:2.2.2",
    "org.pcollections:pcollections:4.0.2",
)
#: Any sixteen bytes in base64, for a cluster and for a folder.
_NAMES = "YmFja2ZpbGxjbHVzdGVyIQ", "YmFja2ZpbGxmb2xkZXJzIQ"


class Sent(NamedTuple):
    """A record to send; its time is not 0, for which Kafka's client sends the current time."""

    value: bytes | None
    key: bytes | None = None
    partition: int = 0
    at_ms: int = 1


class Broker:
    """A running broker."""

    def __init__(self, address: str) -> None:
        self.address = address
        # Otherwise it would log that the broker has gone.
        self._settings = {"bootstrap.servers": address, "log_level": 0}
        self.admin = AdminClient(self._settings)

    def create(self, topic: str, partitions: int = 1) -> None:
        """Makes a topic."""
        self.admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)

    def delete(self, topic: str) -> None:
        """Deletes a topic with its records."""
        self.admin.delete_topics([topic])[topic].result(30)

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        """Deletes the oldest records of a partition, as its retention does."""
        place = TopicPartition(topic, partition, offset)
        self.admin.delete_records([place])[place].result(30)

    def send(self, topic: str, records: Iterable[Sent], producer: Producer | None = None) -> None:
        """Appends records, in this order."""
        producer = producer or Producer({**self._settings, "linger.ms": 0})
        failed = []

        def delivered(error: object, _: object) -> None:
            if error is not None:
                failed.append(error)

        for record in records:
            producer.produce(
                topic,
                record.value,
                record.key,
                partition=record.partition,
                timestamp=record.at_ms,
                on_delivery=delivered,
            )
        assert producer.flush(30) == 0
        assert not failed

    def transactions(self, name: str) -> Producer:
        """A producer whose records are committed together."""
        producer = Producer({**self._settings, "transactional.id": name, "linger.ms": 0})
        producer.init_transactions(30)
        return producer


@contextmanager
def served(folder: Path) -> Iterator[Broker]:
    """A broker.

    Args:
        folder: where its records are.
    """
    own = jars(*(f"org.apache.kafka:{name}:{_VERSION}" for name in _OWN), *_OTHERS)
    port, controller = free_port(), free_port()
    settings = {
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "log.dirs": str(folder),
        # As in brokers before Kafka 3.6: producers may write any timestamp.
        "log.message.timestamp.after.max.ms": str(2**63 - 1),
        "node.id": "1",
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": "1",
        "process.roles": "broker,controller",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
    }
    # What Kafka's own tool writes before a first start.
    facts = dict(zip(("cluster.id", "directory.id"), _NAMES, strict=True))
    lines = {"version": "1", "node.id": "1", **facts}
    text = "\n".join(f"{name}={value}" for name, value in lines.items())
    (folder / "meta.properties").write_text(text)
    with jvm([*own, f"{SPARK_JARS}/*"]) as java:
        properties = java.java.util.Properties()
        for name, value in settings.items():
            properties.setProperty(name, value)
        kafka = java.kafka.server
        clock = java.org.apache.kafka.common.utils.Time.SYSTEM
        kafka.KafkaRaftServer(kafka.KafkaConfig.fromProps(properties), clock).startup()
        yield Broker(f"127.0.0.1:{port}")

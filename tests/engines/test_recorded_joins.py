"""The replay gives what the joins of two streams of Kafka Streams and of Flink wrote."""

from __future__ import annotations

import pytest

from backfill.replay import replay_join
from tests.engines.random_cases.kafka import difference
from tests.engines.random_cases.kafka_joins import sides
from tests.engines.recordings import MS, Recording, recordings

JOINS = recordings("joins")
INTERVALS = recordings("interval-join")


@pytest.mark.parametrize("recording", JOINS, ids=lambda each: each.name)
def test_kafkas_records(recording: Recording) -> None:
    assert difference(recording) is None


@pytest.mark.parametrize("recording", INTERVALS, ids=lambda each: each.name)
def test_the_interval_joins_pairs_and_late_events(recording: Recording) -> None:
    """In what order an event's pairs come, depends on a hash in Flink."""
    given = recording.settings
    found = replay_join(
        *sides(recording, keyed=True),
        engine="flink",
        within=(given["before"], given["after"]),
        watermark_delay=f"PT{given['watermark_delay'].upper()}",
    )
    pairs = [
        (each.arrival, each.left, each.right, each.timestamp // MS, each.key)
        for each in found.emissions
    ]
    names = ("arrival", "left", "right", "timestamp", "key")
    wrote = [tuple(row[name] for name in names) for row in recording.rows("output")]
    assert [each[0] for each in pairs] == [each[0] for each in wrote]
    assert sorted(pairs) == sorted(wrote)
    late = [(each.arrival, each.reason) for each in found.dropped]
    assert late == [(row["arrival"], "late") for row in recording.rows("late")]

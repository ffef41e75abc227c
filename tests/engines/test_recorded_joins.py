"""The replay gives what the joins of two streams of Kafka Streams and of Flink wrote."""

from __future__ import annotations

import pytest

from tests.engines.random_cases import flink, kafka
from tests.engines.recordings import Recording, recordings

JOINS = recordings("joins")
INTERVALS = recordings("interval-join")


@pytest.mark.parametrize("recording", JOINS, ids=lambda recording: recording.name)
def test_kafkas_records(recording: Recording) -> None:
    assert kafka.difference(recording) is None


@pytest.mark.parametrize("recording", INTERVALS, ids=lambda recording: recording.name)
def test_the_interval_joins_pairs_and_late_events(recording: Recording) -> None:
    assert flink.difference(recording) is None

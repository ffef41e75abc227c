"""The replay gives, record by record, what Kafka Streams wrote."""

from __future__ import annotations

import pytest

from backfill import SessionWindow
from backfill.replay import Replayed
from tests.engines.random_cases.kafka import difference
from tests.engines.random_cases.kafka_windows import (
    dropped_records,
    key_of,
    run,
    stamp_of,
    value_of,
)
from tests.engines.recordings import Recording, event, recordings

pytestmark = pytest.mark.one_lane

DRIVER = recordings("TopologyTestDriver")
BROKER = recordings("broker")


@pytest.mark.parametrize("recording", DRIVER, ids=lambda recording: recording.name)
def test_the_drivers_records(recording: Recording) -> None:
    assert difference(recording) is None


def through_broker(recording: Recording) -> tuple[Replayed, dict[int, int]]:
    """The replay, with the first offset of each partition after the restart."""
    rows, restart = recording.input(), recording.restart
    assert restart is not None
    first = {
        partition: min(
            row["offset"]
            for row in rows
            if row["partition"] == partition and row["arrival"] >= restart
        )
        for partition in range(recording.settings["partitions"])
    }
    result = run(
        recording,
        [
            event(row, arrival=(row["partition"], row["offset"]), partition=row["partition"])
            for row in rows
        ],
        caching=True,
        commits=[(row["partition"], row["offset"] - 1) for row in recording.rows("commits")],
        restarts=list(first.items()),
    )
    return result, first


@pytest.mark.parametrize("recording", BROKER, ids=lambda recording: recording.name)
def test_the_brokers_records(recording: Recording) -> None:
    result, _ = through_broker(recording)
    columns = ("partition", "key", "value", "timestamp")
    assert [
        (record.arrival[0], key_of(record, recording), value_of(record), stamp_of(record))
        for record in result.emissions
    ] == [tuple(row[name] for name in columns) for row in recording.rows("output")]
    # A session's record carries the time of the last event that changed it; which one removed it
    # from the cache is not known.
    times = {(row["partition"], row["offset"]): row["time"] for row in recording.input()}
    changelog = recording.rows("changelog")
    sessions = isinstance(recording.window, SessionWindow)
    for emission, row in zip(result.emissions, changelog, strict=True):
        key = key_of(emission, recording, changelog=True)
        assert (emission.arrival[0], key) == (row["partition"], row["key"])
        assert value_of(emission) == row["value"]
        if emission.events is not None:
            last = times[max(emission.events)] if sessions else stamp_of(emission)
            assert last == row["timestamp"]


def test_the_brokers_dropped_records() -> None:
    lives = [dict.fromkeys(["0_0", "0_1", "0_2", "0_3"], 0) for _ in range(2)]
    for recording in BROKER:
        result, first = through_broker(recording)
        # The state was on disk: the store's clock was lost with the operator's.
        assert not result.refused
        for partition, offset in dropped_records(result):
            lives[offset >= first[partition]][f"0_{partition}"] += 1
    observed = BROKER[0].settings["observed"]
    assert lives == observed["dropped_records_total_of_all_stores"]

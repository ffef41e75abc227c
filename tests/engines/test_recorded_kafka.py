"""The replay gives, record by record, what Kafka Streams wrote."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from backfill import SessionWindow
from backfill import aggregates as agg
from backfill.replay import Emission, Replayed, replay
from backfill.replay.keys import session_key_bytes, window_key_bytes
from tests.engines.recordings import MS, Recording, event, recordings

pytestmark = pytest.mark.one_lane

DRIVER = recordings("TopologyTestDriver")
BROKER = recordings("broker")
AGGREGATES = {"count": agg.count(), "sum": agg.sum("amount")}


def run(recording: Recording, events: list[Any], **settings: Any) -> Replayed:
    given = recording.settings
    if given["retention"] != "default":
        settings["retention"] = given["retention"]
    return replay(
        events,
        recording.window,
        engine="kafka-streams",
        aggregates={"n": AGGREGATES[given["aggregate"]]},
        grace=given["grace"],
        emit=given["emit"],
        **settings,
    )


@pytest.fixture(scope="module", params=DRIVER, ids=lambda each: each.name)
def driven(request: pytest.FixtureRequest) -> tuple[Recording, Replayed]:
    recording: Recording = request.param
    settings: dict[str, Any] = {}
    if recording.settings["caching"]:
        settings |= {"caching": True, "commits": 1}
    if recording.restart is not None:
        settings |= {"restarts": [recording.restart], "restored": True}
    settings |= {
        name: recording.settings[name] for name in ("store",) if name in recording.settings
    }
    if recording.us("emit_interval"):
        settings["emit_interval"] = recording.settings["emit_interval"]
    tick = round(float(recording.settings["wall_clock_per_event"].removesuffix("s")) * 1e6)
    events = [
        replace(each, wall_clock=count * tick) for count, each in enumerate(recording.events(), 1)
    ]
    return recording, run(recording, events, **settings)


def key_of(emission: Emission, recording: Recording, *, changelog: bool = False) -> str:
    """The windowed key's bytes in hex, as they are in the output or in the changelog."""
    key, start, end = emission.key, emission.start, emission.end
    if isinstance(recording.window, SessionWindow):
        return session_key_bytes(key, start, end).hex()
    return (window_key_bytes(key, start) + bytes(4 if changelog else 0)).hex()


def value_of(emission: Emission) -> str | None:
    return None if emission.values is None else emission.values["n"].to_bytes(8, "big").hex()


def stamp_of(emission: Emission) -> int:
    assert emission.timestamp is not None
    return emission.timestamp // MS


def dropped_records(result: Replayed) -> list[Any]:
    """The arrivals that the metric dropped-records-total counts: one for each (event, window)."""
    windows = [each.arrival for each in result.dropped_windows]
    counted = set(windows)
    whole = [each.arrival for each in result.dropped if each.arrival not in counted]
    return [*windows, *whole]


def test_the_drivers_records(driven: tuple[Recording, Replayed]) -> None:
    recording, result = driven
    columns = ("arrival", "key", "value", "timestamp")
    assert [
        (each.arrival, key_of(each, recording), value_of(each), stamp_of(each))
        for each in result.emissions
    ] == [tuple(row[name] for name in columns) for row in recording.rows("output")]
    if not recording.has("changelog"):
        return
    # A session's record carries the time of the event that changed it.
    times = {row["arrival"]: row["time"] for row in recording.input()}
    sessions = isinstance(recording.window, SessionWindow)
    assert [
        (
            each.arrival,
            key_of(each, recording, changelog=True),
            value_of(each),
            times[each.arrival] if sessions else stamp_of(each),
        )
        for each in result.emissions
    ] == [tuple(row[name] for name in columns) for row in recording.rows("changelog")]


def test_the_drivers_dropped_records(driven: tuple[Recording, Replayed]) -> None:
    recording, result = driven
    dropped, restart = dropped_records(result), recording.restart
    times = {(row["key"], row["time"] * MS) for row in recording.input()[:restart]}
    refused = [(each.key, each.end) in times for each in result.refused]
    lives = [len(dropped) + len(refused)]
    if restart is not None:
        before = sum(arrival < restart for arrival in dropped)
        lives = [before + sum(refused), len(dropped) - before + refused.count(False)]
    # The store takes all that the operator does, but for when the operator's clock was lost; one
    # in memory has no segment that would keep a session of the oldest end that is accepted.
    memory = recording.settings.get("store") == "memory"
    assert restart is not None or memory or not result.refused
    if memory and restart is not None:
        # The recorder fills the store from its changelog, and that refuses these again.
        lives[-1] += sum(refused)
    assert lives == recording.settings["observed"]["dropped_records_total"]


def through_broker(recording: Recording) -> tuple[Replayed, dict[int, int]]:
    """With the first offset of each partition after the restart."""
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
        keep_events=True,
    )
    return result, first


@pytest.mark.parametrize("recording", BROKER, ids=lambda each: each.name)
def test_the_brokers_records(recording: Recording) -> None:
    result, _ = through_broker(recording)
    columns = ("partition", "key", "value", "timestamp")
    assert [
        (each.arrival[0], key_of(each, recording), value_of(each), stamp_of(each))
        for each in result.emissions
    ] == [tuple(row[name] for name in columns) for row in recording.rows("output")]
    # A session's record carries the time of the last event that changed it; which one removed it
    # from the cache is not told.
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

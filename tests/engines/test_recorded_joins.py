"""The replay gives what the joins of two streams of Kafka Streams and of Flink wrote."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from backfill.replay import Event, JoinReplayed, replay_join
from tests.engines.random_cases.flink import difference
from tests.engines.recordings import FOLDER, MS, Recording, recordings

JOINS = recordings("joins")
INTERVALS = recordings("interval-join")


@cache
def rows() -> list[dict[str, Any]]:
    lines = (FOLDER / "joins.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def sides(*, tick: int) -> tuple[list[Event], list[Event]]:
    """The left and the right events; the wall clock moves on by so many µs at each."""
    found: dict[str, list[Event]] = {"left": [], "right": []}
    for row in rows():
        event = Event(
            key=row["key"],
            time=row["time"] * MS,
            arrival=row["arrival"],
            value=None if row["empty"] else {},
            wall_clock=(row["arrival"] + 1) * tick,
        )
        found[row["side"]].append(event)
    return found["left"], found["right"]


def replayed(recording: Recording) -> JoinReplayed:
    given = recording.settings
    tick = round(float(given["wall_clock_per_event"].removesuffix("s")) * 1e6)
    return replay_join(
        *sides(tick=tick),
        within=(given["before"], given["after"]),
        **{name: given[name] for name in ("how", "grace", "emit_interval", "spurious", "store")},
    )


@pytest.mark.parametrize("recording", JOINS, ids=lambda each: each.name)
def test_the_records(recording: Recording) -> None:
    found = replayed(recording)
    assert [
        (each.arrival, each.key, each.left, each.right, each.timestamp // MS)
        for each in found.emissions
    ] == [
        tuple(row[name] for name in ("arrival", "key", "left", "right", "timestamp"))
        for row in recording.rows("output")
    ]


@pytest.mark.parametrize("recording", JOINS, ids=lambda each: each.name)
def test_the_dropped_records(recording: Recording) -> None:
    """The metric counts what is not joined, and what a store does not take."""
    found = replayed(recording)
    counted = recording.settings["observed"]["dropped_records_total"]
    assert len(found.dropped) + len(found.refused) == counted


@pytest.mark.parametrize("recording", INTERVALS, ids=lambda each: each.name)
def test_the_interval_joins_pairs_and_late_events(recording: Recording) -> None:
    assert difference(recording) is None

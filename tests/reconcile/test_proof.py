"""All faults at once, each put into the output for keys of its own: what is told of which row."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from backfill import SessionWindow
from backfill.replay import Event, replay
from tests.reconcile.test_compare import AGGREGATES, SECOND, event, job_of, reconciled

pytestmark = pytest.mark.usefixtures("interpreted")

HOUR = 3_600 * SECOND
#: The partition of which the stream sees nothing from a second on, and that of a restart.
CUT, CUT_AT, RESTARTED = 3, 800, 2
#: With such a delay (s) an event is late.
DELAY = 1_200.0
Rows = list[tuple[Any, ...]]
Events = list[Event]


def visits(key: str, partition: int, chance: random.Random) -> Events:
    """Three sessions, in order; no two of a key's events have the same amount."""
    amounts = chance.sample(range(10, 10_000), 18)
    events, at = [], chance.randrange(100)
    for _ in range(3):
        for _ in range(chance.randrange(3, 6)):
            events.append(event(key, at, 0, partition, amounts[len(events)]))
            at += chance.randrange(21, 60)
        at += chance.randrange(600, 900)
    return events


def in_order(events: Sequence[Event], delays: dict[int, float]) -> Events:
    """The events in order of arrival: by time, plus the delay (s) of some."""
    ordered: Events = []
    for partition in range(4):
        own = [record for record in events if record.partition == partition]
        own.sort(key=lambda record: record.time / SECOND + delays.get(id(record), 0))
        ordered += [replace(record, arrival=(partition, place)) for place, record in enumerate(own)]
    return ordered


def out(events: Sequence[Event], gap: str = "60s", **settings: Any) -> Rows:
    made = replay(
        sorted(events, key=lambda record: record.arrival),
        SessionWindow(gap=gap),
        engine="kafka-streams",
        aggregates=AGGREGATES,
        **{"grace": "10s", "retention": "1d", **settings},
    )
    return [
        (session.key, session.start, session.end, *(session.values[name] for name in AGGREGATES))
        for session in made.final
    ]


def shifted(rows: Rows) -> Rows:
    return [(row[0], row[1] + HOUR, row[2] + HOUR, *row[3:]) for row in rows]


def rounded(rows: Rows) -> Rows:
    return [(*row[:6], round(row[6], 1)) for row in rows]


def one_less(events: Events) -> Events:
    return [record for record in events if record is not events[1]]


def one_twice(events: Events) -> Events:
    first = events[1]
    return [*events, replace(first, arrival=(first.partition, first.arrival[1] + 0.5))]


#: By the causes to be told: what happens to a key's events on their way, and to its rows.
FAULTS: dict[str, tuple[Callable[[Events], Events] | None, Callable[[Rows], Rows] | None]] = {
    "": (None, None),
    "late": (None, None),
    "missing_in_stream": (one_less, None),
    "redelivered": (one_twice, None),
    "tombstone_missing": (None, None),
    "zone_shift": (None, shifted),
    "wrong_gap": (None, None),
    "rounded": (None, rounded),
    "zone_shift rounded": (None, lambda rows: rounded(shifted(rows))),
    "late rounded": (None, rounded),
    "late zone_shift": (None, shifted),
    "missing_in_stream zone_shift": (None, lambda rows: shifted(rows[1:])),
    "missing_in_stream rounded": (None, lambda rows: rounded(rows[1:])),
    "unexplained": (None, lambda rows: [(*rows[0][:3], 77, *rows[0][4:]), *rows[1:]]),
}


@pytest.mark.parametrize("seed", [1, 2])
def test_every_fault_is_told_and_nothing_else(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    keys = {(fault, n): n for n in range(2) for fault in FAULTS}
    keys |= {("cut", n): CUT for n in range(3)} | {("restart", n): RESTARTED for n in range(3)}
    own = {name: visits(f"{name[0]} {name[1]}", keys[name], chance) for name in keys}
    delays = {id(own[name][1]): DELAY for name in keys if "late" in name[0]}
    for n in range(3):
        delays |= {id(own["restart", n][1]): DELAY, id(own["restart", n][2]): DELAY + 150}
    events = in_order([record for visited in own.values() for record in visited], delays)
    job = job_of(tmp_path, events, "[partition, offset]")
    job.run(spark)

    seen: dict[tuple[str, int], Events] = {}
    for key in keys:
        change, _ = FAULTS.get(key[0], (None, None))
        visited = [record for record in events if record.key == f"{key[0]} {key[1]}"]
        seen[key] = visited if change is None else change(visited)
        if keys[key] == CUT:
            seen[key] = [record for record in visited if record.time < CUT_AT * SECOND]
    second = own["restart", 0][2].time
    (again,) = (record.arrival for record in seen["restart", 0] if record.time == second)
    made = out([record for visited in seen.values() for record in visited], restarts=[again])
    stream: Rows = []
    for key in keys:
        rows = [row for row in made if row[0] == f"{key[0]} {key[1]}"]
        if key[0] == "wrong_gap":
            rows = out(seen[key], gap="20s", grace="1h")
        if key[0] == "tombstone_missing":
            rows += out(seen[key][:1])
        _, spoil = FAULTS.get(key[0], (None, None))
        stream += rows if spoil is None else spoil(rows)

    result = reconciled(job, spark, stream)
    explanations: dict[str, list[tuple[tuple[str, ...], bool]]] = {}
    for difference in result.differences:
        explanations.setdefault(difference.key[0], []).append(
            (difference.explanation.causes, difference.explanation.proved)
        )
    for fault, n in keys:
        _check(fault, explanations.get(f"{fault} {n}", []))
    # Of this key's two late events one is dropped before the restart, and none after it.
    assert {("restart", "late")} == {causes for causes, _ in explanations["restart 0"]}
    differ = sum(len(explained.difference.batch) for explained in result.differences)
    assert result.matched + differ == result.batch


def _check(fault: str, results: list[tuple[tuple[str, ...], bool]]) -> None:
    """Checks that each differing row has its cause, and is proved if the inputs can prove it."""
    if fault == "unexplained":
        assert results == [(("unexplained",), False)]
    elif fault == "restart":
        assert {*results} <= {(("restart", "late"), False), (("late",), True)}
    else:
        true = {"missing_in_stream"} if fault == "cut" else set(fault.split())
        assert {cause for causes, _ in results for cause in causes} == true
        assert all(proved for _, proved in results)

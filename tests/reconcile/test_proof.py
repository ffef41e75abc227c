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
    found, at = [], chance.randrange(100)
    for _ in range(3):
        for _ in range(chance.randrange(3, 6)):
            found.append(event(key, at, 0, partition, amounts[len(found)]))
            at += chance.randrange(21, 60)
        at += chance.randrange(600, 900)
    return found


def in_order(events: Sequence[Event], delays: dict[int, float]) -> Events:
    """The events in order of arrival: by time, plus the delay (s) of some."""
    found: Events = []
    for partition in range(4):
        own = [each for each in events if each.partition == partition]
        own.sort(key=lambda each: each.time / SECOND + delays.get(id(each), 0))
        found += [replace(each, arrival=(partition, place)) for place, each in enumerate(own)]
    return found


def out(events: Sequence[Event], gap: str = "60s", **settings: Any) -> Rows:
    made = replay(
        sorted(events, key=lambda each: each.arrival),
        SessionWindow(gap=gap),
        engine="kafka-streams",
        aggregates=AGGREGATES,
        **{"grace": "10s", "retention": "1d", **settings},
    )
    return [
        (each.key, each.start, each.end, *(each.values[name] for name in AGGREGATES))
        for each in made.final
    ]


def shifted(rows: Rows) -> Rows:
    return [(row[0], row[1] + HOUR, row[2] + HOUR, *row[3:]) for row in rows]


def rounded(rows: Rows) -> Rows:
    return [(*row[:6], round(row[6], 1)) for row in rows]


def one_less(events: Events) -> Events:
    return [each for each in events if each is not events[1]]


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
    own = {each: visits(f"{each[0]} {each[1]}", keys[each], chance) for each in keys}
    delays = {id(own[each][1]): DELAY for each in keys if "late" in each[0]}
    for n in range(3):
        delays |= {id(own["restart", n][1]): DELAY, id(own["restart", n][2]): DELAY + 150}
    events = in_order([each for visited in own.values() for each in visited], delays)
    job = job_of(tmp_path, events, "[partition, offset]")
    job.run(spark)

    seen: dict[tuple[str, int], Events] = {}
    for key in keys:
        change, _ = FAULTS.get(key[0], (None, None))
        visited = [each for each in events if each.key == f"{key[0]} {key[1]}"]
        seen[key] = visited if change is None else change(visited)
        if keys[key] == CUT:
            seen[key] = [each for each in visited if each.time < CUT_AT * SECOND]
    second = own["restart", 0][2].time
    (again,) = (each.arrival for each in seen["restart", 0] if each.time == second)
    made = out([each for visited in seen.values() for each in visited], restarts=[again])
    stream: Rows = []
    for key in keys:
        rows = [row for row in made if row[0] == f"{key[0]} {key[1]}"]
        if key[0] == "wrong_gap":
            rows = out(seen[key], gap="20s", grace="1h")
        if key[0] == "tombstone_missing":
            rows += out(seen[key][:1])
        _, spoil = FAULTS.get(key[0], (None, None))
        stream += rows if spoil is None else spoil(rows)

    found = reconciled(job, spark, stream)
    told: dict[str, list[tuple[tuple[str, ...], bool]]] = {}
    for each in found.differences:
        told.setdefault(each.key[0], []).append((each.explanation.causes, each.explanation.proved))
    for fault, n in keys:
        _check(fault, told.get(f"{fault} {n}", []))
    # Of this key's two late events one is dropped before the restart, and none after it.
    assert {("restart", "late")} == {causes for causes, _ in told["restart 0"]}
    differ = sum(len(each.difference.batch) for each in found.differences)
    assert found.matched + differ == found.batch


def _check(fault: str, told: list[tuple[tuple[str, ...], bool]]) -> None:
    """Checks that each differing row has its cause, and is proved if the inputs can prove it."""
    if fault == "unexplained":
        assert told == [(("unexplained",), False)]
    elif fault == "restart":
        assert {*told} <= {(("restart", "late"), False), (("late",), True)}
    else:
        true = {"missing_in_stream"} if fault == "cut" else set(fault.split())
        assert {cause for causes, _ in told for cause in causes} == true
        assert all(proved for _, proved in told)

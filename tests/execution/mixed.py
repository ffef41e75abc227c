"""What tables must hold while windows of replaced inputs are left in them."""

from __future__ import annotations

import itertools
from typing import Any

from tests.execution.joined import JOINS
from tests.execution.world import COUNTED, DAY, GAP, HOUR, METRICS, SURROUNDING, World, at
from tests.reference import Event

Row = tuple[Any, ...]
Tables = dict[str, list[Row]]


def tables(world: World) -> Tables:
    return {name: world.rows(name) for name in world.windows}


def check_run(world: World, before: Tables, days: set[int], old: set[int]) -> None:
    """Checks that a run of these days removed nothing that it did not write again.

    Args:
        world: the world after the run.
        before: the tables before it.
        days: the days that were run.
        old: days on which, before the run, windows still held what replaced inputs held.
    """
    # On the old days, every event of the source counts.
    events = world.counting(old)
    expected = world.expected(events)
    for name in world.windows:
        made = world.on_covered(name, expected[name])
        now = world.rows(name)
        if name in ("sessions", "exact", "ruled"):
            apart = -1 if name == "ruled" else GAP
            _check_sessions(before[name], now, expected[name], made, events, days, apart)
            continue
        # Windows that can hold an event of the days are as the source has them, others as before.
        reached = [row for row in made if _reached(name, row, days)]
        rest = [row for row in before[name] if not _reached(name, row, days)]
        assert _without_open(now) == _without_open([*reached, *rest]), name


def _check_sessions(
    before: list[Row],
    now: list[Row],
    closed: list[Row],
    made: list[Row],
    events: list[Event],
    days: set[int],
    apart: int,
) -> None:
    """Checks sessions; a run may write more of them than those that meet the days.

    Args:
        before: the table before the run.
        now: the table.
        closed: the sessions that the events make.
        made: those that start on covered dates.
        events: the events that count.
        days: the days that were run.
        apart: sessions are further apart than this; negative: rules cut and drop sessions.
    """
    kept, plain = set(_without_open(before)), set(_without_open(made))
    rows = set(_without_open(now))
    assert len(rows) == len(now)
    for row in rows:
        # Each is as the source has it, or as it was; the latter only if it does not meet the days.
        assert row in plain or (row in kept and not _meets(row, days)), row
    assert {row for row in plain if _holds_event(row, events, days)} <= rows
    waiting = [row for row in closed if row[:3] not in {session[:3] for session in made}]
    for row in kept - rows if apart >= 0 else ():
        for event in events:
            if _in(event, row):
                assert any(_in(event, session) for session in (*rows, *waiting)), (row, event)
    ordered = sorted(rows, key=lambda row: (repr(row[0]), row[1]))
    for one, other in itertools.pairwise(ordered):
        assert one[0] != other[0] or other[1] - one[2] > apart, (one, other)


def _reached(name: str, row: Row, days: set[int]) -> bool:
    """Whether a window other than a session can hold an event of the days."""
    if name == "hopping":
        return _meets(row, days)
    if name in COUNTED or name == "chats":
        # `latest` and `periods` are in order of time: what ended before the days is as it was.
        behind = {"latest": 0, "periods": 6 * HOUR}.get(name)
        return behind is None or any(row[2] >= at(day) - behind for day in days)
    if name in METRICS:
        by, windows, step, _ = METRICS[name]
        behind, ahead, at_ = 0, max(windows) + step, row[len(by)]
    elif name in JOINS:
        (ahead, behind), at_ = JOINS[name].reach, row[1]
    elif name == "shared":
        behind, ahead, at_ = 0, HOUR + 1, row[2]
    else:
        back, behind, _ = SURROUNDING[name]
        ahead, at_ = DAY * 1_000 if back is None else back, row[1]
    return any(at(day) - behind <= at_ < at(day + 1) + ahead for day in days)


def _meets(row: Row, days: set[int]) -> bool:
    """Whether a window up to its last event, or up to its exclusive end, meets the days."""
    return any(row[1] < at(day + 1) and row[2] > at(day) for day in days)


def _holds_event(row: Row, events: list[Event], days: set[int]) -> bool:
    return any(_in(e, row) for e in events if any(at(d) <= (e.time or 0) < at(d + 1) for d in days))


def _in(event: Event, row: Row) -> bool:
    assert event.time is not None
    return event.key == row[0] and row[1] <= event.time <= row[2]


def _without_open(rows: list[Row]) -> list[Row]:
    return sorted((row[:-1] for row in rows), key=repr)

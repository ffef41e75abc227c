"""Samza's window operator: sessions and tumbling windows of processing time, and their triggers."""

from __future__ import annotations

import random
from collections.abc import Mapping
from itertools import product
from typing import Any

from backfill import (
    AfterAny,
    AfterCount,
    AfterProcessingTime,
    AfterSilence,
    Repeatedly,
    SessionWindow,
)
from backfill import aggregates as agg
from backfill.replay import Emission, Replayed, replay
from backfill.triggers import Trigger
from tests.engines.random_cases.comparing import first_difference, together
from tests.engines.random_cases.drawing import LATER, events
from tests.engines.recordings import MS, Recording, Row, event

AGGREGATES = {"events": agg.count(), "amount": agg.sum("amount")}
SETTINGS = ("accumulation", "early", "early_after", "early_once", "timer_interval")
FIRING = {"early": "EARLY", "on_time": "DEFAULT"}


def draw(chance: random.Random) -> dict[str, Any]:
    case = _drawn(chance)
    while _is_early_at_an_end(case):
        case = _drawn(chance)
    return case


def _drawn(chance: random.Random) -> dict[str, Any]:
    span, interval = chance.choice((5, 10)), chance.choice((3, 4, 7))
    window = chance.choice(({"session": {"gap": f"{span}ms"}}, {"tumbling": {"size": f"{span}ms"}}))
    case: dict[str, Any] = {
        "window": window,
        "accumulation": chance.choice(("accumulating", "discarding")),
    }
    if chance.random() < 0.8:
        early = [_trigger(chance) for _ in range(chance.choice((1, 1, 1, 2, 3)))]
        case |= early[0] if len(early) == 1 else {"early_any": early}
        case["early_once"] = chance.random() < 0.5
    if chance.random() < 0.5:
        case["timer_interval"] = f"{interval}ms"
    spans = (1, span, interval, *_delays(case))
    case["events"] = events(chance, spans, most=15, start=LATER)
    return case


def _trigger(chance: random.Random) -> dict[str, Any]:
    return chance.choice(
        (
            {"early": chance.randint(1, 3)},
            {"early_after": f"{chance.randint(1, 12)}ms"},
            {"early_silence": f"{chance.randint(1, 12)}ms"},
        )
    )


def _delays(case: dict[str, Any]) -> list[int]:
    """What its triggers wait for, ms."""
    triggers = case.get("early_any", [case])
    delays = [trigger.get("early_after") or trigger.get("early_silence") for trigger in triggers]
    return [_ms(delay) for delay in delays if delay is not None]


def _is_early_at_an_end(case: dict[str, Any]) -> bool:
    """Whether an early trigger may be due in the same millisecond in which its window ends.

    Which one comes first depends on the timers of all windows, which are in a heap.
    """
    ((kind, fields),) = case["window"].items()
    rows, delays = case["events"], _delays(case)
    if kind == "tumbling":
        size = _ms(fields["size"])
        return any((row["time"] + delay) % size == 0 for row in rows for delay in delays)
    apart = {delay - _ms(fields["gap"]) for delay in delays}
    return any(
        one["key"] == other["key"] and other["time"] - one["time"] in apart
        for one, other in product(rows, repeat=2)
    )


def _ms(duration: str) -> int:
    return int(duration.removesuffix("ms"))


def difference(recording: Recording) -> str | None:
    result = _replayed(recording)
    emitted = [_pane(emission) for emission in result.emissions]
    if recording.settings["end_of_input"] == "left open":
        emitted = [pane for pane in emitted if pane["arrival"] is not None]
    order = sorted(recording.input(), key=lambda row: (row["time"], row["arrival"]))
    places = {row["arrival"]: at for at, row in enumerate(order)}
    return together(
        first_difference(
            "output", _by_key(emitted, places), _by_key(recording.rows("output"), places)
        ),
        first_difference("dropped", result.dropped, ()),
    )


def _replayed(recording: Recording) -> Replayed:
    given = dict(recording.settings)
    if "early_any" in given or "early_silence" in given:
        trigger = _read(given)
        given["early"] = trigger if given.pop("early_once") else Repeatedly(trigger)
    events = [event(row, arrival=(row["time"], row["arrival"])) for row in recording.input()]
    if isinstance(recording.window, SessionWindow):
        events = [record for record in events if record.key is not None]
    return replay(
        events,
        recording.window,
        engine="samza",
        aggregates=AGGREGATES,
        **{name: given[name] for name in SETTINGS if name in given},
    )


def _read(given: Mapping[str, Any]) -> Trigger:
    if "early_any" in given:
        return AfterAny(*map(_read, given["early_any"]))
    if "early" in given:
        return AfterCount(given["early"])
    if "early_after" in given:
        return AfterProcessingTime(given["early_after"])
    return AfterSilence(given["early_silence"])


def _pane(emission: Emission) -> Row:
    """The pane as it is recorded: Samza gives a window's start, but no end."""
    return {
        "arrival": None if emission.arrival is None else emission.arrival[1],
        "key": emission.key,
        "window_start": emission.start // MS,
        **(emission.values or {}),
        "firing": FIRING[emission.op],
    }


def _by_key(rows: list[Row], places: dict[int, int]) -> list[Row]:
    """Sorted by key: timers due at once run in the order of a heap. Those of one key stay.

    The end of the input fires windows in an order that varies.
    """

    def place(row: Row) -> tuple[int, str, int]:
        start = row["window_start"] if row["arrival"] is None else 0
        return places.get(row["arrival"], len(places)), str(row["key"]), start

    return sorted(rows, key=place)

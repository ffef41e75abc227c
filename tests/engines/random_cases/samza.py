"""Samza's window operator: sessions and tumbling windows of processing time, and their triggers."""

from __future__ import annotations

import random
from typing import Any

from backfill import AfterSilence, Repeatedly, SessionWindow
from backfill import aggregates as agg
from backfill.replay import Emission, Replayed, replay
from tests.engines.random_cases.comparing import first_difference, together
from tests.engines.random_cases.drawing import LATER, events
from tests.engines.recordings import MS, Recording, Row, event

AGGREGATES = {"events": agg.count(), "amount": agg.sum("amount")}
SETTINGS = ("accumulation", "early", "early_after", "early_once", "timer_interval")
FIRING = {"early": "EARLY", "on_time": "DEFAULT"}


def draw(chance: random.Random) -> dict[str, Any]:
    span, delay, interval = chance.choice((5, 10)), chance.randint(1, 12), chance.choice((3, 4, 7))
    window = chance.choice(({"session": {"gap": f"{span}ms"}}, {"tumbling": {"size": f"{span}ms"}}))
    case: dict[str, Any] = {
        "window": window,
        "accumulation": chance.choice(("accumulating", "discarding")),
    }
    early = chance.choice((None, "early", "early_after", "early_silence"))
    if early is not None:
        case[early] = chance.randint(1, 3) if early == "early" else f"{delay}ms"
        case["early_once"] = chance.random() < 0.5
    if chance.random() < 0.5:
        case["timer_interval"] = f"{interval}ms"
    spans = (1, span, delay, interval)
    case["events"] = events(chance, spans, most=15, start=LATER)
    return case


def difference(recording: Recording) -> str | None:
    result = _replayed(recording)
    emitted = [_pane(each) for each in result.emissions]
    if recording.settings["end_of_input"] == "left open":
        emitted = [each for each in emitted if each["arrival"] is not None]
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
    if "early_silence" in given:
        silence = AfterSilence(given["early_silence"])
        given["early"] = silence if given.pop("early_once") else Repeatedly(silence)
    events = [event(row, arrival=(row["time"], row["arrival"])) for row in recording.input()]
    if isinstance(recording.window, SessionWindow):
        events = [each for each in events if each.key is not None]
    return replay(
        events,
        recording.window,
        engine="samza",
        aggregates=AGGREGATES,
        **{name: given[name] for name in SETTINGS if name in given},
    )


def _pane(emission: Emission) -> Row:
    """As it is recorded: Samza gives a window's start, and no end."""
    return {
        "arrival": None if emission.arrival is None else emission.arrival[1],
        "key": emission.key,
        "window_start": emission.start // MS,
        **(emission.values or {}),
        "firing": FIRING[emission.op],
    }


def _by_key(rows: list[Row], places: dict[int, int]) -> list[Row]:
    """Timers that are due at once run in the order of a heap; those of one key as they came.

    The end of the input fires windows in an order that is not the same twice.
    """

    def place(row: Row) -> tuple[int, str, int]:
        start = row["window_start"] if row["arrival"] is None else 0
        return places.get(row["arrival"], len(places)), str(row["key"]), start

    return sorted(rows, key=place)

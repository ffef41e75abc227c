"""The replay gives, pane by pane, what Samza's window operator gave.

Its windows are of processing time: here, the events come in order of their times.
"""

from __future__ import annotations

from typing import Any

import pytest

from backfill import AfterSilence, Repeatedly, SessionWindow
from backfill import aggregates as agg
from backfill.replay import Emission, Replayed, replay
from tests.engines.recordings import MS, Recording, event, recordings

pytestmark = pytest.mark.one_lane

SAMZA = recordings("window-operator")
AGGREGATES = {"events": agg.count(), "amount": agg.sum("amount")}
SETTINGS = ("accumulation", "early", "early_after", "early_once", "timer_interval")
FIRING = {"early": "EARLY", "on_time": "DEFAULT"}

Row = dict[str, Any]


def replayed(recording: Recording) -> Replayed:
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


def pane(emission: Emission) -> Row:
    """As it is recorded: Samza gives a window's start, and no end."""
    return {
        "arrival": None if emission.arrival is None else emission.arrival[1],
        "key": emission.key,
        "window_start": emission.start // MS,
        **(emission.values or {}),
        "firing": FIRING[emission.op],
    }


def by_key(rows: list[Row], places: dict[int, int]) -> list[Row]:
    """Timers that are due at once run in the order of a heap; those of one key as they came."""

    def place(row: Row) -> tuple[int, str]:
        return places.get(row["arrival"], len(places)), str(row["key"])

    return sorted(rows, key=place)


@pytest.mark.parametrize("recording", SAMZA, ids=lambda each: each.name)
def test_window_operator(recording: Recording) -> None:
    result = replayed(recording)
    emitted = [pane(each) for each in result.emissions]
    if recording.settings["end_of_input"] == "left open":
        emitted = [each for each in emitted if each["arrival"] is not None]
    order = sorted(recording.input(), key=lambda row: (row["time"], row["arrival"]))
    places = {row["arrival"]: at for at, row in enumerate(order)}
    assert by_key(emitted, places) == by_key(recording.rows("output"), places)
    assert not result.dropped

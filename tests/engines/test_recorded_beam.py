"""The replay gives, pane by pane, what Beam's direct runner wrote.

In which order one event, or the watermark after it, fires several windows is not compared.
"""

from __future__ import annotations

from typing import Any

import pytest

from backfill import SessionWindow
from backfill import aggregates as agg
from backfill.replay import Emission, Replayed, replay
from tests.engines.recordings import MS, Recording, recordings

pytestmark = pytest.mark.one_lane

BEAM = recordings("direct")
AGGREGATES = {"events": agg.count(), "amount": agg.sum("amount")}
SETTINGS = ("watermark_delay", "allowed_lateness", "accumulation", "early", "late", "timezone")

Row = dict[str, Any]


def replayed(recording: Recording) -> Replayed:
    given = recording.settings
    return replay(
        recording.events(),
        recording.window,
        engine="beam",
        aggregates=AGGREGATES,
        **{name: given[name] for name in SETTINGS if name in given},
    )


def pane(emission: Emission) -> Row:
    """As it is recorded, without the pane's number."""
    assert emission.values is not None
    assert emission.timestamp is not None
    return {
        "arrival": emission.arrival,
        "key": emission.key,
        "window_start": emission.start // MS,
        "window_end": emission.end // MS,
        "events": emission.values["events"],
        # The recorder adds up the events of a pane, also of an empty one.
        "amount": emission.values["amount"] or 0,
        "timing": emission.op.upper(),
        "timestamp": emission.timestamp // MS,
    }


def numbered_off(row: Row) -> Row:
    return {name: value for name, value in row.items() if name not in ("index", "last")}


def in_order(rows: list[Row]) -> list[Row]:
    """By the event that caused them; panes of one window stay as they came."""

    def place(row: Row) -> tuple[bool, int, int, int, str]:
        arrival, start, end = row["arrival"], row["window_start"], row["window_end"]
        return arrival is None, arrival or 0, start, end, str(row["key"])

    return sorted(rows, key=place)


@pytest.mark.parametrize("recording", BEAM, ids=lambda each: each.name)
def test_direct_runner(recording: Recording) -> None:
    result = replayed(recording)
    recorded = [numbered_off(row) for row in recording.rows("output")]
    assert in_order([pane(each) for each in result.emissions]) == in_order(recorded)

    # Beam counts pairs of an event and a window.
    session = isinstance(recording.window, SessionWindow)
    dropped = len(result.dropped) if session else len(result.dropped_windows)
    assert dropped == recording.settings["observed"]["dropped_due_to_lateness"]

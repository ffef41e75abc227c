"""Kafka Streams' windowed aggregates: windows, stores, caches, restarts, and when they emit."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from backfill import SessionWindow
from backfill import aggregates as agg
from backfill.replay import Emission, Event, Replayed, replay
from backfill.replay.keys import session_key_bytes, window_key_bytes
from tests.engines.random_cases.comparing import first_difference, together
from tests.engines.random_cases.drawing import BEGINNINGS, LATER, SHIFT, events
from tests.engines.recordings import MS, Recording

AGGREGATES = {"count": agg.count(), "sum": agg.sum("amount")}
#: The shortest segment of a store on disk, ms.
SEGMENT = 60_000


def draw(chance: random.Random) -> dict[str, Any]:
    # Only seconds are long enough to span segments.
    unit, ms = chance.choice((("ms", 1), ("s", 1_000)))
    kind = chance.choice(("session", "tumbling", "hopping", "sliding"))
    size, grace = chance.choice((5, 10, 30)), chance.choice((0, 0, 3, 10, 60))
    fields = {"gap" if kind == "session" else "size": f"{size}{unit}"}
    if kind == "hopping":
        fields["advance"] = f"{chance.choice((2, 3, 5))}{unit}"
    case: dict[str, Any] = {
        "window": {kind: fields},
        "aggregate": chance.choice(("count", "sum")),
        "grace": f"{grace}{unit}",
        "emit": chance.choice(("on_update", "on_close", "suppressed")),
        "store": chance.choice(("disk", "memory")),
    }
    kept = size + grace
    if chance.random() < 0.5:
        kept = size * (2 if kind == "sliding" else 1) + grace + chance.choice((0, 0, 1, 20, 100))
        case["retention"] = f"{kept}{unit}"
    spans = [1, size * ms, grace * ms, (size + grace) * ms, kept * ms]
    if unit == "s":
        spans.append(SEGMENT)
    case["events"] = events(
        chance, spans, most=25, start=chance.choice((0, 40 * ms, LATER)), keys=BEGINNINGS
    )
    if any(row["time"] < 0 for row in case["events"]):
        case["shift"] = SHIFT
    _draw_how_it_runs(chance, case)
    return case


def _draw_how_it_runs(chance: random.Random, case: dict[str, Any]) -> None:
    rows = case["events"]
    arrivals = range(len(rows))
    if case["emit"] == "on_close":
        if chance.random() < 0.3:
            case["emit_interval"] = chance.choice(("80ms", "100ms"))
            case["wall_clock_per_event"] = "40ms"
    elif chance.random() < 0.5:
        case["caching"] = True
        if chance.random() < 0.8:
            case["commit"] = sorted(chance.sample(arrivals, chance.randint(0, len(rows) // 3)))
    if len(rows) > 1 and chance.random() < 0.4:
        some = chance.sample(arrivals[1:], min(chance.choice((1, 1, 2)), len(rows) - 1))
        case["restart_before_arrival"] = sorted(some)
        case["restored"] = chance.random() < 0.5
    if case["aggregate"] == "count" and chance.random() < 0.2:
        for row in rows:
            row["empty"] = chance.random() < 0.3


def run(recording: Recording, events: Sequence[Event], **settings: Any) -> Replayed:
    given = recording.settings
    if given["retention"] != "default":
        settings["retention"] = given["retention"]
    return replay(
        events,
        recording.window,
        engine="kafka-streams",
        aggregates={"n": AGGREGATES[given["aggregate"]]},
        grace=given["grace"],
        keep_events=given["caching"],
        emit=given["emit"],
        **settings,
    )


def difference(recording: Recording) -> str | None:
    tick = recording.us("wall_clock_per_event")
    events = [
        replace(event, wall_clock=count * tick) for count, event in enumerate(recording.events(), 1)
    ]
    settings = _settings(recording)
    result = run(recording, events, **settings)
    # What the store had refused at each restart: all that it refuses of the events before it.
    refused = [
        len(run(recording, events[:restart], **_up_to(settings, restart)).refused)
        for restart in recording.restarts
    ]
    columns = ("arrival", "key", "value", "timestamp")
    return together(
        first_difference(
            "output",
            [
                (
                    emission.arrival,
                    key_of(emission, recording),
                    value_of(emission),
                    stamp_of(emission),
                )
                for emission in result.emissions
            ],
            [tuple(row[name] for name in columns) for row in recording.rows("output")],
        ),
        _changelog_difference(recording, result) if recording.has("changelog") else None,
        first_difference(
            "dropped",
            _lives(recording, result, refused),
            recording.settings["observed"]["dropped_records_total"],
        ),
    )


def _settings(recording: Recording) -> dict[str, Any]:
    given = recording.settings
    settings: dict[str, Any] = {name: given[name] for name in ("store",) if name in given}
    if given["caching"]:
        always = not isinstance(given["commit"], list)
        settings |= {"caching": True, "commits": 1 if always else given["commit"]}
    if recording.us("emit_interval"):
        settings["emit_interval"] = given["emit_interval"]
    if recording.restarts:
        settings["restarts"] = recording.restarts
        settings["restored"] = given.get("restored", True)
    return settings


def _up_to(settings: dict[str, Any], end: int) -> dict[str, Any]:
    """The settings for the first `end` events only."""
    kept = dict(settings)
    for name in ("commits", "restarts"):
        if isinstance(settings.get(name), list):
            kept[name] = [arrival for arrival in settings[name] if arrival < end]
    if not kept["restarts"]:
        del kept["restarts"], kept["restored"]
    return kept


def _changelog_difference(recording: Recording, result: Replayed) -> str | None:
    changed = _changed_at(recording, result)
    records = [
        (emission.arrival, key_of(emission, recording, changelog=True), value_of(emission), time)
        for emission, time in zip(result.emissions, changed, strict=True)
    ]
    columns = ("arrival", "key", "value", "timestamp")
    wrote = [tuple(row[name] for name in columns) for row in recording.rows("changelog")]
    for place, time in enumerate(changed[: len(wrote)]):
        if time is None:
            wrote[place] = (*wrote[place][:-1], None)
    return first_difference("changelog", records, wrote)


def _changed_at(recording: Recording, result: Replayed) -> list[int | None]:
    """The times of records in the changelog, ms: a session's is that of the last event changing it.

    Which event removed a session from a cache is not known.
    """
    if not isinstance(recording.window, SessionWindow):
        return [stamp_of(emission) for emission in result.emissions]
    times = {row["arrival"]: row["time"] for row in recording.input()}
    if not recording.settings["caching"]:
        return [times[emission.arrival] for emission in result.emissions]
    return [
        None if emission.events is None else times[max(emission.events)]
        for emission in result.emissions
    ]


def _lives(recording: Recording, result: Replayed, refused: list[int]) -> list[int]:
    """What the metric dropped-records-total counts in each life of the application.

    Args:
        recording: the case.
        result: what the replay made of it.
        refused: how many windows the store had refused at each restart.
    """
    dropped = dropped_records(result)
    first = [0, *recording.restarts]
    totals = [*refused, len(result.refused)]
    memory = recording.settings.get("store") == "memory"
    lives = []
    for life, (start, total) in enumerate(zip(first, totals, strict=True)):
        end = first[life + 1] if life + 1 < len(first) else len(recording.input())
        before = totals[life - 1] if life else 0
        # A store in memory refuses these again when its changelog is restored.
        again = before if memory else 0
        lives.append(sum(start <= arrival < end for arrival in dropped) + total - before + again)
    return lives


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
    windows = [drop.arrival for drop in result.dropped_windows]
    counted = set(windows)
    whole = [drop.arrival for drop in result.dropped if drop.arrival not in counted]
    return [*windows, *whole]

"""Short ways to write events and to read the results of a replay, in milliseconds."""

from __future__ import annotations

from typing import Any

from backfill import aggregates as agg
from backfill.replay import Event, Replayed, replay

MS = 1_000
COUNT = {"n": agg.count()}


def event(arrival: int, key: Any, time: float | None, **more: Any) -> Event:
    """An event at a time in ms; `watermark` and `gap` are in ms, too."""
    for name in ("watermark", "gap"):
        if name in more:
            more[name] = int(more[name] * MS)
    at = None if time is None else int(time * MS)
    return Event(key=key, time=at, arrival=arrival, **more)


def arriving(*placed: Any, key: Any = "a", **more: Any) -> list[Event]:
    """Events of one key at these times, or of each (key, time), in order of arrival."""
    pairs = [place if isinstance(place, tuple) else (key, place) for place in placed]
    return [event(i, k, t, **more) for i, (k, t) in enumerate(pairs)]


def run(events: list[Event], window: Any, engine: str, **settings: Any) -> Replayed:
    return replay(events, window, engine=engine, **{"aggregates": COUNT, **settings})


def windows(found: Any) -> list[tuple[Any, float, float, Any]]:
    """Key, start and end in ms, number of events."""
    return [
        (window.key, window.start / MS, window.end / MS, window.values["n"]) for window in found
    ]


def rows(found: Any, key: Any = "a") -> list[tuple[float, float, Any]]:
    """The windows of one key."""
    return [window[1:] for window in windows(found) if window[0] == key]


def sent(result: Replayed) -> list[tuple[Any, float, float, Any, str]]:
    """Emissions: arrival, start, end, number of events, op."""
    return [
        (e.arrival, e.start / MS, e.end / MS, e.values and e.values["n"], e.op)
        for e in result.emissions
    ]


def late(result: Replayed) -> list[tuple[Any, str, float | None]]:
    """What was dropped: arrival, reason, how late in ms."""
    return [
        (d.arrival, d.reason, None if d.late_by is None else d.late_by / MS) for d in result.dropped
    ]


def late_windows(result: Replayed) -> list[tuple[Any, float, float, float]]:
    """Arrival, start, end, how late in ms."""
    return [(d.arrival, d.start / MS, d.end / MS, d.late_by / MS) for d in result.dropped_windows]

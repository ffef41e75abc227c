"""Count windows and sessions by messages in plain Python: for each window, the events it holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from backfill.time.durations import Fixed
from backfill.windows import CountWindow
from tests.reference import Event


def in_order(events: Iterable[Event], order: str, *, with_id: bool = False) -> list[Event]:
    """Events in the order of their numbers.

    Args:
        events: those of one key, or of the whole stream.
        order: time or arrival.
        with_id: whether, of events that differ only in id or value, the id decides first.
    """

    def place(e: Event) -> Any:
        places = (e.time, e.arrival) if order == "time" else (e.arrival, e.time)
        id = (e.id is not None, e.id or "") if with_id else ()
        return (*places, e.key, id, e.value is not None, e.value or 0)

    return sorted(events, key=place)


def held(own: Sequence[Event], window: CountWindow, *, rest: bool = True) -> Iterator[list[int]]:
    """The places, from 0, of the events of each window; `own` is in the window's order."""
    size, advance, count = window.size, window.advance, len(own)
    times = [e.time for e in own if e.time is not None]
    if isinstance(advance, Fixed):
        for place, time in enumerate(times):
            following = times[place + 1] if place + 1 < count else None
            if following is None or following // advance.us > time // advance.us:
                yield list(range(count))[: place + 1][-(size or count) :]  # type: ignore[operator]
    elif isinstance(size, Fixed):
        for last in range(advance - 1, count, advance):
            yield [i for i, t in enumerate(times) if times[last] - size.us <= t <= times[last]]
    else:
        ends = list(range(advance, count + 1, advance))
        if rest and count % advance:
            ends.append(count - count % advance + advance)
        for end in ends:
            inside = [i for i in range(count) if size is None or end - size <= i]
            yield [i for i in inside if i < end]


def ended(window: CountWindow, last: int, end: int, horizon: int) -> bool:
    """Whether the next event, at the horizon, is in another window; `last` is a number from 1."""
    if isinstance(window.advance, Fixed):
        return end // window.advance.us < horizon // window.advance.us
    return last % window.advance == 0


def message_sessions(events: Iterable[Event], gap: int) -> list[list[Event]]:
    """Each key's events in order of offset, cut where at least `gap` messages came in between."""
    sessions: list[list[Event]] = []
    for e in sorted(events, key=lambda e: (e.key, e.arrival)):
        before = sessions[-1][-1] if sessions else None
        if before is None or before.key != e.key or e.arrival - before.arrival - 1 >= gap:
            sessions.append([])
        sessions[-1].append(e)
    return sessions

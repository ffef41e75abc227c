"""Rules for bots, the slow and obvious way: session by session, in plain Python."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

from backfill import BotRule
from tests import reference
from tests.reference_rules import Visit

_HOUR = 3_600_000_000


def names(
    rules: Sequence[BotRule],
    visits: Iterable[Visit],
    gap: int,
    zone: str,
    id: Callable[[Visit], Any] | None = None,
) -> list[str | None]:
    """For each visit the name of the first rule by which it is a bot's, or None.

    Args:
        rules: `where` stands for the visit's `login`.
        visits: visits of any keys.
        gap: µs; events exactly one gap apart are in one session.
        zone: the zone that days are in.
        id: visits with equal key, time and id, other than None, count once.
    """
    listed = list(visits)
    matches: dict[int, set[int]] = defaultdict(set)
    by_key: dict[str, list[int]] = defaultdict(list)
    for place, v in enumerate(listed):
        if v.key is not None and v.time is not None:
            by_key[v.key].append(place)
    for places in by_key.values():
        places.sort(key=lambda place: listed[place].time or 0)
        for session in _sessions(listed, places, gap):
            own = [listed[place] for place in session]
            for number, rule in enumerate(rules):
                if not _holds(rule, own, id):
                    continue
                days = {_day(v, zone) for v in own}
                for place in places if rule.remove == "day" else session:
                    if rule.remove == "session" or _day(listed[place], zone) in days:
                        matches[place].add(number)
    return [
        rules[min(matches[place])].name if matches[place] else None for place in range(len(listed))
    ]


def _sessions(listed: Sequence[Visit], places: Sequence[int], gap: int) -> Iterable[list[int]]:
    session: list[int] = []
    for place in places:
        if session and _time(listed[place]) - _time(listed[session[-1]]) > gap:
            yield session
            session = []
        session.append(place)
    if session:
        yield session


def _holds(rule: BotRule, own: Sequence[Visit], id: Callable[[Visit], Any] | None) -> bool:
    times = [_time(v) for v in own]
    single = [_time(v) for v in own if id is None or id(v) is None]
    if id is not None:
        single += [time for time, _ in {(_time(v), id(v)) for v in own if id(v) is not None}]
    if rule.events is not None:
        counts = [len(single)]
        if rule.per == "hour":
            counts = [sum(start <= t < start + _HOUR for t in single) for start in single]
        if max(counts) <= rule.events:
            return False
    pauses = [b - a for a, b in pairwise(times)]
    if rule.no_pause_longer_than is not None and max(pauses) > rule.no_pause_longer_than.us:
        return False
    return rule.where is None or any(v.login is True for v in own)


def _time(v: Visit) -> int:
    assert v.time is not None
    return v.time


def _day(v: Visit, zone: str) -> Any:
    return reference.instant(_time(v)).astimezone(ZoneInfo(zone)).date()

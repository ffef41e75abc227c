"""What the cases of all engines are drawn from."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

#: 2025-03-30 00:59:59.999 UTC, soon before the clocks in Berlin jump an hour ahead.
LATER = 1_743_296_399_999
#: Kafka sends no negative times: they are sent so much later, and an extractor takes that off.
SHIFT = "24h"
#: Keys that begin others, or are empty.
BEGINNINGS = ("a", "b", "aa", "ab", "")


def times(chance: random.Random, spans: Sequence[int], count: int, start: int) -> list[int]:
    """So many times in ms, each at an earlier one, or some spans from it, or 1 ms more or less."""
    found = [start]
    while len(found) < count:
        span = chance.choice((0, *spans)) * chance.choice((-1, 1, 1, 1, 2))
        found.append(chance.choice(found[-4:]) + span + chance.choice((-1, 0, 0, 1)))
    return found


def events(
    chance: random.Random,
    spans: Sequence[int],
    *,
    most: int,
    start: int,
    keys: Sequence[str] = ("a", "b", "c"),
) -> list[dict[str, Any]]:
    """Up to `most` events of one to three keys and, rarely, of none."""
    some = [*chance.sample(keys, chance.randint(1, 3)), *chance.choice(((), (), (None,)))]
    return [
        {"arrival": arrival, "key": chance.choice(some), "time": time, "amount": 1 << arrival % 30}
        for arrival, time in enumerate(times(chance, spans, chance.randint(1, most), start))
    ]

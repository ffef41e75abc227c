"""What the cases of all engines are drawn from."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

#: 2025-03-30 00:59:59.999 UTC, just before the clocks in Berlin jump an hour ahead.
LATER = 1_743_296_399_999
#: Kafka sends no negative times, so they are sent this much later, and an extractor subtracts it.
SHIFT = "24h"
#: Keys that are prefixes of others, or empty.
BEGINNINGS = ("a", "b", "aa", "ab", "")


def times(chance: random.Random, spans: Sequence[int], count: int, start: int) -> list[int]:
    """`count` times in ms, each equal to an earlier one or spans from it, give or take 1 ms."""
    moments = [start]
    while len(moments) < count:
        span = chance.choice((0, *spans)) * chance.choice((-1, 1, 1, 1, 2))
        moments.append(chance.choice(moments[-4:]) + span + chance.choice((-1, 0, 0, 1)))
    return moments


def events(
    chance: random.Random,
    spans: Sequence[int],
    *,
    most: int,
    start: int,
    keys: Sequence[str] = ("a", "b", "c"),
) -> list[dict[str, Any]]:
    """Up to `most` events of one to three keys and, in one case out of three, of none."""
    some = [*chance.sample(keys, chance.randint(1, 3)), *chance.choice(((), (), (None,)))]
    return [
        {"arrival": arrival, "key": chance.choice(some), "time": time, "amount": 1 << arrival % 30}
        for arrival, time in enumerate(times(chance, spans, chance.randint(1, most), start))
    ]

"""Many drawn cases for one Spark job, each under keys of its own.

A job costs much and a case little. Keys do not affect each other, so hundreds of cases go into one
frame, and the results are compared case by case.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.reference import Event

T = TypeVar("T")

#: One seed that is always the same, and one of this run; a failure prints both.
SEEDS = (1, int(os.environ.get("BACKFILL_SEED") or random.SystemRandom().randrange(1 << 31)))


@cache
def cases(strategy: st.SearchStrategy[T], count: int) -> list[T]:
    """`count` cases, half of each seed; drawn once for all tests of a process."""
    examples: list[T] = []
    for seed_value in SEEDS:

        @seed(seed_value)
        @settings(
            max_examples=count // 2,
            phases=[Phase.generate],
            database=None,
            derandomize=False,
            suppress_health_check=list(HealthCheck),
        )
        @given(strategy)
        def collect(case: T) -> None:
            examples.append(case)

        collect()
    return examples


def few_or_many(each: st.SearchStrategy[T]) -> st.SearchStrategy[list[T]]:
    """Lists of up to 60: left alone, Hypothesis draws about six elements, so half are made long."""
    return st.lists(each, max_size=60) | st.lists(each, min_size=30, max_size=60)


def apart(drawn: Iterable[Iterable[Event]]) -> list[Event]:
    """The events of all cases, each key with its case's number in front."""
    return [
        event if event.key is None else replace(event, key=f"{number}:{event.key}")
        for number, events in enumerate(drawn)
        for event in events
    ]


def number(key: str) -> int:
    """The number of the case that a key belongs to."""
    return int(key.partition(":")[0])


def check(
    found: Mapping[Any, Any],
    expected: Mapping[Any, Any],
    case: Callable[[Any], object],
    same: Callable[[Any, Any], bool] = lambda a, b: a == b,
) -> None:
    """Compare by key; the first difference is reported with its `case` and the seeds."""
    for key in {**expected, **found}:
        missing = key not in found or key not in expected
        if missing or not same(found[key], expected[key]):
            raise AssertionError(
                f"{key}: found {found.get(key, 'nothing')}, "
                f"expected {expected.get(key, 'nothing')}\n"
                f"in the case {case(key)}\n"
                f"of the seeds {SEEDS}; again: BACKFILL_SEED={SEEDS[1]}"
            )

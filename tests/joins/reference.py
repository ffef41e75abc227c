"""Joins in plain Python that look at every pair, and drawn cases for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from tests import drawn
from tests.event_frames import from_rows

HOWS = ("inner", "left", "full", "semi", "anti")
SCHEMA = "key string, part int, time bigint, value int, arrival int"


@dataclass(frozen=True)
class Row:
    """An event of either side; its key has two columns."""

    key: str | None
    time: int | None
    value: int | None = None
    part: int | None = 0
    arrival: int = 0

    @property
    def whole(self) -> tuple[Any, ...]:
        return (self.key, self.part, self.time, self.value, self.arrival)


#: What stands for a missing right event, and for a missing left one.
NO_RIGHT = (None, None, None)


def frame(spark: SparkSession, rows: Iterable[Row]) -> DataFrame:
    return from_rows(spark, [row.whole for row in rows], SCHEMA)


def same_key(a: Row, b: Row) -> bool:
    keys = (a.key, a.part, b.key, b.part)
    return None not in keys and (a.key, a.part) == (b.key, b.part)


def joined(
    left: Sequence[Row], right: Sequence[Row], how: str, meets: Callable[[int, int], bool]
) -> Counter[tuple[Any, ...]]:
    """The rows of a join; `meets` takes the indexes of a left and a right event."""
    rows: Counter[tuple[Any, ...]] = Counter()
    partners: set[int] = set()
    for i, one in enumerate(left):
        own = [j for j in range(len(right)) if meets(i, j)]
        partners |= set(own)
        if how in ("semi", "anti"):
            if (how == "semi") == bool(own):
                rows[one.whole] += 1
            continue
        for j in own:
            rows[(*one.whole, right[j].time, right[j].value, right[j].arrival)] += 1
        if not own and how in ("left", "full"):
            rows[(*one.whole, *NO_RIGHT)] += 1
    if how == "full":
        for j, other in enumerate(right):
            if j not in partners:
                alone = (other.time, other.value, other.arrival)
                rows[(other.key, other.part, None, None, None, *alone)] += 1
    return rows


@cache
def sides(unit: int, *, usable: bool = False) -> st.SearchStrategy[tuple[list[Row], list[Row]]]:
    """Two streams with times around multiples of `unit` µs, also before 1970."""
    times = st.builds(
        lambda n, fine: n * unit + fine, st.integers(-9, 9), st.sampled_from([-1, 0, 0, 0, 1])
    )
    none: st.SearchStrategy[None] = st.nothing() if usable else st.none()
    row = st.builds(
        Row,
        st.sampled_from(["a", "a", "a", "b"]) | none,
        times | none,
        st.sampled_from([None, 1, 2, 3]),
        st.sampled_from([0, 0, 0, 1]) | none,
        st.integers(0, 3),
    )
    few = st.lists(row, max_size=12) | st.lists(row, min_size=8, max_size=12)
    return st.tuples(few, few)


Case = tuple[list[Row], list[Row]]


def apart(cases: Sequence[Case]) -> tuple[list[Row], list[Row]]:
    """Both sides of all cases, each key with the number of its case in front.

    Rows without a key stay as they are: they are in no pair, so they do not mix cases.
    """
    left, right = (
        [
            row if row.key is None else replace(row, key=f"{number}:{row.key}")
            for number, case in enumerate(cases)
            for row in case[side]
        ]
        for side in (0, 1)
    )
    return left, right


def case_of(cases: Sequence[Case]) -> Callable[[Any], object]:
    return lambda row: cases[drawn.number(row[0])] if row[0] else None


def by_case(
    cases: Sequence[Case],
    expected: Callable[[list[Row], list[Row]], Counter[tuple[Any, ...]]],
) -> Counter[tuple[Any, ...]]:
    """The expected rows of all cases together."""
    rows: Counter[tuple[Any, ...]] = Counter()
    for number in range(len(cases)):
        one = apart([([], [])] * number + [cases[number]])
        rows += expected(*one)
    return rows

"""Reads Spark's own plan of a frame."""

from __future__ import annotations

import contextlib
import io
import re
from collections import Counter

from pyspark.sql import DataFrame


def explained(frame: DataFrame) -> str:
    """The physical plan."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        frame.explain()
    return printed.getvalue()


def nodes(frame: DataFrame) -> Counter[str]:
    """How often each operator occurs in the plan."""
    return Counter(re.findall(r"^[\s:+*()\d-]*([A-Za-z]+)", explained(frame), re.M))


def scanned(frame: DataFrame) -> set[str]:
    """The columns that its only scan reads."""
    [schema] = re.findall(r"ReadSchema: struct<(.*)>", explained(frame))
    return set(re.findall(r"(\w+):", schema))


#: Operators that return no more rows than they get, and no other ones.
_PASSING = ("Project", "Filter", "Sort")


def exchanged(frame: DataFrame, how: str = "hashpartitioning") -> Counter[str]:
    """The operators whose rows are exchanged, by hash or in another way."""
    lines = explained(frame).splitlines()
    operators: Counter[str] = Counter()
    for place, line in enumerate(lines):
        if f"Exchange {how}" in line:
            below = (re.search(r"([A-Za-z]+)", text) for text in lines[place + 1 :])
            operators[next(name[1] for name in below if name and name[1] not in _PASSING)] += 1
    return operators

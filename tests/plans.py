"""Spark's own plan of a frame, read."""

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
    """How often each operator stands in it."""
    return Counter(re.findall(r"^[\s:+*()\d-]*([A-Za-z]+)", explained(frame), re.M))


def scanned(frame: DataFrame) -> set[str]:
    """The columns that its only scan reads."""
    [schema] = re.findall(r"ReadSchema: struct<(.*)>", explained(frame))
    return set(re.findall(r"(\w+):", schema))


def over_one_partition(frame: DataFrame) -> list[str]:
    """For each exchange into a single partition, the operator whose rows it sends."""
    lines = explained(frame).splitlines()
    found = []
    for place, line in enumerate(lines):
        if "Exchange SinglePartition" in line:
            below = (re.search(r"([A-Za-z]+)", each) for each in lines[place + 1 :])
            found.append(next(name[1] for name in below if name and name[1] not in _PASSING))
    return found


#: Operators that give no more rows than they get, and no others.
_PASSING = ("Project", "Filter", "Sort")

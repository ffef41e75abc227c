"""Aggregates without a form in Python: Spark computes their values for the replayed windows.

A cause is found by the bounds and by the aggregates that are replayed. It must then hold for all
other aggregates: for each window that the stream would have under this cause, Spark aggregates the
events, as a batch does, and the result must be what the stream wrote. Values are compared exactly.
So if an aggregate gives another value when its states are merged in another order, or not at all (a
user's own sum of doubles, a quantile of a sketch over more than 200 values, an approximate count of
more than some hundred), a difference can be left unexplained although the stream was right.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, ROUND_HALF_UP
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from backfill.aggregates.bound import Bound
from backfill.aggregates.sketches import ApproximateQuantile
from backfill.causes import UNEXPLAINED
from backfill.columns import EVENTS, FIRST, TIME
from backfill.reconciliation.arrow_rows import Values, by_key
from backfill.reconciliation.explaining.case import Explanation
from backfill.reconciliation.explaining.faults import MOST_DIGITS, rounded
from backfill.reconciliation.packed import Packed, in_order_of, merged
from backfill.reconciliation.result import Explained, Part
from backfill.reconciliation.rows import same_value

#: The place of a difference among all, and of a window among the stream's in that difference.
DIFFERENCE, WINDOW = "_difference", "_window"
_PLACE = (DIFFERENCE, WINDOW)
#: About how many events one job aggregates.
_TOGETHER = 500_000
_WAYS = {"half_up": ROUND_HALF_UP, "half_even": ROUND_HALF_EVEN, "down": ROUND_DOWN}

Recounted = Mapping[tuple[int, ...], Values]


def members(
    differences: Iterable[Explained], events: pa.Table, numbers: Mapping[Any, Sequence[int]]
) -> pa.Table:
    """The events of every window that the stream holds about an explained difference.

    Args:
        differences: the differences.
        events: rows.
        numbers: for each key, the numbers of its rows in order of arrival.
    """
    taken: list[int] = []
    places: list[tuple[int, int]] = []
    for place, explained in enumerate(differences):
        made = {row.bounds: row for row in explained.explanation.rows}
        own = numbers.get(explained.key, ())
        for window, row in enumerate(explained.difference.stream):
            if row.bounds in made:
                # Arrivals are even; that of a made-up copy is one more than the event's.
                inside = [own[arrival // 2] for arrival in made[row.bounds].written]
                taken += inside
                places += [(place, window)] * len(inside)
    rows = events.take(pa.array(taken, pa.int64()))
    for name, values in zip(_PLACE, zip(*places, strict=True) if places else ((), ()), strict=True):
        rows = rows.append_column(name, pa.array(values, pa.int64()))
    return rows


def recounted(
    spark: SparkSession, parts: Sequence[Part], bound: Mapping[str, Bound]
) -> Sequence[Explained]:
    """All differences in order of their keys, with causes that hold for these aggregates too.

    Args:
        spark: the session.
        parts: the keys, explained by all other aggregates.
        bound: the aggregates, by name.
    """
    if not bound:
        return merged([part.explained for part in parts])
    return merged([Packed(_recounted(spark, batch, bound)) for batch in _batches(parts)])


def _batches(parts: Sequence[Part]) -> Iterable[Sequence[Part]]:
    """Groups parts that Spark aggregates in one job: a job takes a second, and rows take memory."""
    batch: list[Part] = []
    rows = 0
    for part in parts:
        own = len(part.explained)
        own += 0 if part.members is None else part.members.num_rows
        if batch and rows + own > _TOGETHER:
            yield batch
            batch, rows = [], 0
        batch.append(part)
        rows += own
    yield batch


def _recounted(
    spark: SparkSession, parts: Sequence[Part], bound: Mapping[str, Bound]
) -> list[Explained]:
    differences: list[Explained] = []
    tables = []
    for part in parts:
        if part.members is not None:
            at = part.members.schema.get_field_index(DIFFERENCE)
            moved = pc.add(part.members[DIFFERENCE], len(differences))
            tables.append(part.members.set_column(at, DIFFERENCE, moved))
        differences += part.explained
    values = _values(spark, pa.concat_tables(tables), bound)
    sketches = any(isinstance(binding.aggregate, ApproximateQuantile) for binding in bound.values())
    admitted = [
        replace(difference, explanation=_admitted(place, difference, values, list(bound), sketches))
        for place, difference in enumerate(differences)
    ]
    return sorted(admitted, key=in_order_of)


def _values(spark: SparkSession, rows: pa.Table, bound: Mapping[str, Bound]) -> Recounted:
    if not rows.num_rows:
        return {}
    own = dict.fromkeys(bound.values())
    partial = [state for aggregate in own for state in aggregate.partial()]
    merged = [state for aggregate in own for state in aggregate.merge()]
    # States of each instant are merged in order of time, as a batch merges those of its slices.
    slices = spark.createDataFrame(rows).groupBy(*_PLACE, TIME)
    counted = slices.agg(F.min(TIME).alias(FIRST), F.count(F.lit(1)).alias(EVENTS), *partial)
    windows = counted.groupBy(*_PLACE).agg(F.sum(EVENTS).alias(EVENTS), *merged)
    values = windows.select(*_PLACE, *(aggregate.finish(name) for name, aggregate in bound.items()))
    return {place: only for place, (only,) in by_key(values.toArrow(), _PLACE).items()}


def _admitted(
    place: int, explained: Explained, values: Recounted, names: Sequence[str], sketches: bool
) -> Explanation:
    """The explanation, if it holds for these aggregates too."""
    cause = explained.explanation
    if cause.causes[0] == UNEXPLAINED:
        return cause
    wrong = []
    for window, row in enumerate(explained.difference.stream):
        made = values.get((place, window))
        if made is None:
            return Explanation((UNEXPLAINED,), False, {"not_replayed": sorted(names)})
        given = _as_written(made, cause)
        differ = [name for name in names if not same_value(given[name], row.values[name])]
        if differ:
            wrong.append((row.values, made, differ))
    if not wrong:
        # A sketch of quantiles is never the same twice: that the batch's differs proves nothing.
        off = sketches and "missing_in_batch" in cause.causes
        return replace(cause, proved=cause.proved and not off)
    for digits in range(MOST_DIGITS + 1):
        for how, way in _WAYS.items():
            if "rounded" not in cause.causes and all(
                same_value(rounded(made[name], digits, way), written[name])
                for written, made, differ in wrong
                for name in differ
            ):
                of = sorted({name for _, _, differ in wrong for name in differ})
                evidence = {**cause.evidence, "digits": digits, "how": how, "of": of}
                others = [name for name in cause.causes if name != "missing_in_batch"]
                return Explanation((*others, "rounded"), cause.proved, evidence)
    recount = [{name: made[name] for name in differ} for _, made, differ in wrong]
    return Explanation((UNEXPLAINED,), False, {"recounted": recount})


def _as_written(made: Values, cause: Explanation) -> Values:
    """The values, rounded as the cause says."""
    if "rounded" not in cause.causes:
        return made
    digits, way = cause.evidence["digits"], _WAYS[cause.evidence["how"]]
    of = cause.evidence.get("of", made)
    return {n: rounded(v, digits, way) if n in of else v for n, v in made.items()}

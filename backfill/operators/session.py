"""Session windows from slices: lag, gap flags and running starts in (key, time) order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.window import Window as Over

from backfill.aggregates.bound import Bound
from backfill.columns import END, EVENTS, FIRST, LAST, START
from backfill.engines import Rules
from backfill.windows import SessionWindow

_UPPER_BIT = -(1 << 63)

Time = TypeVar("Time", int, Column)


def breaks(at: Column, before: Column, gap: int, rules: Rules) -> Column:
    """Whether a new session begins at an instant, given the event before it (NULL: none)."""
    apart = at - before
    joined = apart <= gap if rules.gap_inclusive else apart < gap
    return F.coalesce(~joined, F.lit(True))


def sessions(
    slices: DataFrame,
    window: SessionWindow,
    rules: Rules,
    keys: Sequence[str],
    aggregates: Sequence[Bound],
    *,
    last: str = LAST,
    overlapping: bool = False,
    also: Sequence[Column] = (),
) -> DataFrame:
    """Merges slices into sessions.

    Slices hold no events further apart than the gap; so a session ends exactly where the distance
    between the last event so far and the next slice's first one breaks it.

    Args:
        slices: key, first and last event, the number of events, states.
        window: the sessions.
        rules: the engine's rules.
        keys: the key columns.
        aggregates: the aggregates whose states to merge.
        last: the column of a slice's last event; FIRST where slices hold one event each.
        overlapping: slices of a key can overlap, as published sessions and late slices do.
        also: further aggregate expressions over the slices of a session.

    Returns:
        One row per session: key, start and last event (µs), the number of events, merged states,
        and what else was asked for.
    """
    in_time = Over.partitionBy(*keys).orderBy(FIRST)
    if overlapping:
        earlier = in_time.rowsBetween(Over.unboundedPreceding, -1)
        before = F.max(last).over(earlier)
    else:
        before = F.lag(last).over(in_time)
    new = breaks(F.col(FIRST), before, window.gap.us, rules)
    begun = slices.withColumn(START, F.when(new, F.col(FIRST)))
    so_far = in_time.rowsBetween(Over.unboundedPreceding, Over.currentRow)
    started = begun.withColumn(START, F.max(START).over(so_far))
    return started.groupBy(*keys, START).agg(
        F.max(last).alias(END),
        F.sum(EVENTS).alias(EVENTS),
        *(state for binding in aggregates for state in binding.merge()),
        *also,
    )


def last_event(end: Time, window: SessionWindow, rules: Rules) -> Time:
    """The last event of a session whose reported end is `end`: the inverse of `reported_end`."""
    return end if rules.session_end == "last_event" else end - window.gap.us


def reported_end(last: Column, window: SessionWindow, rules: Rules) -> Column:
    """The end that the engine reports for a session whose last event is at `last`."""
    return last if rules.session_end == "last_event" else last + window.gap.us


def session_is_open(last: Column, window: SessionWindow, rules: Rules, horizon: int) -> Column:
    """Whether an event at the horizon could still join the session."""
    return ~breaks(F.lit(horizon), last, window.gap.us, rules)


def session_id(
    keys: Sequence[tuple[Column, T.DataType]], start: Column, ordinal: Column | None = None
) -> Column:
    """A session's id: two hashes of its key and its start, of 63 bits each, as 32 hexadecimals.

    Each key value follows its length, so that no two keys run together, and is written in a way
    that depends on no Spark session's settings. The id is stable as long as key and start are. The
    hashes are XXH64 with different seeds: MD5 would take longer than all the rest of a session.
    Their upper bits are set, because padding a number with zeros takes longer than hashing.

    Rules can cut between events of one instant, so that several sessions of a key start there. The
    first of them has the usual id; only for the others is `ordinal`, from 1, hashed as well.
    """
    parts = []
    for value, type in keys:
        text = _text(value, type)
        # NULL does not change a hash, so it is marked by a length that no text has.
        parts += [F.coalesce(F.octet_length(text), F.lit(-1)), text]
    # NULL does not change a hash.
    ordinals = [] if ordinal is None else [F.when(ordinal > 0, ordinal)]
    hashes = (F.xxhash64(F.lit(seed), *parts, start, *ordinals) for seed in (0, 1))
    return F.concat(*(F.hex(digest.bitwiseOR(_UPPER_BIT)) for digest in hashes))


def _text(value: Column, type: T.DataType) -> Column:
    if isinstance(type, T.TimestampType):
        return F.unix_micros(value).cast("string")
    if isinstance(type, T.BinaryType):
        return F.hex(value)
    if isinstance(type, T.FloatType | T.DoubleType):
        # Spark groups 0.0 and -0.0 together, so they are one key here too.
        return (value + F.lit(0.0).cast(type)).cast("string")
    return value.cast("string")

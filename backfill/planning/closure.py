"""The closure of sessions: followed outward, per key, until they close, and no further."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from backfill.columns import END, EVENTS, FIRST, LAST, START
from backfill.engines import Rules
from backfill.operators.session import sessions
from backfill.planning.computed import computed_with, ends, hull_of
from backfill.rows.compute import Sliced
from backfill.time.durations import DAY_US
from backfill.windows import SessionWindow

#: Reads the slices of some keys' events in [low, high); None is no bound.
Read = Callable[[int | None, int | None, DataFrame], Sliced]
#: Reads key, start and end of some keys' published sessions that overlap [low, high); None if
#: there can be none.
Published = Callable[[int | None, int | None, DataFrame], DataFrame | None]

#: The first and the last instant of extents, µs.
Hull = tuple[int, int] | None

_OURS = "_ours"
_OPEN = "_open"


@dataclass(frozen=True)
class Step:
    """One step beyond what had been read.

    Attributes:
        keys: how many keys had sessions that were open at an edge.
        low, high: how far the step read, in both directions; µs, None is no bound.
    """

    keys: int
    low: int | None
    high: int | None


@dataclass
class Followed:
    """What following found.

    Attributes:
        extents: key, start and end (µs) of what came out whole.
        slices: those of the followed keys, beyond the span; one for each step and side.
        steps: what was read, for the plan to report.
        low, high: how far was read.
        hull: from the first start to the last end of the extents, µs; None if there are none.
    """

    low: int | None
    high: int | None
    extents: DataFrame
    hull: Hull = None
    slices: list[Sliced] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)


def follow(
    extents: DataFrame,
    window: SessionWindow,
    rules: Rules,
    keys: Sequence[str],
    *,
    span: tuple[int | None, int | None],
    limits: tuple[int | None, int | None],
    read: Read,
    published: Published,
) -> Followed:
    """Reads, beyond a span of time, what belongs to sessions that reach over its edges.

    Published sessions are followed just as events are. So even if the source has changed since
    they were written, nothing is left out that was published as one session, or now is one, with
    what is followed: all of it can be rewritten, and nothing else needs to be.

    Args:
        extents: key, start and end (µs, inclusive) of what must come out whole: sessions as far
            as the span shows them, and published ones as they are.
        window: the sessions.
        rules: the engine's.
        keys: the key columns.
        span: [low, high), µs, in which all events and published sessions of these keys are
            known, except published ones that nothing beyond the span depends on.
        limits: the least and the largest time of an event or a published session, where known.
        read: reads slices, and computes them once.
        published: reads what is published, and computes it once.

    Returns:
        The extents as they came out, the slices found, and how far was read.
    """
    gap = window.gap.us
    followed = Followed(*span, extents)
    days = 1
    while True:
        marked = extents.withColumn(_OPEN, _open(followed, gap, limits))
        now, seen = computed_with(marked, F.count_if(_OPEN).alias("open"), *ends())
        whole = now.where(~F.col(_OPEN)).drop(_OPEN)
        followed.extents = followed.extents.unionByName(whole) if followed.steps else whole
        # The hull includes open extents: they only grow.
        followed.hull = _joined(followed.hull, hull_of(seen))
        if not seen["open"]:
            return followed
        open_ = now.where(_OPEN).drop(_OPEN)
        wanted = open_.select(*keys).distinct()
        count = wanted.count()
        step = _step(followed, days * DAY_US, limits)
        parts: list[Sliced] = []
        before = []
        if followed.low is not None and (step.low is None or step.low < followed.low):
            parts.append(read(step.low, followed.low, wanted))
            before.append(published(step.low, followed.low, wanted))
        if followed.high is not None and (step.high is None or step.high > followed.high):
            parts.append(read(followed.high, step.high, wanted))
            before.append(published(followed.high, step.high, wanted))
        followed.slices.extend(parts)
        followed.steps.append(Step(count, step.low, step.high))
        followed.low, followed.high = step.low, step.high
        spans = [part.frame.select(*keys, FIRST, LAST) for part in parts]
        spans += [as_span(frame, keys) for frame in before if frame is not None]
        extents = _extended(open_, spans, window, rules, keys)
        days *= 2


def _joined(one: Hull, other: Hull) -> Hull:
    if one is None or other is None:
        return one or other
    return min(one[0], other[0]), max(one[1], other[1])


def _open(followed: Followed, gap: int, limits: tuple[int | None, int | None]) -> Column:
    """Whether an event just outside of what was read could belong to the extent."""
    never = F.lit(False)
    least, most = limits
    left = right = never
    if followed.low is not None and (least is None or least < followed.low):
        left = F.col(START) - followed.low <= gap
    if followed.high is not None and (most is None or most >= followed.high):
        right = F.lit(followed.high) - F.col(END) <= gap
    return left | right


def _step(followed: Followed, width: int, limits: tuple[int | None, int | None]) -> Step:
    """One step further; if limits are unknown, as for text files, all at once."""
    least, most = limits
    low = high = None
    if followed.low is not None and least is not None:
        low = max(followed.low - width, min(least, followed.low))
    if followed.high is not None and most is not None:
        high = min(followed.high + width, max(most + 1, followed.high))
    return Step(0, low, high)


def as_span(extents: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Key, start and end in the columns of a slice."""
    return extents.select(*keys, F.col(START).alias(FIRST), F.col(END).alias(LAST))


def _extended(
    extents: DataFrame,
    spans: Sequence[DataFrame],
    window: SessionWindow,
    rules: Rules,
    keys: Sequence[str],
) -> DataFrame:
    """The extents with what touches them now."""
    zero = F.lit(0).cast("bigint").alias(EVENTS)
    rows = as_span(extents, keys).select("*", zero, F.lit(1).alias(_OURS))
    for span in spans:
        rows = rows.unionByName(span.select("*", zero, F.lit(0).alias(_OURS)))
    ours = F.max(_OURS).alias(_OURS)
    joined = sessions(rows, window, rules, keys, [], overlapping=True, also=[ours])
    return joined.where(F.col(_OURS) == 1).select(*keys, START, END)

"""Windows that a run removes: whether what it wrote in their place holds what they held."""

from __future__ import annotations

from functools import reduce
from operator import and_

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill.columns import END, EVENTS, FIRST, LAST, START
from backfill.compute import Built
from backfill.windows import SessionWindow

_THERE = "_there"


def fewer(removed: DataFrame, written: Built) -> DataFrame:
    """The removed windows in whose place there are fewer events: key, start, end, µs.

    Events come and do not go, unless the source has changed. Of sessions, which can be joined and
    split, a key's are compared as one.

    Args:
        removed: key, start, end and number of events of published windows.
        written: the windows that were computed in their place.
    """
    keys = written.sliced.key.inner
    same = keys if isinstance(written.definition.window, SessionWindow) else [*keys, START, END]
    before = removed.groupBy(*same).agg(F.sum(EVENTS).alias(EVENTS))
    now = written.frame.groupBy(*same).agg(F.sum(EVENTS).alias(_THERE))
    joined = _joined(before, now, same, "left")
    lost = joined.where(F.coalesce(F.col(_THERE), F.lit(0)) < F.col(EVENTS))
    return _joined(removed, lost.select(*same), same, "left_semi").select(*keys, START, END)


def outside(slices: DataFrame, written: Built) -> DataFrame:
    """The slices, of events that must all be in windows written, that are not.

    Args:
        slices: of sessions, where none is cut by the end of a session.
        written: sessions.
    """
    keys = written.sliced.key.inner
    columns = (*keys, START, END)
    others = written.frame.select(*(F.col(each).alias(f"{_THERE}{each}") for each in columns))
    same = [F.col(each).eqNullSafe(F.col(f"{_THERE}{each}")) for each in keys]
    inside = (F.col(FIRST) >= F.col(f"{_THERE}{START}")) & (F.col(LAST) <= F.col(f"{_THERE}{END}"))
    return slices.join(others, reduce(and_, same, inside), "left_anti")


def unlike(found: DataFrame, written: Built) -> DataFrame:
    """The windows, each as it must be, that were not written so: key, start, end.

    Args:
        found: key, start, end and number of events.
        written: the windows that were computed.
    """
    same = [*written.sliced.key.inner, START, END]
    now = written.frame.select(*same, F.col(EVENTS).alias(_THERE))
    joined = _joined(found, now, same, "left")
    return joined.where(~F.col(EVENTS).eqNullSafe(F.col(_THERE))).select(*same)


def _joined(one: DataFrame, other: DataFrame, names: list[str], how: str) -> DataFrame:
    """Joined where these columns are alike, NULL being like NULL."""
    theirs = other.select(
        *(F.col(each).alias(f"{_THERE}{each}") for each in names),
        *(each for each in other.columns if each not in names),
    )
    same = [F.col(each).eqNullSafe(F.col(f"{_THERE}{each}")) for each in names]
    joined = one.join(theirs, reduce(and_, same, F.lit(True)), how)
    return joined.drop(*(f"{_THERE}{each}" for each in names))

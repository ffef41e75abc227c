"""Pairs of two frames whose positions are close, by an equi-join on hashed bins of the positions.

A position is a time in µs, or a number in an order. Each row of one frame is in the bin that holds
its position; rows of the other are copied into each bin from which they can be reached. Bins are
wider than the reach, so that is one bin or two. A pair meets in exactly one bin, whatever the
widths are. Each row of the first frame is there only once, so outer, semi and anti joins need
nothing that would tell rows apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from backfill.columns import is_collated, quoted
from backfill.operators.grids import floor_to
from backfill.windows.within import Reach

#: A row's position, bigint; a row without one is in no pair.
AT = "_join_at"
_PLACE, _BIN, _LOW, _HIGH = "_join_place", "_join_bin", "_join_low", "_join_high"
#: Names that no column of a side may have.
INNER = frozenset({AT, _PLACE, _BIN, _LOW, _HIGH})
#: How many times as wide as the reach bins are. At n, an n-th of the rows is copied, and n + 1
#: times as many candidates as pairs are compared.
_WIDER = 8


def binned(
    own: DataFrame,
    other: DataFrame,
    *,
    keys: Sequence[str],
    reach: Reach,
    how: str,
    names: tuple[str, str],
    where: Column | None = None,
) -> DataFrame:
    """Joins rows of equal keys whose positions are within reach of each other.

    Args:
        own: the frame whose rows are kept where `how` says so, with AT.
        other: the other frame, with AT.
        keys: columns that both have; NULL is equal to nothing.
        reach: the other frame's position minus the own one's.
        how: inner, left, semi or anti, as seen from the own frame.
        names: the aliases of both frames in `where` and in the result.
        where: a further condition on a pair.

    Returns:
        The columns of both frames, or of the own one, under their aliases, and further ones.
    """
    mine, theirs = names
    at, width = F.col(AT), max(1, reach.length * _WIDER)
    present = reduce(and_, (F.col(quoted(name)).isNotNull() for name in (*keys, AT)))
    if how in ("inner", "semi"):
        own = own.where(present)
    hashed = [name for name in keys if not is_collated(own.schema[name].dataType)]
    standing = own.withColumn(_PLACE, _hashed(hashed, floor_to(at, width, 0)))
    # The positions of the own frame that a row is within reach of.
    low, high = at - reach.high, at - reach.low
    first, last = floor_to(low, width, 0), floor_to(high, width, 0)
    copied = (
        other.where(present)
        .withColumn(_BIN, F.explode(F.sequence(first, last, F.lit(width))))
        .withColumns(
            {
                _PLACE: _hashed(hashed, F.col(_BIN)),
                _LOW: F.greatest(low, F.col(_BIN)),
                _HIGH: F.least(high, F.col(_BIN) + (width - 1)),
            }
        )
        .drop(_BIN, AT)
    )

    def of(name: str, column: str) -> Column:
        return F.col(f"{name}.{quoted(column)}")

    met = [
        of(mine, _PLACE) == of(theirs, _PLACE),
        of(mine, AT).between(of(theirs, _LOW), of(theirs, _HIGH)),
    ]
    for key in keys:
        # Not as an equality: Spark would sort by it, beside the one number that is enough.
        met += [of(mine, key) >= of(theirs, key), of(mine, key) <= of(theirs, key)]
    if where is not None:
        met.append(where)
    return standing.alias(mine).join(copied.alias(theirs), reduce(and_, met), how)


def _hashed(keys: Sequence[str], bin: Column) -> Column:
    """One number for key and bin: Spark sorts by one number several times as fast as by text."""
    return F.xxhash64(*(F.col(quoted(name)) for name in keys), bin)

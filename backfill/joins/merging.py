"""Puts the rows of two frames into one, so that they can be ordered together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill.columns import TIME, column, key_name, quoted, sortable

#: Whether a row is of the side that comes second among rows that are equal in all columns before
#: it.
SECOND = "_second"
#: A number for rows that match nothing: they are in groups of their own, however many lack a key.
_APART = "_apart"


def usable(keys: Sequence[str]) -> Column:
    """Whether a row can be in a pair at all."""
    return reduce(and_, (column(name).isNotNull() for name in (*keys, TIME)))


def merged(
    frames: Mapping[str, DataFrame],
    keys: Sequence[str],
    *,
    arrival: Sequence[str] = (),
    second: str,
) -> DataFrame:
    """Both frames' rows, each as a struct in the column of its side; the other column is NULL.

    Args:
        frames: by side, with TIME.
        keys: columns that both have.
        arrival: columns that both have, to be ordered by.
        second: the side that comes second.

    Returns:
        The columns of `group`, TIME, those of `arrivals`, SECOND, and a struct for each side.
    """
    empty = {
        side: F.lit(None).cast(T.StructType(frame.schema.fields)) for side, frame in frames.items()
    }

    def rows(side: str) -> DataFrame:
        frame = frames[side]
        structs = {**empty, side: F.struct(*map(column, frame.columns))}
        return frame.select(
            *(column(name).alias(key_name(i)) for i, name in enumerate(keys)),
            F.when(~usable(keys), F.coalesce(F.pmod(TIME, F.lit(1_000)), F.lit(0))).alias(_APART),
            F.col(TIME),
            *(
                column(source).alias(name)
                for source, name in zip(arrival, arrivals(arrival), strict=True)
            ),
            F.lit(side == second).alias(SECOND),
            *(struct.alias(name) for name, struct in structs.items()),
        )

    one, other = frames
    return rows(one).unionAll(rows(other))


def group(keys: Sequence[str]) -> list[str]:
    """The columns of a merged frame that hold the key."""
    return [*(key_name(i) for i in range(len(keys))), _APART]


def arrivals(arrival: Sequence[str]) -> list[str]:
    """The columns of a merged frame that hold the order of arrival."""
    return [f"_arrival{i}" for i in range(len(arrival))]


def ties(side: str, frame: DataFrame, first: Sequence[str] = ()) -> list[Column]:
    """A side's columns in a merged frame that can be sorted by, those of `first` in front."""
    rest = [field.name for field in frame.schema.fields if sortable(field.dataType)]
    return [F.col(f"{side}.{quoted(name)}") for name in (*first, *rest)]

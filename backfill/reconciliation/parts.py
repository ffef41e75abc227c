"""Keys of more events than the driver takes: replayed by Spark's workers, in parts.

A part is some of the keys, whole. They go through Arrow rather than as pandas' own columns, in
which a NULL turns integers into doubles. What comes back is packed, so that neither Spark nor the
driver has to hold all of it as objects.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.errors import PythonException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill.aggregates.base import positive_zero
from backfill.columns import column
from backfill.errors import ReplayError
from backfill.reconciliation.key_explainer import KeyExplainer
from backfill.reconciliation.packed import Packed
from backfill.reconciliation.result import Part

_PART, _ROW, _FOUND = "_part", "_row", "_found"


def in_parts(keyed: KeyExplainer, windows: DataFrame, events: DataFrame, parts: int) -> list[Part]:
    """Explains the keys in so many parts.

    Each has to fit into a worker's memory, and so has each key.

    Args:
        keyed: what explains them; backfill has to be installed where the workers are.
        windows: as `KeyExplainer.explained` takes them.
        events: the same.
        parts: how many.

    Raises:
        ReplayError: the workers have no backfill.
    """

    def explained(ours: pa.Table, theirs: pa.Table) -> pa.Table:
        found = keyed.explained(
            *(pa.Table.from_struct_array(each[_ROW]) for each in (ours, theirs))
        )
        packed = pickle.dumps(replace(found, explained=Packed(found.explained)))
        return pa.table({_FOUND: pa.array([packed], pa.binary())})

    types = {field.name: field.dataType for field in windows.schema.fields}
    typed = events.withColumns({each: F.col(each).cast(types[each]) for each in keyed.keys})
    sides = [_placed(each, keyed.keys, parts).groupBy(_PART) for each in (windows, typed)]
    grouped = sides[0].cogroup(sides[1]).applyInArrow(explained, f"{_FOUND} binary")
    try:
        return [pickle.loads(row[_FOUND]) for row in grouped.collect()]
    except PythonException as error:
        if "No module named 'backfill'" not in str(error):
            raise
        raise ReplayError(
            "backfill is not installed on Spark's workers, which replay keys with many events",
            way_out="Install it there, or compare a share of the keys: --sample 1%",
        ) from error


def _placed(rows: DataFrame, keys: Sequence[str], parts: int) -> DataFrame:
    types = {field.name: field.dataType for field in rows.schema.fields}
    # Hashes of 0.0 and -0.0 differ, but as keys they are equal.
    hashed = [positive_zero(F.col(each), types[each]) for each in keys]
    part = F.pmod(F.xxhash64(*hashed), F.lit(parts)) if keys else F.lit(0).cast("bigint")
    # In one column, for Sail 0.7.2 fails where a column of a side that is grouped has a NULL.
    row = F.struct(*map(column, rows.columns))
    return rows.select(part.alias(_PART), row.alias(_ROW))

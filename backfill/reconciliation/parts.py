"""Replays keys in parts on Spark's workers, if they have more events than the driver takes.

A part has all rows of some of the keys. They are passed as Arrow tables rather than as pandas' own
columns, in which a NULL turns integers into doubles. Results come back packed, so that neither
Spark nor the driver must hold them all as objects.
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
    """Explains the keys in several parts.

    Each part must fit into a worker's memory, and so must each key.

    Args:
        keyed: explains the keys; backfill must be installed on the workers.
        windows: as `KeyExplainer.explained` takes them.
        events: the same.
        parts: how many.

    Raises:
        ReplayError: backfill is not installed on the workers.
    """

    def explained(ours: pa.Table, theirs: pa.Table) -> pa.Table:
        part = keyed.explained(
            *(pa.Table.from_struct_array(table[_ROW]) for table in (ours, theirs))
        )
        packed = pickle.dumps(replace(part, explained=Packed(part.explained)))
        return pa.table({_FOUND: pa.array([packed], pa.binary())})

    types = {field.name: field.dataType for field in windows.schema.fields}
    typed = events.withColumns({name: F.col(name).cast(types[name]) for name in keyed.keys})
    sides = [_placed(frame, keyed.keys, parts).groupBy(_PART) for frame in (windows, typed)]
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
    hashed = [positive_zero(F.col(name), types[name]) for name in keys]
    part = F.pmod(F.xxhash64(*hashed), F.lit(parts)) if keys else F.lit(0).cast("bigint")
    # In one column, because Sail 0.7.2 fails if a column of a grouped side has a NULL.
    row = F.struct(*map(column, rows.columns))
    return rows.select(part.alias(_PART), row.alias(_ROW))

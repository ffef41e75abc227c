"""The rows of a version for pyarrow, which opens no files that cannot hold what is asked for."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import reduce
from operator import and_
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import Schema

from backfill.folders import Folder
from backfill.store.files.log import Version
from backfill.store.protocol import DataFile


def dataset(folder: Folder, table: Version) -> ds.Dataset:
    """The rows of a version.

    The statistics of files are passed on here and not by the Delta library. For us a missing bound
    is no bound; the library takes it as one that no value is within, if the column's other bound or
    its number of NULLs is there.

    Args:
        folder: the table's folder.
        table: the version.
    """
    schema = pa.schema(Schema.from_json(table.schema).to_arrow())
    format, files = ds.ParquetFileFormat(), folder.filesystem
    fragments = []
    for file in table.statistics():
        inside = () if file.path in table.whole else table.partition_by
        known = reduce(and_, _known(file, inside, schema), ds.scalar(True))
        path = folder.path(file.path)
        fragments.append(format.make_fragment(path, files, partition_expression=known))
    return ds.FileSystemDataset(fragments, schema, format, files)


def _known(
    file: DataFile, partition_by: Collection[str], schema: pa.Schema
) -> Iterator[ds.Expression]:
    """What holds for all rows of a file; partition columns also get their values from this."""
    for name, kind in zip(schema.names, schema.types, strict=True):
        field, bounds = ds.field(name), (file.minimum.get(name), file.maximum.get(name))
        if name in partition_by:
            value = bounds[0]
            yield field.is_null() if value is None else field == _scalar(value, kind)
        # Bounds do not include NaN, which is the largest number for Spark.
        elif name in file.complete and not pa.types.is_floating(kind):
            yield from _bounded(field, bounds, kind)


def _bounded(
    field: ds.Expression, bounds: Sequence[Any], kind: pa.DataType
) -> Iterator[ds.Expression]:
    least, most = bounds
    if least is not None:
        yield field >= _scalar(least, kind)
    if most is not None:
        yield field <= _scalar(most, kind)


def _scalar(value: Any, kind: pa.DataType) -> pa.Scalar:
    """A value of the column's type; times are given in µs."""
    if pa.types.is_timestamp(kind):
        return pa.scalar(value, pa.int64()).cast(kind)
    return pa.scalar(value, kind)

"""Parquet files with numbered rows, for a runtime that does not know the numbers."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from backfill.errors import SourceError
from backfill.runtimes.differences import temporary_folder


def numbered_copies(paths: Sequence[str], base: str, name: str) -> str:
    """Copies of files, with a further column.

    Args:
        paths: the files, on the local disk.
        base: a folder that the files are in, at any depth.
        name: the name of the column: the row's number in its file, from 0.

    Returns:
        A folder where each copy has the path that its file has below `base`. It is deleted when
        the process ends.

    Raises:
        SourceError: a file cannot be read or written.
    """
    made = temporary_folder()
    for path in paths:
        copy = os.path.join(made, os.path.relpath(path, base))
        os.makedirs(os.path.dirname(copy), exist_ok=True)
        try:
            _copy(path, copy, pa.field(name, pa.int64()))
        except (pa.ArrowException, OSError) as error:
            raise SourceError(
                f"cannot be copied with the numbers of its rows: {error}",
                field=path,
                way_out="Fetch it again, or use Spark: --runtime spark",
            ) from error
    return made


def _copy(path: str, copy: str, number: pa.Field) -> None:
    # For the older kind of timestamps (INT96), which otherwise become ns, and these end in 2262.
    with pq.ParquetFile(path, coerce_int96_timestamp_unit="us") as read:
        schema = read.schema_arrow.append(number)
        with pq.ParquetWriter(copy, schema) as write:
            seen = 0
            for batch in read.iter_batches():
                count = batch.num_rows
                numbers = pa.array(range(seen, seen + count), pa.int64())
                write.write_batch(
                    pa.RecordBatch.from_arrays([*batch.columns, numbers], schema=schema)
                )
                seen += count

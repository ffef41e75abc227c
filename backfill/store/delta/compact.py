"""Compacting the files of dates that many small commits have left in pieces."""

from __future__ import annotations

from collections import defaultdict
from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from backfill.errors import TableError
from backfill.store.delta.commit import commit_files
from backfill.store.delta.data_files import live_with_statistics
from backfill.store.delta.discard import discard_files
from backfill.store.delta.log import required_table
from backfill.store.delta.reading import read_files
from backfill.store.delta.record import recorded_by
from backfill.store.delta.staging import is_apart, write_files
from backfill.store.protocol import APART, DataFile

# Spark's own target for a file's part of a shuffle: a date below it gains nothing from several.
_SMALL = 64 * 1024 * 1024


def compact_files(
    spark: SparkSession, folder: Path, name: str, *, run_id: str, sort_by: tuple[str, ...]
) -> int | None:
    """Compacts the files of small dates; see `Store.compact`."""
    table = required_table(folder)
    pieces = _pieces(live_with_statistics(folder, table))
    if not pieces:
        return None
    paths = [file.path for file in pieces]
    kinds = [
        read_files(spark, folder, table, own).withColumn(APART, F.lit(apart))
        for apart in (False, True)
        if (own := [path for path in paths if is_apart(path) is apart])
    ]
    staged = write_files(
        reduce(DataFrame.unionByName, kinds),
        folder,
        name=name,
        run_id=run_id,
        partition_by=tuple(table.metadata().partition_columns),
        sort_by=sort_by,
        whole=True,
    )
    try:
        rows = sum(file.rows for file in pieces)
        if staged.rows != rows:
            raise TableError(
                f"{rows:,} rows should have been compacted, but {staged.rows:,} were written",
                field=name,
            )
        return commit_files(
            folder,
            staged,
            paths,
            base=table.version(),
            dates=(),
            metadata={"kind": "compact"},
            record=lambda version: recorded_by(folder, version) or "",
            data_change=False,
        )
    except BaseException:
        discard_files(staged, folder)
        raise


def _pieces(files: tuple[DataFile, ...]) -> list[DataFile]:
    """The files of partitions that have several of a kind and are small."""
    partitions: dict[tuple[str, bool], list[DataFile]] = defaultdict(list)
    for file in files:
        partitions[file.path.rpartition("/")[0], is_apart(file.path)].append(file)
    return [
        file
        for each in partitions.values()
        if len(each) > 1 and sum(file.size for file in each) < _SMALL
        for file in each
    ]

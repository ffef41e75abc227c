"""Compacting the files of dates that many small commits have split up."""

from __future__ import annotations

from collections import defaultdict
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from backfill.errors import TableError
from backfill.store.files.commit import commit_files
from backfill.store.files.discard import discard_files
from backfill.store.files.log import Log, required
from backfill.store.files.reading import read_files
from backfill.store.files.record import recorded_by
from backfill.store.files.staging import is_apart, write_files
from backfill.store.layout import Layout
from backfill.store.protocol import APART, DataFile

# Spark's own target for the part of a shuffle in a file: a smaller date needs only one file.
_SMALL = 64 * 1024 * 1024


def compact_files(
    spark: SparkSession,
    log: Log,
    name: str,
    *,
    run_id: str,
    sort_by: tuple[str, ...],
    layout: Layout,
) -> int | None:
    """Compacts the files of small dates; see `Store.compact`."""
    table = required(log)
    pieces = _pieces(table.statistics())
    if not pieces:
        return None
    paths = [file.path for file in pieces]
    kinds = [
        read_files(spark, log.folder, table, own).withColumn(APART, F.lit(apart))
        for apart in (False, True)
        if (own := [path for path in paths if is_apart(path) is apart])
    ]
    staged = write_files(
        reduce(DataFrame.unionByName, kinds),
        log.folder,
        name=name,
        run_id=run_id,
        partition_by=table.partition_by,
        sort_by=sort_by,
        layout=layout,
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
            log,
            staged,
            paths,
            base=table.number,
            dates=(),
            metadata={"kind": "compact"},
            record=lambda version: recorded_by(log, version) or "",
            data_change=False,
        )
    except BaseException:
        discard_files(staged, log)
        raise


def _pieces(files: tuple[DataFile, ...]) -> list[DataFile]:
    """The files of small partitions that have several files of the same kind."""
    partitions: dict[tuple[str, bool], list[DataFile]] = defaultdict(list)
    for file in files:
        partitions[file.path.rpartition("/")[0], is_apart(file.path)].append(file)
    return [
        file
        for partition in partitions.values()
        if len(partition) > 1 and sum(file.size for file in partition) < _SMALL
        for file in partition
    ]

"""Files that Spark wrote for a table and that are not published yet."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

import pyarrow.dataset as ds
from deltalake import Schema
from pyspark.sql import DataFrame

from backfill.columns import column
from backfill.errors import ColumnError, TableError
from backfill.session_conf import session_conf
from backfill.store.files.schema import delta_schema, primitive_columns
from backfill.store.files.stats import added_up, file_statistics
from backfill.store.protocol import APART

# Beside the partitions' folders; by the underscore Delta's VACUUM leaves it alone.
STAGING = "_staging"
_APART_FILE = "apart-"

# Spark's default, INT96, leaves files without time statistics; and Delta's calendar is the
# proleptic Gregorian one, whatever Spark is set to do with old dates.
_WRITE_CONF = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
}


@dataclass(frozen=True)
class StagedFile:
    """One Parquet file.

    Attributes:
        path: relative to the staging folder, and to the table's folder once it is published.
        size: in bytes.
        modified_ms: when it was written, in milliseconds since the epoch.
        rows: the number of rows.
        stats: Delta's statistics, JSON.
    """

    path: str
    size: int
    modified_ms: int
    rows: int
    stats: str


@dataclass(frozen=True)
class StagedFiles:
    """What one run wrote for one table.

    Attributes:
        name: the table.
        run_id: the run.
        folder: where the files are until they are published: a folder of their own.
        schema: of the table, partition columns among the others, Delta's JSON.
        partition_by: the partition columns.
        files: the files, in order of path; files without rows are left out.
    """

    name: str
    run_id: str
    folder: Path
    schema: str
    partition_by: tuple[str, ...]
    files: tuple[StagedFile, ...]

    @property
    def rows(self) -> int:
        """The number of rows in all files."""
        return sum(file.rows for file in self.files)

    def sum_of(self, column: str) -> int:
        """A column of whole numbers, added up from the files as they were written."""
        return added_up([self.folder / each.path for each in self.files], column)

    def count_by(self, column: str) -> dict[str, int]:
        """How many rows have each value of a column of text."""
        if not self.files:
            return {}
        values = ds.dataset(self.folder, format="parquet").to_table(columns=[column])[column]
        return {str(each["values"]): each["counts"].as_py() for each in values.value_counts()}


def write_files(
    frame: DataFrame,
    table_folder: Path,
    *,
    name: str,
    run_id: str,
    partition_by: tuple[str, ...],
    sort_by: tuple[str, ...],
    task_bytes: int | None = None,
    whole: bool = False,
) -> StagedFiles:
    """Writes the frame below the table's folder, in few files of a sensible size.

    Spark brings each partition's rows together and cuts or joins by size (adaptive execution,
    `spark.sql.adaptive.advisoryPartitionSizeInBytes`): one file for a small partition, several
    for a big one. Rows are sorted within each file, so that statistics tell files apart.
    Where the frame has APART, rows of either kind share no file.

    Args:
        frame: the rows.
        table_folder: the table's.
        name: the table.
        run_id: the run.
        partition_by: the partition columns.
        sort_by: the order within a file.
        task_bytes: about how much a task sorts and writes; None: Spark's setting.
        whole: one file for each partition, whatever its size.

    Raises:
        ColumnError: a column that Delta cannot hold, or is missing.
        TableError: the run has written for this table before.
    """
    schema = delta_schema(frame.drop(APART).schema)
    _check_columns(frame, partition_by, sort_by)
    folder = table_folder / STAGING / run_id
    if folder.exists():
        raise TableError(
            "the run has written files for this table before",
            field=f"{name}, run {run_id}",
            way_out="Use a new run id, or discard the other files.",
        )
    folders = [*partition_by, *([APART] if APART in frame.columns else [])]
    keys = [column(each) for each in folders]
    ordered = [*keys, *(column(each) for each in sort_by)]
    if not whole:
        rows = frame.hint("rebalance", *keys)
    else:
        rows = frame.repartition(*keys) if keys else frame.coalesce(1)
    if ordered:
        rows = rows.sortWithinPartitions(*ordered)
    writer = rows.write.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
    conf = dict(_WRITE_CONF)
    if task_bytes is not None:
        conf["spark.sql.adaptive.advisoryPartitionSizeInBytes"] = str(task_bytes)
    try:
        with session_conf(frame.sparkSession, conf):
            (writer.partitionBy(*folders) if folders else writer).parquet(str(folder))
        files = _collect(folder, schema, partition_by)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return StagedFiles(name, run_id, folder, schema.to_json(), partition_by, files)


def move_files(staged: StagedFiles, table_folder: Path) -> None:
    """Moves staged files to their final places; they stay invisible until the commit.

    Raises:
        TableError: files are gone.
    """
    for file in staged.files:
        source, target = staged.folder / file.path, table_folder / file.path
        if source.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            # A clean-up takes old files that no commit names: this one's will follow.
            os.utime(source)
            source.rename(target)
        elif not target.exists():  # there, it was moved by an earlier attempt to publish
            raise TableError("a staged file is missing", field=staged.name, value=file.path)
    shutil.rmtree(staged.folder, ignore_errors=True)


def delete_files(staged: StagedFiles, table_folder: Path, published: Collection[str]) -> None:
    """Deletes staged files, moved or not, except those that have been published."""
    for file in staged.files:
        if file.path not in published:
            (table_folder / file.path).unlink(missing_ok=True)
    shutil.rmtree(staged.folder, ignore_errors=True)


def _check_columns(
    frame: DataFrame, partition_by: tuple[str, ...], sort_by: tuple[str, ...]
) -> None:
    for name in (*partition_by, *sort_by):
        if name not in frame.columns:
            raise ColumnError("the frame to publish has no such column", field=name)


def _collect(folder: Path, schema: Schema, partition_by: tuple[str, ...]) -> tuple[StagedFile, ...]:
    """The files with rows; what else Spark left there is deleted."""
    columns = {
        name: kind for name, kind in primitive_columns(schema).items() if name not in partition_by
    }
    files = []
    for path in sorted(folder.rglob("*")):
        if path.is_dir():
            continue
        if path.parent.name.startswith(f"{APART}="):
            path = _out_of_its_folder(path)
        statistics = None
        if path.suffix == ".parquet" and not path.name.startswith((".", "_")):
            statistics = file_statistics(path, columns)
        if statistics is None or statistics.rows == 0:
            path.unlink()
            continue
        status = path.stat()
        files.append(
            StagedFile(
                path=path.relative_to(folder).as_posix(),
                size=status.st_size,
                modified_ms=status.st_mtime_ns // 1_000_000,
                rows=statistics.rows,
                stats=statistics.json,
            )
        )
    return tuple(sorted(files, key=attrgetter("path")))


def is_apart(path: str) -> bool:
    """Whether a file holds rows that were marked by APART."""
    return path.rpartition("/")[2].startswith(_APART_FILE)


def _out_of_its_folder(path: Path) -> Path:
    """The file next to files of the other kind: both are in the same partition of the table."""
    prefix = _APART_FILE if path.parent.name == f"{APART}=true" else ""
    # One task names its files of both kinds alike.
    return path.rename(path.parents[1] / f"{prefix}{path.name}")

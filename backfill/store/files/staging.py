"""Files that Spark has written for a table and that are not published yet."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from operator import attrgetter

import pyarrow.dataset as ds
from deltalake import Schema
from pyspark.sql import DataFrame
from pyspark.sql.types import MapType

from backfill.columns import column
from backfill.errors import ColumnError, TableError
from backfill.folders import Folder, at_once
from backfill.runtimes.folder_columns import check_place
from backfill.session_conf import session_conf
from backfill.store.files.schema import delta_schema, primitive_columns
from backfill.store.files.stats import added_up, file_statistics
from backfill.store.layout import Layout
from backfill.store.protocol import APART

# Next to the partitions' folders; Delta's VACUUM leaves it alone because of the underscore.
STAGING = "_staging"
_APART_FILE = "apart-"

# With Spark's default, INT96, files have no statistics of times; and Delta's calendar is the
# proleptic Gregorian one, whatever Spark is set to do with old dates.
_WRITE_CONF = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
}


@dataclass(frozen=True)
class StagedFile:
    """One Parquet file.

    Attributes:
        path: its path in the table's folder, once it is published.
        place: its path in the staging folder.
        size: in bytes.
        modified_ms: when it was written, in milliseconds since the epoch.
        rows: the number of rows.
        stats: Delta's statistics, as JSON.
    """

    path: str
    place: str
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
        schema: the table's schema, including partition columns, as Delta's JSON.
        partition_by: the partition columns.
        files: the files, in order of path; files without rows are left out.
    """

    name: str
    run_id: str
    folder: Folder
    schema: str
    partition_by: tuple[str, ...]
    files: tuple[StagedFile, ...]

    @property
    def rows(self) -> int:
        """The number of rows in all files."""
        return sum(file.rows for file in self.files)

    def sum_of(self, column: str) -> int:
        """A column of whole numbers, added up from the files as they were written."""
        return added_up(self.folder, [file.place for file in self.files], column)

    def count_by(self, column: str) -> dict[str, int]:
        """How many rows have each value of a column of text."""
        if not self.files:
            return {}
        files = [self.folder.path(file.place) for file in self.files]
        with self.folder.answering():
            rows = ds.dataset(files, filesystem=self.folder.filesystem, format="parquet")
            values = rows.to_table(columns=[column])[column]
        return {str(row["values"]): row["counts"].as_py() for row in values.value_counts()}


def write_files(
    frame: DataFrame,
    table_folder: Folder,
    *,
    name: str,
    run_id: str,
    partition_by: tuple[str, ...],
    sort_by: tuple[str, ...],
    layout: Layout,
    whole: bool = False,
) -> StagedFiles:
    """Writes the frame below the table's folder, in few files of a sensible size.

    Spark brings each partition's rows together and splits or joins by size (adaptive execution,
    `spark.sql.adaptive.advisoryPartitionSizeInBytes`): one file for a small partition, several
    for a big one. Rows are sorted within each file, so that statistics tell files apart.
    If the frame has APART, rows of the two kinds never share a file.

    Args:
        frame: the rows.
        table_folder: the table's folder.
        name: the table.
        run_id: the run.
        partition_by: the partition columns.
        sort_by: the order within a file.
        layout: the layout of the files.
        whole: one file for each partition, whatever its size.

    Raises:
        ColumnError: a column is missing, or Delta cannot hold it.
        SetupError: the runtime does not write there; for a catalog's tables this shows only now.
        TableError: the run has written for this table before.
    """
    check_place(table_folder.uri, frame.sparkSession, field=name)
    schema = delta_schema(frame.drop(APART).schema)
    _check_columns(frame, partition_by, sort_by)
    folder = table_folder / STAGING / run_id
    if folder.files():
        raise TableError(
            "the run has written files for this table before",
            field=f"{name}, run {run_id}",
            way_out="Use a new run id, or discard the other files.",
        )
    folders = [*partition_by, *([APART] if APART in frame.columns else [])]
    keys = [column(key) for key in folders]
    ordered = [*keys, *(column(key) for key in sort_by)]
    if not whole:
        rows = frame.hint("rebalance", *keys)
    else:
        rows = frame.repartition(*keys) if keys else frame.coalesce(1)
    if ordered:
        rows = rows.sortWithinPartitions(*ordered)
    writer = rows.write.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
    conf = dict(_WRITE_CONF)
    if layout.task_bytes is not None:
        conf["spark.sql.adaptive.advisoryPartitionSizeInBytes"] = str(layout.task_bytes)
    if layout.codec is not None:
        conf["spark.sql.parquet.compression.codec"] = layout.codec
    # If the folder can't be made, this raises a TableError; a runtime would raise its own error.
    (table_folder / STAGING).make()
    try:
        with session_conf(frame.sparkSession, conf):
            (writer.partitionBy(*folders) if folders else writer).parquet(folder.uri)
        files = _collect(folder, schema, partition_by)
    except BaseException:
        _clear(folder)
        raise
    return StagedFiles(name, run_id, folder, schema.to_json(), partition_by, files)


def move_files(staged: StagedFiles, table_folder: Folder) -> None:
    """Moves staged files to their final places; they stay invisible until the commit.

    Moving makes the files new, so a clean-up, which deletes old files that no commit names, spares
    them until the commit.

    Raises:
        TableError: files are gone.
    """
    waiting = staged.folder.files()
    # The others were moved by an earlier attempt to publish.
    moved = [file.path for file in staged.files if file.place not in waiting]
    missing = table_folder.missing(moved)
    if missing:
        raise TableError("a staged file is missing", field=staged.name, value=missing[0])
    inside = f"{STAGING}/{staged.run_id}"
    table_folder.move(
        {f"{inside}/{file.place}": file.path for file in staged.files if file.place in waiting}
    )
    _clear(staged.folder)


def delete_files(staged: StagedFiles, table_folder: Folder, published: Collection[str]) -> None:
    """Deletes staged files, moved or not, except those that have been published."""
    table_folder.delete(file.path for file in staged.files if file.path not in published)
    _clear(staged.folder)


def _clear(folder: Folder) -> None:
    """Deletes a staging folder if possible; a later clean-up deletes what is left."""
    with suppress(OSError, TableError):
        folder.delete_all()


def _check_columns(
    frame: DataFrame, partition_by: tuple[str, ...], sort_by: tuple[str, ...]
) -> None:
    for name in (*partition_by, *sort_by):
        if name not in frame.columns:
            raise ColumnError("the frame to publish has no such column", field=name)
        if isinstance(frame.schema[name].dataType, MapType):
            raise ColumnError(
                "is a map, which has no order", field=name, way_out="Leave it out of tables.sort_by"
            )


def _collect(
    folder: Folder, schema: Schema, partition_by: tuple[str, ...]
) -> tuple[StagedFile, ...]:
    """The files with rows; everything else that Spark left there is deleted."""
    columns = {
        name: kind for name, kind in primitive_columns(schema).items() if name not in partition_by
    }
    written = folder.files()
    data = [place for place in written if _is_data(place)]
    footers = at_once(lambda place: file_statistics(folder, place, columns), data)
    files = [
        StagedFile(
            path=_final(place),
            place=place,
            size=written[place].size,
            modified_ms=int(written[place].modified * 1000),
            rows=statistics.rows,
            stats=statistics.json,
        )
        for place, statistics in zip(data, footers, strict=True)
        if statistics.rows
    ]
    used = {file.place for file in files}
    folder.delete(place for place in written if place not in used)
    return tuple(sorted(files, key=attrgetter("path")))


def _is_data(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name.endswith(".parquet") and not name.startswith((".", "_"))


def is_apart(path: str) -> bool:
    """Whether a file holds rows that were marked by APART."""
    return path.rpartition("/")[2].startswith(_APART_FILE)


def _final(place: str) -> str:
    """A file's final path; files with and without APART are in the same partition's folder."""
    folder, _, name = place.rpartition("/")
    above, _, kind = folder.rpartition("/")
    if not kind.startswith(f"{APART}="):
        return place
    # A task gives its files of both kinds the same name.
    prefix = _APART_FILE if kind == f"{APART}=true" else ""
    return f"{above}/{prefix}{name}" if above else f"{prefix}{name}"

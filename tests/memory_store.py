"""Tables in memory: `backfill.store.Store` in as few words as possible, besides Delta's."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from backfill.errors import TableError
from backfill.store import APART, FILE, Cleaned, Commit, DataFile
from backfill.store.protocol import Dates, MakeRecord, Replace


@dataclass(frozen=True)
class Rows:
    """The rows of one file."""

    about: DataFile
    rows: pa.Table


@dataclass(frozen=True)
class MemoryStaged:
    """`backfill.store.Staged`."""

    name: str
    run_id: str
    schema: StructType
    partition_by: tuple[str, ...]
    files: tuple[Rows, ...]

    @property
    def rows(self) -> int:
        return sum(file.about.rows for file in self.files)

    def sum_of(self, column: str) -> int:
        return sum(pc.sum(file.rows[column]).as_py() or 0 for file in self.files)

    def count_by(self, column: str) -> dict[str, int]:
        counts: dict[str, int] = {}
        for file in self.files:
            for value in file.rows[column].to_pylist():
                counts[str(value)] = counts.get(str(value), 0) + 1
        return counts


@dataclass(frozen=True)
class MemoryVersion:
    """`backfill.store.Table`."""

    name: str
    version: int
    schema: StructType
    partition_by: tuple[str, ...]
    contents: Mapping[str, Rows]
    record: dict[str, Any] | None
    commits: tuple[Commit, ...]
    dates: Dates
    removed: frozenset[str]

    @property
    def files(self) -> Sequence[DataFile]:
        return tuple(self.contents[path].about for path in sorted(self.contents))

    def read(
        self, spark: SparkSession, files: Collection[str] | None = None, *, with_file: bool = False
    ) -> DataFrame:
        wanted = sorted(self.contents if files is None else files)
        rows = _frame(spark, self.schema, [self.contents[path] for path in wanted], with_file)
        return rows

    def sum_of(self, column: str, files: Collection[str]) -> int:
        return sum(pc.sum(self.contents[path].rows[column]).as_py() or 0 for path in files)

    def check_writable(self) -> None:
        """Any table is writable."""


@dataclass
class MemoryStore:
    """`backfill.store.Store`."""

    tables: dict[str, list[MemoryVersion]] = field(default_factory=dict)

    def open(self, name: str, version: int | None = None) -> MemoryVersion | None:
        versions = self.tables.get(name)
        if not versions:
            return None
        if version is not None and not 0 <= version < len(versions):
            raise TableError("no such version", field=name, value=version)
        return versions[-1 if version is None else version]

    def dataset(self, name: str, run: str | None = None) -> ds.Dataset:
        assert run is None, "no run leaves anything in memory"
        table = self.open(name)
        assert table is not None
        return ds.dataset(pa.concat_tables([file.rows for file in table.contents.values()]))

    @property
    def way_to_delete(self) -> str:
        return "Nothing deletes them."

    def stage(
        self,
        name: str,
        frame: DataFrame | StructType,
        *,
        run_id: str,
        partition_by: tuple[str, ...],
        sort_by: tuple[str, ...],
        task_bytes: int | None = None,
    ) -> MemoryStaged:
        if isinstance(frame, StructType):
            return MemoryStaged(name, run_id, frame, partition_by, ())
        # As in Delta's tables, every column may be NULL.
        rows = frame.toArrow()
        rows = rows.cast(pa.schema([column.with_nullable(True) for column in rows.schema]))
        by_file: dict[tuple[Any, ...], list[int]] = {}
        kinds = [
            rows[column].to_pylist()
            for column in (*partition_by, APART)
            if column in rows.schema.names
        ]
        for number, kind in enumerate(zip(*kinds, strict=True) if kinds else [()] * len(rows)):
            by_file.setdefault(kind, []).append(number)
        rows = rows.drop_columns([APART]) if APART in rows.schema.names else rows
        files = tuple(
            _file("/".join([*map(str, kind), run_id]), rows.take(places), partition_by)
            for kind, places in by_file.items()
        )
        schema = StructType([column for column in frame.schema.fields if column.name != APART])
        return MemoryStaged(name, run_id, schema, partition_by, files)

    def read_staged(self, spark: SparkSession, staged: MemoryStaged) -> DataFrame:
        return _frame(spark, staged.schema, staged.files, False)

    def discard(self, staged: MemoryStaged) -> None:
        """Does nothing, since nothing was written anywhere."""

    def publish(
        self,
        name: str,
        staged: MemoryStaged,
        *,
        replace: Replace,
        base: int | None,
        dates: Dates,
        metadata: Mapping[str, str],
        record: MakeRecord,
    ) -> int:
        dates = None if replace == "all" else dates
        versions = self.tables.setdefault(name, [])
        for other in versions[0 if base is None else base + 1 :]:
            _check_apart(name, other, dates, () if replace == "all" else replace)
        before = versions[-1] if versions else None
        contents = {} if before is None or replace == "all" else dict(before.contents)
        removed = list(before.contents if before else ()) if replace == "all" else list(replace)
        for path in removed:
            contents.pop(path, None)
        contents |= {file.about.path: file for file in staged.files}
        made = record(None if before is None else before.record)
        known = {**metadata, "run_id": staged.run_id, "closure": json.dumps(dates, default=str)}
        return self._add(
            name,
            staged.schema,
            staged.partition_by,
            contents,
            json.loads(json.dumps(made)),
            known,
            dates,
            removed,
        )

    def check_restorable(self, name: str, version: int) -> None:
        assert self.open(name, version) is not None

    def restore(self, name: str, version: int, *, run_id: str, metadata: Mapping[str, str]) -> int:
        old, newest = self.open(name, version), self.tables[name][-1]
        assert old is not None
        if old is newest:
            return version
        return self._add(
            name,
            old.schema,
            old.partition_by,
            old.contents,
            old.record,
            {**metadata, "run_id": run_id},
            None,
            list(newest.contents),
        )

    def clean(self, name: str, *, older_than_s: float) -> Cleaned:
        return Cleaned(0, 0, 0, 0)

    def compact(
        self, spark: SparkSession, name: str, *, run_id: str, sort_by: tuple[str, ...]
    ) -> int | None:
        return None

    def _add(
        self,
        name: str,
        schema: StructType,
        partition_by: tuple[str, ...],
        contents: Mapping[str, Rows],
        record: dict[str, Any] | None,
        metadata: Mapping[str, str],
        dates: Dates,
        removed: Collection[str],
    ) -> int:
        versions = self.tables[name]
        number = len(versions)
        commit = Commit(number, dt.datetime.now(dt.timezone.utc), dict(metadata))
        earlier = versions[-1].commits if versions else ()
        versions.append(
            MemoryVersion(
                name,
                number,
                schema,
                partition_by,
                contents,
                record,
                (commit, *earlier),
                dates,
                frozenset(removed),
            )
        )
        return number


def _check_apart(name: str, other: MemoryVersion, dates: Dates, replace: Sequence[str]) -> None:
    """Fails if dates or files of the two runs meet; otherwise both may stand."""
    meet = other.dates is None or dates is None
    if not meet:
        meet = any(
            max(low, start) < min(high, end)
            for low, high in other.dates or ()
            for start, end in dates or ()
        )
    if meet or other.removed.intersection(replace):
        run = other.commits[0].metadata.get("run_id")
        raise TableError(
            f"run {run} published version {other.version} meanwhile",
            field=name,
            way_out="Run again.",
        )


def _file(path: str, rows: pa.Table, partition_by: Sequence[str]) -> Rows:
    least, most = {}, {}
    for name in ("window_start", "window_end", "event_time", *partition_by):
        if name in rows.schema.names:
            values = rows[name]
            if pa.types.is_timestamp(values.type):
                values = values.cast(pa.timestamp("us", values.type.tz)).cast(pa.int64())
            bounds = pc.min_max(values)
            least[name], most[name] = bounds["min"].as_py(), bounds["max"].as_py()
    return Rows(DataFile(path, rows.nbytes, len(rows), least, most), rows)


def _frame(
    spark: SparkSession, schema: StructType, files: Sequence[Rows], with_file: bool
) -> DataFrame:
    parts = [
        file.rows.append_column(FILE, pa.array([file.about.path] * len(file.rows), pa.string()))
        for file in files
    ]
    if not parts:
        nothing = (F.lit(None).cast(column.dataType).alias(column.name) for column in schema.fields)
        empty = spark.range(0).select(*nothing)
        return empty.withColumn(FILE, F.lit("")) if with_file else empty
    rows = spark.createDataFrame(pa.concat_tables(parts))
    return rows if with_file else rows.drop(FILE)

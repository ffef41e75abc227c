"""Rows that a table deletes without rewriting their files: by their places, or by values."""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import and_

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from backfill.columns import column
from backfill.events.files import place
from backfill.events.model import SOURCE, InputFile, whole_rows
from backfill.events.table_files import rows_by_file
from backfill.runtimes.differences import needs_spark, nullable, runtime_of
from backfill.runtimes.folder_columns import FolderValues

Places = npt.NDArray[np.int64]
"""Of rows in a file, counted from 0, in order and each once."""

Scan = Callable[[tuple[InputFile, ...], StructType], DataFrame]
"""Reads files, and of them these columns."""

#: Columns of a row: its place, as one number for all files, and what is known about its file.
_PLACE, _FILE = "_backfill_place", "_backfill_file"
#: Columns of deletions by values: the values, and what is known about the file that names them.
_VALUES, _BY = "_backfill_values", "_backfill_by"
#: No file has this many rows.
_ROWS = 1 << 40


@dataclass(frozen=True)
class Scope:
    """When and where a file was added; in Iceberg, this decides what deletions by values apply to.

    A file that names deleted rows by their values reaches the rows that were added before it, in
    its partition or in all of them.

    Attributes:
        sequence: when it was added: larger is later.
        partition: the number of its partition; None for deletions in every partition.
    """

    sequence: int
    partition: int | None

    def reaches(self, rows: Scope) -> bool:
        """Whether deletions of this scope can delete rows of that one."""
        within = self.partition is None or self.partition == rows.partition
        return rows.sequence < self.sequence and within


@dataclass(frozen=True)
class Equality:
    """Files that name rows by their values, all in the same columns; NULL equals NULL.

    Attributes:
        schema: the schema of these columns, as the table has them.
        files: the files, and what each one reaches.
    """

    schema: StructType
    files: Mapping[InputFile, Scope]


@dataclass(frozen=True)
class Deletions:
    """All deletions of one version of a table; paths are written as in InputFile.

    Attributes:
        places: the places of deleted rows, by the path of their file; files without any are absent.
        equality: deletions by values.
        scopes: the scopes of files of rows, by path; {} if nothing is deleted by values.
    """

    places: Mapping[str, Places] = field(default_factory=dict)
    equality: tuple[Equality, ...] = ()
    scopes: Mapping[str, Scope] = field(default_factory=dict)

    def reaching(self, paths: Iterable[str]) -> list[Equality]:
        """The deletions by values that can delete rows of some files."""
        rows = {self.scopes[path] for path in paths if path in self.scopes}
        narrowed = (
            Equality(
                deletion.schema,
                {f: s for f, s in deletion.files.items() if any(map(s.reaches, rows))},
            )
            for deletion in self.equality
        )
        return [deletion for deletion in narrowed if deletion.files]

    def digests(self, paths: Iterable[str]) -> dict[str, str]:
        """A digest of the deletions that apply to each of some files; files without any are absent.

        Which rows have the values of deletions is not looked at: deletions count for all files that
        they reach.
        """
        reaching = _Reaching(self.equality)
        hashes = {}
        for path in paths:
            named = reaching.digest(self.scopes[path]) if path in self.scopes else b""
            if path in self.places or named:
                places = self.places.get(path, np.empty(0, np.int64))
                hashed = hashlib.blake2b(places.astype("<i8").tobytes(), digest_size=16)
                hashed.update(len(places).to_bytes(8, "little") + named)
                hashes[path] = hashed.hexdigest()
        return hashes


class _Reaching:
    """Which files of deletions by values reach a file of rows, as a digest of their paths.

    Each digest is made from that of the files that were added later, so many files cost no more
    than sorting them.
    """

    def __init__(self, equality: Iterable[Equality]) -> None:
        self._files: dict[int | None, list[tuple[int, str]]] = {}
        for deletion in equality:
            for file, scope in deletion.files.items():
                self._files.setdefault(scope.partition, []).append((scope.sequence, file.path))
        self._digests: dict[int | None, tuple[list[int], list[bytes]]] = {}

    def digest(self, rows: Scope) -> bytes:
        """The digest of the files that reach rows of this scope; empty if there are none."""
        if rows.partition not in self._digests:
            self._digests[rows.partition] = self._of(rows.partition)
        until, digests = self._digests[rows.partition]
        reached = bisect_left(until, -rows.sequence)
        return digests[reached - 1] if reached else b""

    def _of(self, partition: int | None) -> tuple[list[int], list[bytes]]:
        """For each file, latest first: when it was added, negated; and the digest down to it."""
        files = sorted([*self._files.get(None, ()), *self._files.get(partition, ())], reverse=True)
        digest, digests = b"", []
        for _, path in files:
            digest = hashlib.blake2b(digest + path.encode(), digest_size=16).digest()
            digests.append(digest)
        return [-sequence for sequence, _ in files], digests


def table_rows(
    spark: SparkSession,
    scan: Scan,
    schema: StructType,
    deletions: Deletions,
    files: tuple[InputFile, ...],
    where: Column | None,
    folders: Mapping[str, FolderValues] | None = None,
) -> DataFrame:
    """The rows of some of a table's files that are not deleted.

    Args:
        spark: the session.
        scan: reads the table's files, and those of deletions by values.
        schema: the schema of the table.
        deletions: the deletions in this version of it.
        files: some files of the table, as it was opened.
        where: as in `Source.only`.
        folders: by a file's path, what the table's log says about columns that the file lacks.

    Returns:
        The columns of the schema, `_corrupt` and `_source`. Files without deletions are read as if
        no file had any.

    Raises:
        SetupError: rows are deleted, but the runtime does not say where in its file a row is.
    """
    whole = tuple(file for file in files if file.deletions is None)
    others = tuple(file for file in files if file.deletions is not None)
    if not runtime_of(spark).names_files:
        if others:
            what = "tables whose rows are deleted without rewriting their files are read"
            needs_spark(spark, what, field="source.path")
        return rows_by_file(spark, whole, folders or {}, nullable(schema), _plain(spark), where)
    frames = []
    if whole:
        frames.append(whole_rows(scan(whole, schema), schema.names, place(), where))
    if others:
        paths = [file.path for file in others]
        rows = _with_places(scan(others, schema), schema.names, deletions, paths, where)
        deleted = _places(deletions, paths)
        if len(deleted):
            table = pa.table({_PLACE: deleted})
            rows = rows.join(rows.sparkSession.createDataFrame(table), _PLACE, "left_anti")
        for equality in deletions.reaching(paths):
            rows = _without(rows, equality, scan(tuple(equality.files), equality.schema))
        frames.append(whole_rows(rows, schema.names, F.col(SOURCE), None))
    return reduce(DataFrame.unionAll, frames)


def _plain(spark: SparkSession) -> Callable[[list[str], StructType], DataFrame]:
    return lambda paths, schema: spark.read.schema(schema).parquet(*paths)


def _with_places(
    rows: DataFrame,
    names: Sequence[str],
    deletions: Deletions,
    paths: Sequence[str],
    where: Column | None,
) -> DataFrame:
    kept = rows if where is None else rows.where(where)
    # This is the index in the file, so it is right if a file is read in parts or parts are skipped.
    index = kept.metadataColumn("_metadata").getField("row_index")
    own = [column(name) for name in names]
    placed = kept.select(*own, place().alias(SOURCE), index.alias(_PLACE))
    scopes = [deletions.scopes.get(path, Scope(0, None)) for path in paths]
    placed = placed.join(_by_path(rows.sparkSession, paths, scopes, _FILE), SOURCE, "left")
    # Otherwise a row of an unknown file would silently not be deleted.
    unknown = F.raise_error(F.concat(F.lit("source: rows of a file that is not known: "), SOURCE))
    known = F.when(F.col(_FILE).isNull(), unknown).otherwise(F.col(_FILE))
    placed = placed.withColumn(_FILE, known)
    return placed.withColumn(_PLACE, F.col(_FILE)["number"] * F.lit(_ROWS) + F.col(_PLACE))


def _places(deletions: Deletions, paths: Sequence[str]) -> Places:
    places = [
        deletions.places[path] + number * _ROWS
        for number, path in enumerate(paths)
        if path in deletions.places
    ]
    return np.concatenate(places) if places else np.empty(0, np.int64)


def _without(rows: DataFrame, equality: Equality, named: DataFrame) -> DataFrame:
    """The rows without those that have the values of deletions that reach them."""
    names, paths = equality.schema.names, [file.path for file in equality.files]
    values = F.struct(*map(column, names)).alias(_VALUES)
    by = _by_path(rows.sparkSession, paths, list(equality.files.values()), _BY)
    deleted = named.select(values, place().alias(SOURCE)).join(by, SOURCE).select(_VALUES, _BY)
    same = [column(name).eqNullSafe(F.col(_VALUES)[name]) for name in names]
    within = F.col(_BY)["partition"]
    reached = (F.col(_FILE)["sequence"] < F.col(_BY)["sequence"]) & (
        within.isNull() | (within == F.col(_FILE)["partition"])
    )
    return rows.join(deleted, reduce(and_, same) & reached, "left_anti")


def _by_path(
    spark: SparkSession, paths: Sequence[str], scopes: Sequence[Scope], name: str
) -> DataFrame:
    """What is known about files, in a struct of this name, with `_source`."""
    # By Arrow: Python rows would be unpacked by Python workers.
    table = pa.table(
        {
            SOURCE: pa.array(paths, pa.string()),
            "number": pa.array(range(len(paths)), pa.int64()),
            "sequence": pa.array([scope.sequence for scope in scopes], pa.int64()),
            "partition": pa.array([scope.partition for scope in scopes], pa.int64()),
        }
    )
    known = spark.createDataFrame(table)
    about = F.struct("number", "sequence", "partition").alias(name)
    return F.broadcast(known.select(SOURCE, about))

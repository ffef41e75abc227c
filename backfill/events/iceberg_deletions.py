"""Deletions beside the files of an Iceberg table: its position and equality delete files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestEntry
from pyiceberg.schema import index_name_by_id
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.transforms import VoidTransform
from pyspark.sql.types import StructType

from backfill.events.deletions import Deletions, Equality, Places, Scope
from backfill.events.iceberg_vectors import unreadable, vectors_of
from backfill.events.model import InputFile
from backfill.folders import at_once
from backfill.iceberg.snapshots import located
from backfill.printable import first_line


def deletions_of(
    table: Table, schema: StructType, snapshot: Snapshot, entries: Sequence[ManifestEntry]
) -> Deletions:
    """The deletions of a table's rows; files that delete by position are read.

    Args:
        table: the loaded table.
        schema: its columns.
        snapshot: a snapshot of the table.
        entries: the entries of all files of the snapshot.

    Raises:
        TableError: deletions can't be read, or are by values of columns that the table does not
            have.
    """
    kinds: dict[DataFileContent, list[ManifestEntry]] = {content: [] for content in DataFileContent}
    for entry in entries:
        kinds[entry.data_file.content].append(entry)
    by_place = kinds[DataFileContent.POSITION_DELETES]
    by_value = kinds[DataFileContent.EQUALITY_DELETES]
    vectors = [
        deletion for deletion in by_place if deletion.data_file.file_format == FileFormat.PUFFIN
    ]
    by_place = [
        deletion for deletion in by_place if deletion.data_file.file_format != FileFormat.PUFFIN
    ]
    for entry in (*by_place, *by_value):
        kind = entry.data_file.file_format
        if kind != FileFormat.PARQUET:
            raise unreadable(
                table, f"deletions are read from Parquet files only, but one is {kind}"
            )
    rows = kinds[DataFileContent.DATA]
    places = _places(table, by_place, rows)
    if vectors:
        # A file's vector holds all of its rows that were deleted by their place before.
        places |= vectors_of(table, snapshot)
    if not by_value:
        return Deletions(places)
    partitions: dict[tuple[int, Any], int] = {}

    def number(file: DataFile) -> int:
        return partitions.setdefault((file.spec_id, file.partition), len(partitions))

    def reach(file: DataFile) -> int | None:
        fields = table.specs()[file.spec_id].fields
        # Deletions that belong to no partition apply to all of them.
        whole = all(isinstance(field.transform, VoidTransform) for field in fields)
        return None if whole else number(file)

    scopes = {
        located(data_entry.data_file.file_path): Scope(
            _sequence(data_entry), number(data_entry.data_file)
        )
        for data_entry in rows
    }
    files: dict[tuple[int, ...], dict[InputFile, Scope]] = {}
    for deletion in by_value:
        file = deletion.data_file
        named = InputFile(located(file.file_path), file.file_size_in_bytes, 0)
        ids = tuple(sorted(file.equality_ids or ()))
        files.setdefault(ids, {})[named] = Scope(_sequence(deletion), reach(file))
    equality = tuple(Equality(_columns(table, schema, ids), group) for ids, group in files.items())
    return Deletions(places, equality, scopes)


def _sequence(entry: ManifestEntry) -> int:
    # Files from the time when a table had format 1 have no number, and are the oldest.
    return entry.sequence_number or 0


def _columns(table: Table, schema: StructType, ids: Sequence[int]) -> StructType:
    names = [str(table.schema().find_column_name(field_id)) for field_id in ids]
    if not names or not set(names) <= set(schema.names):
        known = [index_name_by_id(table_schema) for table_schema in table.schemas().values()]
        wanted = [
            next((n[field_id] for n in known if field_id in n), str(field_id)) for field_id in ids
        ]
        raise unreadable(
            table,
            "rows are deleted by values of columns that the table no longer has, or that are "
            f"nested in others: {', '.join(wanted)}",
        )
    return StructType([schema[name] for name in names])


def _places(
    table: Table, deletes: Sequence[ManifestEntry], rows: Iterable[ManifestEntry]
) -> dict[str, Places]:
    added = {data_entry.data_file.file_path: _sequence(data_entry) for data_entry in rows}
    by_path: dict[str, list[Places]] = {}
    read = at_once(lambda deletion: _read(table, deletion.data_file), deletes)
    for entry, places in zip(deletes, read, strict=True):
        for location, array in places.items():
            # Files that are no longer there can still have deletions.
            if location in added and added[location] <= _sequence(entry):
                by_path.setdefault(located(location), []).append(array)
    return {path: np.unique(np.concatenate(arrays)) for path, arrays in by_path.items()}


def _read(table: Table, file: DataFile) -> Mapping[str, Places]:
    try:
        with table.io.new_input(file.file_path).open() as stream:
            rows = pq.ParquetFile(stream).read(columns=["file_path", "pos"])
    except (pa.ArrowException, OSError) as error:
        problem = f"deletions cannot be read: {first_line(error)}: {file.file_path}"
        raise unreadable(table, problem) from error
    files = rows.group_by("file_path").aggregate([("pos", "list")])
    return {
        location.as_py(): places.values.to_numpy()
        for location, places in zip(files["file_path"], files["pos_list"], strict=True)
    }

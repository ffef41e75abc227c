"""Several sources as one: the events of each, with its name in a column."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill.columns import column
from backfill.errors import ColumnError, SourceError
from backfill.events.model import CORRUPT, SOURCE, InputFile, Snapshot, Source
from backfill.printable import shown

#: The column of the source's name.
NAME = "source"


def of_several(parts: Mapping[str, Source]) -> Source:
    """One source with the rows of all; a column that some lack is NULL in their rows.

    Args:
        parts: opened sources of files, by name.

    Raises:
        SourceError: a file is in two of them.
        ColumnError: a column has two types, or has the name of the column that is added.
    """
    owners = _owners(parts)
    own = _columns(parts)
    fields = [
        *own.values(),
        T.StructField(NAME, T.StringType()),
        *(T.StructField(name, T.StringType()) for name in (CORRUPT, SOURCE)),
    ]

    def read(files: tuple[InputFile, ...], where: Column | None) -> DataFrame:
        wanted: dict[str, list[str]] = {}
        for file in files:
            wanted.setdefault(owners[file.path], []).append(file.path)
        return _united(
            named(name, parts[name].only(paths, where), fields) for name, paths in wanted.items()
        )

    files = sorted((f for part in parts.values() for f in part.snapshot.inputs), key=_path)
    schema = T.StructType([*own.values(), T.StructField(NAME, T.StringType())])
    return Source(
        _united(named(name, part.frame, fields) for name, part in parts.items()),
        Snapshot("several", tuple(files), None, schema.toDDL()),
        read,
        folders={path: values for part in parts.values() for path, values in part.folders.items()},
        parts=parts,
    )


def named(name: str, rows: DataFrame, fields: Iterable[T.StructField]) -> DataFrame:
    """The rows of one of several sources as rows of all.

    Args:
        name: the source's name.
        rows: its rows.
        fields: the columns of all, in order; those that these rows lack are NULL.
    """
    return rows.withColumn(NAME, F.lit(name)).select(
        *(
            column(field.name)
            if field.name in rows.columns or field.name == NAME
            else F.lit(None).cast(field.dataType).alias(field.name)
            for field in fields
        )
    )


def check_parts(source: Source, names: Iterable[str]) -> None:
    """Raises a ColumnError if one of several sources lacks a column that all need."""
    for name, part in source.parts.items():
        for needed in names:
            if needed not in part.frame.columns:
                raise ColumnError(
                    "there is no such column",
                    field=f"sources.{name}",
                    value=needed,
                    way_out="The columns of events must have the same names in all sources",
                )


def _path(file: InputFile) -> str:
    return file.path


def _united(frames: Iterable[DataFrame]) -> DataFrame:
    return reduce(DataFrame.unionAll, frames)


def _owners(parts: Mapping[str, Source]) -> dict[str, str]:
    owners: dict[str, str] = {}
    for name, part in parts.items():
        for file in part.snapshot.inputs:
            if file.path in owners:
                raise SourceError(
                    f"is in two sources, {owners[file.path]} and {name}",
                    field="sources",
                    value=shown(file.path),
                    way_out="Give each source a folder, or a pattern, of its own",
                )
            owners[file.path] = name
    return owners


def _columns(parts: Mapping[str, Source]) -> dict[str, T.StructField]:
    """The columns of all, by their names in lower case."""
    columns: dict[str, T.StructField] = {}
    first: dict[str, str] = {}
    for name, part in parts.items():
        for field in part.frame.schema:
            if field.name in (CORRUPT, SOURCE):
                continue
            if field.name.lower() == NAME:
                raise ColumnError(
                    "is the name of the column that says which source an event is from",
                    field=f"sources.{name}",
                    value=field.name,
                    way_out="Rename the column in the source",
                )
            known = columns.setdefault(
                field.name.lower(), T.StructField(field.name, field.dataType)
            )
            first.setdefault(known.name, name)
            if known.name != field.name:
                raise ColumnError(
                    f"is {known.name} in {first[known.name]}, and Spark can't tell the two apart",
                    field=f"sources.{name}",
                    value=field.name,
                    way_out="Rename the column in one of the sources",
                )
            if known.dataType != field.dataType:
                raise ColumnError(
                    f"is {known.dataType.simpleString()} in {first[field.name]} and "
                    f"{field.dataType.simpleString()} in {name}",
                    field="sources",
                    value=field.name,
                    way_out="Give one of them a schema that has the other's type",
                )
    return columns

"""Opening a source: what is there is listed, checked and fixed, then read lazily."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from backfill.errors import SourceError, did_you_mean
from backfill.events.compaction import rewrites
from backfill.events.delta_source import DeltaFiles, open_delta, read_delta
from backfill.events.failures import spark_errors
from backfill.events.file_sources import given_schema, open_files
from backfill.events.files import base_path
from backfill.events.kafka_source import of_records
from backfill.events.listing import list_source
from backfill.events.model import (
    NAMED,
    OURS,
    InputFile,
    Read,
    Rewrite,
    Snapshot,
    Source,
    SourceOptions,
    refuse_our_names,
    whole_rows,
)
from backfill.events.several import of_several
from backfill.kafka.records import check_copied, check_records
from backfill.printable import shown

if TYPE_CHECKING:
    from backfill.events.iceberg_source import IcebergFiles

FORMATS = ("parquet", "csv", "json", "access_log", "delta", "iceberg", "table", "kafka")

_OURS_TO_SET = frozenset(
    {
        "basepath",
        "ignorecorruptfiles",
        "ignoremissingfiles",
        "mergeschema",
        "modifiedafter",
        "modifiedbefore",
        "path",
        "pathglobfilter",
        "paths",
        "recursivefilelookup",
        "timezone",
    }
)


def open_source(spark: SparkSession, source: SourceOptions, late: Sequence[str] = ()) -> Source:
    """List the source's files, find its schema, and give its rows as a frame.

    Exactly the files that are there now are read, however late the frame is computed. Files that
    cannot be read show here if finding out is cheap (missing, empty, not Parquet, not gzip); others
    show when the frame is computed: `spark_errors` translates those errors.

    Args:
        spark: a session, classic or Spark Connect.
        source: where the events are, and how they are read.
        late: further paths of late events, absolute: files, folders or globs. They are read as
            the source is, with its schema; files that are the source's own are read once.

    Raises:
        SourceError: the source is missing, empty or unreadable, its files do not fit together, it
            has features or options that are not applied, or columns with reserved names.
    """
    if source.parts:
        if late:
            raise SourceError(
                "can't be given to a job with several sources: it is unknown whose columns they "
                "have",
                field="late",
                value=shown(late[0]),
                way_out="Put the files into the folder of their source; they are found there",
            )
        return of_several(
            {name: _open_part(spark, name, part) for name, part in source.parts.items()}
        )
    if source.format not in FORMATS:
        raise SourceError(
            "there is no such format",
            field="source.format",
            value=source.format,
            way_out=did_you_mean(source.format, FORMATS),
        )
    _check_options(source)
    if late and source.format in ("delta", "kafka", *NAMED):
        way_out = "Append them to the source"
        raise SourceError(
            f"late events of a source of format {source.format} are added to it, not given as "
            "files",
            field="late",
            value=shown(late[0]),
            way_out="backfill pull copies them" if source.format == "kafka" else way_out,
        )
    with spark_errors():
        opened = _open(spark, source, late)
        _ = opened.frame.schema  # A Connect client looks at the files when it is asked for this.
        return opened


def _open_part(spark: SparkSession, name: str, source: SourceOptions) -> Source:
    try:
        return open_source(spark, source)
    except SourceError as error:
        raise error.within(f"sources.{name}") from error


def _open(spark: SparkSession, source: SourceOptions, late: Sequence[str]) -> Source:
    if source.format == "table":
        return _open_table(spark, source.path)
    settings = {
        "timeZone": source.timezone,
        "ignoreCorruptFiles": "false",
        "ignoreMissingFiles": "false",
    }
    if source.format == "iceberg":
        return _open_iceberg(spark, source, settings)
    if source.format == "delta":
        return _open_delta(spark, source.path, settings)
    if source.format == "kafka":
        return _open_kafka(spark, source, settings)
    return open_files(spark, source, list_source(spark, source, late), settings)


def _open_table(spark: SparkSession, name: str) -> Source:
    rows = spark.table(name)
    refuse_our_names(rows.columns)

    def read(_: tuple[InputFile, ...], where: Column | None) -> DataFrame:
        return whole_rows(rows, rows.columns, F.lit(name), where)

    return Source(read((), None), Snapshot("table", (), None, rows.schema.toDDL()), read)


def _open_delta(spark: SparkSession, path: str, settings: Mapping[str, str]) -> Source:
    table = open_delta(path)
    settings = {**settings, "basePath": base_path(path)}

    def read(files: tuple[InputFile, ...], where: Column | None) -> DataFrame:
        return read_delta(spark, table, settings, files, where)

    return replace(
        _of_table("delta", table, read, lambda since: rewrites(path, since, table.version)),
        folders=table.folders,
        statistics=table.statistics,
    )


def _open_kafka(spark: SparkSession, source: SourceOptions, settings: Mapping[str, str]) -> Source:
    check_copied(source.path)
    schema = given_schema(source)
    if schema is None:
        raise SourceError("the fields of the records' values are not known", field="source.schema")
    records = _open_delta(spark, source.path, settings)
    check_records([name for name in records.frame.columns if name not in OURS], source.path)
    return of_records(records, schema, source.timezone)


def _open_iceberg(
    spark: SparkSession, source: SourceOptions, settings: Mapping[str, str]
) -> Source:
    try:
        from backfill.events.iceberg_source import open_iceberg, read_iceberg
    except ImportError as error:
        raise SourceError(
            f"Iceberg tables need a library that is missing: {error.name}",
            field="source.format",
            value=source.format,
            way_out="pip install 'backfill[iceberg]'",
        ) from error
    table = open_iceberg(source)

    def read(files: tuple[InputFile, ...], where: Column | None) -> DataFrame:
        return read_iceberg(spark, table, settings, files, where)

    return _of_table("iceberg", table, read, table.rewrites)


def _of_table(
    format: str,
    table: DeltaFiles | IcebergFiles,
    read: Read,
    rewrites: Callable[[int], tuple[Rewrite, ...]],
) -> Source:
    """The source of a table whose log says which files it has."""
    refuse_our_names(table.schema.names)
    snapshot = Snapshot(format, table.files, table.version, table.schema.toDDL())
    return Source(read(table.files, None), snapshot, read, rewrites=rewrites)


def _check_options(source: SourceOptions) -> None:
    """Refuses options that cannot be set, by name and never by value, which may be a secret."""
    if source.format == "kafka":
        return  # They are options of the client, not of a reader.
    if source.format in ("access_log", "delta", *NAMED):
        if source.schema is not None:
            raise SourceError(f"{source.format} has its own schema", field="source.schema")
        for name in source.options if source.format != "iceberg" else ():
            raise SourceError(f"{source.format} takes no options", field=f"source.options.{name}")
    for name in source.options:
        if name.lower() in _OURS_TO_SET:
            raise SourceError(
                "this option cannot be set: it would change which files are read or how they fit "
                "together",
                field=f"source.options.{name}",
                way_out="Choose files by a glob in source.path, the zone by events.timezone",
            )

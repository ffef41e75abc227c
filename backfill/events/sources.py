"""Opening a source: what is there is listed, checked and fixed, then read lazily."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from backfill.columns import column
from backfill.errors import SourceError, did_you_mean
from backfill.events import access_log
from backfill.events.delta_source import open_delta, read_delta
from backfill.events.failures import spark_errors
from backfill.events.files import base_path, for_spark, list_files, local_path, place
from backfill.events.model import (
    CORRUPT,
    OURS,
    SOURCE,
    InputFile,
    Snapshot,
    Source,
    SourceOptions,
    no_line,
)
from backfill.events.parquet import check_footers
from backfill.events.text import infer_schema, read_text, text_options

FORMATS = ("parquet", "csv", "json", "access_log", "delta", "table")

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


def open_source(spark: SparkSession, source: SourceOptions) -> Source:
    """List the source's files, find its schema, and give its rows as a frame.

    Exactly the files that are there now are read, however late the frame is computed. Files that
    cannot be read show here where that is cheap (missing, empty, no Parquet, no gzip); others
    when the frame is computed: `spark_errors` tells those.

    Args:
        spark: a session, classic or Spark Connect.
        source: where and how.

    Raises:
        SourceError: the source is missing, empty or unreadable, its files do not fit together, it
            has features or options that are not applied, or columns with names of ours.
    """
    if source.format not in FORMATS:
        raise SourceError(
            "there is no such format",
            field="source.format",
            value=source.format,
            way_out=did_you_mean(source.format, FORMATS),
        )
    _check_options(source)
    with spark_errors():
        opened = _open(spark, source)
        added = {CORRUPT, SOURCE, *opened.arrival}
        _refuse_our_names([n for n in opened.frame.columns if n not in added])
    return opened


def _open(spark: SparkSession, source: SourceOptions) -> Source:
    if source.format == "table":
        rows = spark.table(source.path)
        schema = rows.schema
        return Source(
            _whole_rows(rows, F.lit(source.path)), Snapshot("table", (), None, schema.toDDL())
        )
    settings = {
        "timeZone": source.timezone,
        "ignoreCorruptFiles": "false",
        "ignoreMissingFiles": "false",
        "basePath": base_path(source.path),
    }
    if source.format == "delta":
        table = open_delta(source.path)
        _refuse_our_names(table.schema.names)
        snapshot = Snapshot("delta", table.files, table.version, table.schema.toDDL())
        return Source(read_delta(spark, table, settings), snapshot)
    files = list_files(spark, source.path)
    if source.format == "parquet":
        return _open_parquet(spark, source, files, settings)
    _check_compression(files)
    if source.format == "access_log":
        frame = access_log.read_access_log(spark, files)
        snapshot = Snapshot("access_log", files, None, access_log.SCHEMA)
        return Source(frame, snapshot, access_log.ARRIVAL)
    options = text_options(source.format, source.options)
    schema = _given_schema(source) or infer_schema(spark, source.format, files, options)
    _refuse_our_names(schema.names)
    frame = read_text(spark, source.format, files, schema, options, settings)
    return Source(frame, Snapshot(source.format, files, None, schema.toDDL()))


def _open_parquet(
    spark: SparkSession,
    source: SourceOptions,
    files: tuple[InputFile, ...],
    settings: Mapping[str, str],
) -> Source:
    schema = _given_schema(source)
    check_footers(files, schema.names if schema else None)
    reader = spark.read.options(**source.options).options(**settings)
    if schema is not None:
        reader = reader.schema(schema)
    elif any(local_path(file.path) is None for file in files):
        # Footers of other file systems were not compared: Spark unites them, or refuses to.
        reader = reader.option("mergeSchema", "true")
    rows = reader.parquet(*for_spark(files))
    _refuse_our_names(rows.columns)
    snapshot = Snapshot("parquet", files, None, rows.schema.toDDL())
    return Source(_whole_rows(rows, place()), snapshot)


def _whole_rows(rows: DataFrame, where: Column) -> DataFrame:
    own = [column(name) for name in rows.columns]
    return rows.select(*own, no_line().alias(CORRUPT), where.alias(SOURCE))


def _check_options(source: SourceOptions) -> None:
    """Refuse by name, never by value (it may be a secret), what cannot be set."""
    if source.format in ("access_log", "delta", "table"):
        if source.schema is not None:
            raise SourceError(f"{source.format} has its own schema", field="source.schema")
        for name in source.options:
            raise SourceError(f"{source.format} takes no options", field=f"source.options.{name}")
    for name in source.options:
        if name.lower() in _OURS_TO_SET:
            raise SourceError(
                "this option cannot be set: it would change which files are read or how they fit "
                "together",
                field=f"source.options.{name}",
                way_out="Choose files by a glob in source.path, the zone by events.timezone",
            )


def _given_schema(source: SourceOptions) -> StructType | None:
    if source.schema is None:
        return None
    try:
        schema = StructType.fromDDL(source.schema)
    except Exception as error:  # which one depends on the version and on Spark Connect
        raise SourceError(
            "Spark cannot read this as a schema",
            field="source.schema",
            value=source.schema,
            way_out='Write it as in "user_id string, amount decimal(12,2)"',
        ) from error
    assert isinstance(schema, StructType)
    return schema


def _check_compression(files: tuple[InputFile, ...]) -> None:
    """Compare the first two bytes of local files with their names: Spark goes by the name.

    A gzip that is cut off or damaged further on shows when Spark reads it; to look for that here
    would be to read the source twice.
    """
    for file in files:
        if local_path(file.path) is None or not file.size:
            continue
        try:
            with open(file.path, "rb") as stream:
                gzip = stream.read(2) == b"\x1f\x8b"
        except OSError as error:
            raise SourceError(f"cannot be read: {error.strerror}", field=file.path) from error
        if gzip != file.path.endswith(".gz"):
            is_one = "is a gzip file and its name" if gzip else "is no gzip file but its name"
            raise SourceError(
                f"the file {is_one} {'does not end' if gzip else 'ends'} in .gz",
                field=file.path,
                way_out="Rename it, or take it out of the source",
            )


def _refuse_our_names(names: Sequence[str]) -> None:
    for name in names:
        if name in OURS:
            raise SourceError(
                "a column has a name that is kept for our own",
                field="source",
                value=name,
                way_out="Rename it in the source",
            )

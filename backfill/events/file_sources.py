"""Sources that are files: Parquet, CSV, JSON lines and access logs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from backfill.columns import column
from backfill.errors import SourceError
from backfill.events import access_log
from backfill.events.files import for_spark, local_path, place
from backfill.events.listing import Listing
from backfill.events.model import (
    CORRUPT,
    SOURCE,
    InputFile,
    Snapshot,
    Source,
    SourceOptions,
    refuse_our_names,
    whole_rows,
)
from backfill.events.parquet import as_on_spark, check_footers
from backfill.events.table_files import rows_by_file
from backfill.events.text import infer_schema, read_text, text_options
from backfill.runtimes.differences import nullable, runtime_of
from backfill.runtimes.folder_columns import FolderValues, check_names, folder_values, inferred
from backfill.session_conf import local_listing


def open_files(
    spark: SparkSession,
    source: SourceOptions,
    listings: tuple[Listing, ...],
    settings: Mapping[str, str],
) -> Source:
    """The source of these files.

    Args:
        spark: the session.
        source: how they are read.
        listings: the files; the schema is that of the first listing.
        settings: for Spark's readers of every format.

    Raises:
        SourceError: a file is not what its name says, or files do not fit together.
    """
    if source.format == "parquet":
        return _open_parquet(spark, source, listings, settings)
    _check_compression(_files(listings))
    if source.format == "access_log":
        return _open_access_log(spark, listings)
    return _open_text(spark, source, listings, settings)


def _open_access_log(spark: SparkSession, listings: tuple[Listing, ...]) -> Source:
    def read(files: tuple[InputFile, ...], where: Column | None) -> DataFrame:
        with _looking_at(spark, files):
            rows = access_log.read_access_log(spark, files)
        return rows if where is None else rows.where(where)

    files = _files(listings)
    snapshot = Snapshot("access_log", files, None, access_log.SCHEMA)
    return Source(read(files, None), snapshot, read, access_log.ARRIVAL)


def _open_parquet(
    spark: SparkSession,
    source: SourceOptions,
    listings: tuple[Listing, ...],
    settings: Mapping[str, str],
) -> Source:
    given = given_schema(source)
    files = _files(listings)
    check_footers(files, given.names if given else None, listings[0].columns)

    def scan(listing: Listing, schema: StructType | None) -> DataFrame:
        reader = spark.read.options(**source.options).options(**settings)
        reader = reader.options(**_base(listing))
        if schema is not None:
            reader = reader.schema(schema)
        elif _remote(listing.files):
            # Footers on other file systems were not compared: Spark merges them, or refuses to.
            reader = reader.option("mergeSchema", "true")
        with _looking_at(spark, listing.files):
            return reader.parquet(*for_spark(listing.files))

    if not runtime_of(spark).names_files:
        return _by_file(spark, source, listings, given)
    own = scan(listings[0], given)
    schema = own.schema
    refuse_our_names(schema.names)

    def rows(listing: Listing, where: Column | None) -> DataFrame:
        scanned = own if listing == listings[0] else scan(listing, schema)
        return whole_rows(scanned, schema.names, place(), where)

    return _of_files(source.format, listings, schema.toDDL(), rows)


def _by_file(
    spark: SparkSession,
    source: SourceOptions,
    listings: tuple[Listing, ...],
    given: StructType | None,
) -> Source:
    """Parquet files, if the runtime does not say which file a row comes from."""

    def scan(paths: Sequence[str], schema: StructType | None) -> DataFrame:
        reader = spark.read.options(**source.options)
        return (reader if schema is None else reader.schema(schema)).parquet(*paths)

    def values(listing: Listing) -> dict[str, FolderValues]:
        return {file.path: folder_values(file.path, listing.base) for file in listing.files}

    first = listings[0]
    check_names((file.path for file in first.files), spark)
    folders = values(first) if first.columns else {}
    if given is None:
        file_schema = as_on_spark(scan([first.files[0].path], None).schema, first.files[0].path)
        given = StructType([field for field in file_schema if field.name not in first.columns])
    schema = nullable(given)
    for name in first.columns:
        if name not in schema.names:
            kind = inferred(folder[name] for folder in folders.values())
            if kind is None:
                raise SourceError(
                    "the type of a column that comes from the names of folders is not known",
                    field="source.schema",
                    value=name,
                    way_out=f"Name it with its type in source.schema, such as {name} string",
                )
            schema.add(name, kind)
    refuse_our_names(schema.names)

    def rows(listing: Listing, where: Column | None) -> DataFrame:
        inside = values(listing) if listing.columns else {}
        return rows_by_file(spark, listing.files, inside, schema, scan, where)

    return _of_files(source.format, listings, schema.toDDL(), rows)


def _open_text(
    spark: SparkSession,
    source: SourceOptions,
    listings: tuple[Listing, ...],
    settings: Mapping[str, str],
) -> Source:
    options = text_options(source.format, source.options)
    given = given_schema(source)
    schema = given or infer_schema(spark, source.format, listings[0].files, options)
    refuse_our_names(schema.names)

    def scan(listing: Listing, schema: StructType) -> DataFrame:
        base = {**settings, **_base(listing)}
        with _looking_at(spark, listing.files):
            return read_text(spark, source.format, listing.files, schema, options, base)

    own = scan(listings[0], schema)
    folders = [f for f in own.schema if f.name not in (*schema.names, CORRUPT, SOURCE)]

    def rows(listing: Listing, where: Column | None) -> DataFrame:
        frame = own
        if listing != listings[0]:
            absent = set(listings[0].columns) - set(listing.columns)
            held = [field for field in (*schema, *folders) if field.name not in absent]
            frame = _like(own, scan(listing, StructType(held)), absent)
        return frame if where is None else frame.where(where)

    return _of_files(source.format, listings, schema.toDDL(), rows)


def _remote(files: tuple[InputFile, ...]) -> bool:
    return any(local_path(file.path) is None for file in files)


def _looking_at(spark: SparkSession, files: tuple[InputFile, ...]) -> AbstractContextManager[None]:
    """For use while Spark looks at the files to read: it lists even many local ones quickly."""
    return nullcontext() if _remote(files) else local_listing(spark)


def _like(own: DataFrame, rows: DataFrame, absent: Collection[str]) -> DataFrame:
    """Rows with the columns of the source's own rows; absent ones are NULL."""
    return rows.select(
        *(
            F.lit(None).cast(field.dataType).alias(field.name)
            if field.name in absent
            else column(field.name)
            for field in own.schema
        )
    )


def _of_files(
    format: str,
    listings: tuple[Listing, ...],
    schema: str,
    rows: Callable[[Listing, Column | None], DataFrame],
) -> Source:
    """The source of these files; `rows` reads some of the files of one listing."""

    def read(files: tuple[InputFile, ...], where: Column | None) -> DataFrame:
        wanted = set(files)
        parts = (
            replace(listing, files=tuple(file for file in listing.files if file in wanted))
            for listing in listings
        )
        return reduce(DataFrame.unionAll, [rows(part, where) for part in parts if part.files])

    files = _files(listings)
    folders = {
        file.path: folder_values(file.path, listing.base)
        for listing in listings
        if listing.columns
        for file in listing.files
    }
    return Source(read(files, None), Snapshot(format, files, None, schema), read, folders=folders)


def _files(listings: tuple[Listing, ...]) -> tuple[InputFile, ...]:
    files = [file for listing in listings for file in listing.files]
    return tuple(sorted(files, key=lambda file: file.path))


def _base(listing: Listing) -> dict[str, str]:
    """The option basePath; none if no folder is a column, since the files may be anywhere then."""
    return {"basePath": listing.base} if listing.columns else {}


def given_schema(source: SourceOptions) -> StructType | None:
    """What `source.schema` says.

    Raises:
        SourceError: it is not a schema.
    """
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
    """Compares the first two bytes of local files with their names: Spark goes by the name.

    A gzip file that is cut off or damaged further on shows when Spark reads it; looking for that
    here would mean reading the source twice.
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
            is_one = "is a gzip file, but its name" if gzip else "is not a gzip file, but its name"
            raise SourceError(
                f"the file {is_one} {'does not end' if gzip else 'ends'} in .gz",
                field=file.path,
                way_out="Rename it, or remove it from the source",
            )

"""A job's source as a stream: its files in the order in which they were last changed."""

from __future__ import annotations

import os
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from backfill.errors import SourceError
from backfill.events import Source, SourceOptions
from backfill.events.files import base_path, for_spark, local_path
from backfill.events.model import CORRUPT, FILE, SOURCE, InputFile
from backfill.events.several import named
from backfill.events.text import checked, reading, text_options, with_corrupt

STREAMED = ("parquet", "csv", "json")
# Options of Spark's streaming reader that would lose, delete or reorder files of the source.
_OURS_TO_SET = frozenset(
    {
        "cleansource",
        "filenameonly",
        "latestfirst",
        "maxbytespertrigger",
        "maxcachedfiles",
        "maxfileage",
        "maxfilespertrigger",
        "sourcearchivedir",
    }
)


def check_streamed(source: SourceOptions) -> None:
    """Refuses what can't be read as a stream.

    Raises:
        SourceError: the source is not files, or is lines whose numbers need the whole file; or it
            has an option that would change which files are read.
    """
    for name, part in source.parts.items():
        try:
            check_streamed(part)
        except SourceError as error:
            raise error.within(f"sources.{name}") from None
    if source.parts:
        return
    if source.format not in STREAMED:
        raise SourceError(
            "can't be read as a stream of files",
            field="source.format",
            value=source.format,
            way_out=f"Formats that can be streamed: {', '.join(STREAMED)}",
        )
    for name in source.options:
        if name.lower() in _OURS_TO_SET:
            raise SourceError(
                "this option can't be used for a stream: it would change which files are read",
                field=f"source.options.{name}",
                way_out="Use --files-per-batch to limit the files of a batch",
            )


def read_stream(
    spark: SparkSession, options: SourceOptions, source: Source, files_per_batch: int | None
) -> DataFrame:
    """The rows of the files that are there and of those that arrive.

    Args:
        spark: the session.
        options: where the source is and how it is read.
        source: the same, opened: the stream has its columns and types.
        files_per_batch: no batch reads more files; None: each reads all that are there.

    Returns:
        A streaming frame with the source's own columns and, for text, `_corrupt`.
    """
    if source.parts:
        # Files of different sources have no common order.
        parts = (
            named(
                name,
                read_stream(spark, options.parts[name], part, files_per_batch),
                source.frame.schema.fields,
            )
            for name, part in source.parts.items()
        )
        return reduce(DataFrame.unionAll, parts)
    own = StructType([f for f in source.frame.schema if f.name not in (CORRUPT, SOURCE, FILE)])
    folders = next(iter(source.folders.values()), {})
    settings = {
        "timeZone": options.timezone,
        "ignoreCorruptFiles": "false",
        "ignoreMissingFiles": "false",
        # A file that was copied with its old time is read all the same.
        "maxFileAge": "36500d",
    }
    if folders:
        settings["basePath"] = base_path(options.path)
    else:
        settings["recursiveFileLookup"] = "true"
    if files_per_batch is not None:
        settings["maxFilesPerTrigger"] = str(files_per_batch)
    path = _for_spark(options.path)
    reader = spark.readStream.format(options.format)
    if options.format == "parquet":
        return reader.schema(own).options(**options.options).options(**settings).load(path)
    text = reading(options.format, text_options(options.format, options.options))
    rows = reader.schema(with_corrupt(own)).options(**text).options(**settings).load(path)
    return checked(rows, [name for name in own.names if name not in folders])


def _for_spark(path: str) -> str:
    """The path, escaped if what looks like a glob is a name."""
    local = local_path(path)
    if local is None or not os.path.exists(local):
        return path
    return for_spark((InputFile(local, 0, 0),))[0]

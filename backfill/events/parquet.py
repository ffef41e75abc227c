"""Parquet files: their footers are compared before Spark reads them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import types as T

from backfill.errors import SourceError, did_you_mean
from backfill.events.files import local_path
from backfill.events.model import InputFile
from backfill.runtimes.differences import nullable

_UNSIGNED = re.compile(r"Int\(bitWidth=(\d+), isSigned=false\)")
#: The types for unsigned whole numbers, by their width in bits.
_WIDER = {8: T.ShortType(), 16: T.IntegerType(), 32: T.LongType(), 64: T.DecimalType(20, 0)}


def check_footers(
    files: tuple[InputFile, ...], given: Iterable[str] | None, folders: Collection[str] = ()
) -> None:
    """Refuse files that Spark could not read, or would silently fill with NULLs.

    Spark takes the schema of one file and reads columns that another does not have as NULL. So
    local files must have equal columns (order aside), unless `source.schema` says which columns
    are wanted: then a column that a file lacks is NULL there, as the user asked.

    Args:
        files: files of the source; those on other file systems are left to Spark.
        given: the names of the columns in `source.schema`, or None.
        folders: columns whose values come from folders, whether or not a file has them too.

    Raises:
        SourceError: names the file, and the column.
    """
    local = [file.path for file in files if local_path(file.path) is not None]
    with ThreadPoolExecutor(8) as pool:
        columns = dict(zip(local, pool.map(_columns, local), strict=True))
    if not columns:
        return
    if given is not None:
        tops = {path.split(".")[0] for kinds in columns.values() for path in kinds}
        for name in given:
            if name not in tops and name not in folders and "." not in name:
                raise SourceError(
                    "no file has this column",
                    field="source.schema",
                    value=name,
                    way_out=did_you_mean(name, tops),
                )
        return
    first, wanted = next(iter(columns.items()))
    for path, kinds in columns.items():
        for name in sorted((wanted.keys() | kinds.keys()) - set(folders)):
            if wanted.get(name) != kinds.get(name):
                raise SourceError(
                    f"column {name!r} is {kinds.get(name, 'absent')} here and "
                    f"{wanted.get(name, 'absent')} in {first}",
                    field=path,
                    way_out="List the columns that you need in source.schema (those that a file "
                    "lacks are NULL there), or write the files with one schema",
                )


def as_on_spark(schema: T.StructType, path: str) -> T.StructType:
    """The schema of a file, nullable, with Spark's types even where Sail finds others.

    Timestamps of the older kind, INT96, are instants: that is what Spark means, which writes them
    by default; Sail 0.7.2 takes them for times without a zone. Unsigned whole numbers get a type
    that holds them all.

    Args:
        schema: the schema of all the file's columns, in their order, as a runtime has found it.
        path: the file, on the local disk.

    Raises:
        SourceError: it is not known which columns have these types.
    """
    footer = pq.read_metadata(path).schema
    types: dict[int, T.DataType] = {}
    for n in range(len(footer)):
        column = footer.column(n)
        unsigned = _UNSIGNED.fullmatch(str(column.logical_type))
        if column.physical_type == "INT96":
            types[n] = T.TimestampType()
        elif unsigned:
            types[n] = _WIDER[int(unsigned[1])]
    numbers = count()
    spark_schema = nullable(schema, lambda type: types.get(next(numbers), type))
    if types and next(numbers) != len(footer):
        raise SourceError(
            "the file has INT96 timestamps or unsigned numbers, but it is not known in which "
            "columns",
            field=path,
            way_out="List the columns with their types in source.schema",
        )
    return spark_schema


def _columns(path: str) -> dict[str, str]:
    """The type of each leaf column, as far as Spark distinguishes types."""
    try:
        schema = pq.read_metadata(path).schema
    except PermissionError as error:
        raise SourceError("may not be read", field=path, way_out="Check its permissions") from error
    except (pa.ArrowException, OSError) as error:
        raise SourceError(
            "not a readable Parquet file",
            field=path,
            way_out="Fetch it again, or remove it from the source",
        ) from error
    kinds = {}
    for index in range(len(schema)):
        leaf = schema.column(index)
        logical = str(leaf.logical_type)
        if leaf.physical_type == "INT96" or "isAdjustedToUTC=true" in logical:
            kind = "timestamp"  # of any unit: Spark reads each file by its own
        elif "isAdjustedToUTC=false" in logical and "Timestamp" in logical:
            kind = "timestamp_ntz"
        else:
            kind = re.sub(r"^None$", "", logical) or leaf.physical_type
        if "nanoseconds" in logical:
            raise SourceError(
                f"column {leaf.path!r} has times in nanoseconds, which Spark cannot read",
                field=path,
                way_out="Write it with microseconds",
            )
        kinds[leaf.path] = kind
    return kinds

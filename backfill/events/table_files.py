"""The rows of files, if the runtime does not say which file a row comes from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from backfill.events.model import SOURCE, InputFile, whole_rows
from backfill.runtimes.folder_columns import FolderValues, check_names, with_folder_values


def rows_by_file(
    spark: SparkSession,
    files: Sequence[InputFile],
    values: Mapping[str, FolderValues],
    schema: StructType,
    scan: Callable[[list[str], StructType], DataFrame],
    where: Column | None,
) -> DataFrame:
    """The rows of files, each read by a scan of its own.

    Args:
        spark: the session.
        files: what is read.
        values: by a file's path, what it has from its folders instead of columns.
        schema: the schema of the rows, those columns included; every column can be NULL.
        scan: reads these columns of files.
        where: as in `Source.only`.

    Returns:
        The columns of the schema, `_corrupt` and `_source`.

    Raises:
        SetupError: the runtime may take a file's name for a pattern.
    """
    check_names((file.path for file in files), spark)
    named = [(file.path, values.get(file.path, {})) for file in files]
    rows = with_folder_values(named, schema, scan, SOURCE)
    return whole_rows(rows, schema.names, F.col(SOURCE), where)

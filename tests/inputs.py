"""Files of events in every format, and sources of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from backfill.errors import SourceError
from backfill.events import Source, SourceOptions, open_source
from tests.files import write_rows

LOG = 'h - - [17/May/2015:10:05:0{} +0000] "GET / HTTP/1.1" 200 {}\n'


def write(folder: Path, format: str, name: str, rows: list[dict[str, Any]]) -> Path:
    """Writes a file of rows; folders are part of its name."""
    return write_rows(folder / f"{name}.{format}", rows)


def opened(
    spark: SparkSession, format: str, path: Path, late: tuple[Path, ...] = (), **more: Any
) -> Source:
    options = SourceOptions(format=format, path=str(path), **more)
    return open_source(spark, options, late=[str(file) for file in late])


def check_parts(source: Source) -> None:
    """Checks that the rows of any chosen files are those that the whole frame has of them."""
    paths = [file.path for file in source.snapshot.inputs]
    whole = [tuple(row) for row in source.frame.collect()]
    place = source.frame.columns.index("_source")
    for chosen in (paths[:1], paths[1:], paths[::2], paths, []):
        part = source.only(chosen)
        assert part.schema == source.frame.schema
        expected = [row for row in whole if row[place].rsplit(":")[0] in chosen]
        assert sorted(map(str, map(tuple, part.collect()))) == sorted(map(str, expected))
    with pytest.raises(SourceError, match="absent: is not a file of the source"):
        source.only([*paths, "absent"])

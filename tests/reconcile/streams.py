"""Streams written to files and recorded ones, and what is decoded from them, in plain Python."""

from __future__ import annotations

import base64
import gzip
import json
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import types as T

from backfill.engines import ENGINES
from backfill.reconciliation.output.decoded import Decoded, StreamOptions, decode
from backfill.rows.compute import Key
from backfill.windows import AnyWindow
from tests.files import write_rows
from tests.on_sail import ON_SAIL

RECORDED = Path(__file__).parent.parent / "engines" / "recorded"
COUNT = {"events": T.LongType()}
USER = {"user": T.StringType()}
BOTH = {"events": T.LongType(), "amount": T.LongType()}


def recorded(*place: str) -> list[dict[str, Any]]:
    with gzip.open(RECORDED.joinpath(*place), "rt") as lines:
        return [json.loads(line) for line in lines]


def in_base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def readable(path: Path) -> Path:
    """The same rows as Parquet, if the runtime reads no text."""
    if not ON_SAIL or not path.is_file() or path.suffix == ".parquet":
        return path
    data = path.read_bytes()
    text = gzip.decompress(data) if path.suffix == ".gz" else data
    rows = [json.loads(line) for line in text.splitlines()]
    return write_rows(Path(_copies().name) / f"{len(rows)}-{hash(path)}.parquet", rows)


@cache
def _copies() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory()


def stream(
    spark: SparkSession,
    path: Path,
    format: str,
    window: AnyWindow,
    *,
    key: Mapping[str, T.DataType] = USER,
    aggregates: Mapping[str, T.DataType] = COUNT,
    zone: str = "UTC",
    engine: str = "plain",
    merged_by: Mapping[str, str | None] | None = None,
    **options: Any,
) -> Decoded:
    return decode(
        spark,
        StreamOptions(path=str(readable(path)), format=format, **options),
        window,
        key=Key(tuple(key), tuple(key.values())),
        aggregates=aggregates,
        engine=ENGINES[engine],
        zone=zone,
        merged_by=merged_by or {},
    )


def final(decoded: Decoded) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """The values by (key…, start, end); every window comes once."""
    windows = {}
    for row in decoded.frame.drop("_written").collect():
        keys = [row[name] for name in row.__fields__ if name.startswith("_key")]
        place = (*keys, row["_start"], row["_end"])
        assert place not in windows
        windows[place] = tuple(row)[len(place) :]
    return windows


def reasons(decoded: Decoded) -> dict[str, int]:
    counts: dict[str, int] = {}
    for row in decoded.undecoded.collect():
        assert row.source.startswith("/")
        assert row.raw
        counts[row.reason] = counts.get(row.reason, 0) + 1
    return counts

"""Which properties of its tables a job file can set."""

from __future__ import annotations

from collections.abc import Mapping

from backfill.errors import JobFileError, did_you_mean
from backfill.store.layout import CODECS, FILE_SIZES, size_in_bytes

#: Of Delta's own those that change nothing about how a table is read and committed to.
_DELTA = (
    "delta.autoOptimize.autoCompact",
    "delta.autoOptimize.optimizeWrite",
    "delta.checkpointInterval",
    "delta.checkpointPolicy",
    "delta.dataSkippingNumIndexedCols",
    "delta.dataSkippingStatsColumns",
    "delta.deletedFileRetentionDuration",
    "delta.logRetentionDuration",
    "delta.parquet.compression.codec",
    "delta.setTransactionRetentionDuration",
    "delta.targetFileSize",
    "delta.tuneFileSizesForRewrites",
)
#: Of Iceberg's those that runs rely on, by the beginnings of their names.
_OURS = ("backfill.", "format-version", "schema.name-mapping.", "write.format.")
_CODECS = ("zstd", "snappy", "gzip", "uncompressed")


def check_properties(properties: Mapping[str, str], *, iceberg: bool) -> None:
    """Checks the properties that a job file gives to its tables.

    Args:
        properties: by their names.
        iceberg: of Iceberg tables; otherwise Delta's.

    Raises:
        JobFileError: one would break what a run does, or has a value that it can't have.
    """
    for name, value in properties.items():
        field = f"properties.{name}"
        if iceberg and name.startswith(_OURS):
            raise JobFileError(
                "can't be set, since runs rely on it", field=field, way_out="Leave it out"
            )
        if not iceberg and name.startswith("delta.") and name not in _DELTA:
            raise JobFileError(
                "can't be set by a job file", field=field, way_out=did_you_mean(name, _DELTA)
            )
        if name in FILE_SIZES and not size_in_bytes(value):
            raise JobFileError(
                "must be a size", field=field, value=value, way_out="Write a size such as 134217728"
            )
        if name in CODECS and value.lower() not in _CODECS:
            raise JobFileError(
                "no such compression",
                field=field,
                value=value,
                way_out=did_you_mean(value, _CODECS),
            )

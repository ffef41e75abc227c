"""Which table properties a job file can set, and which values they can have."""

from __future__ import annotations

import re
from collections.abc import Mapping

from backfill.errors import JobFileError, did_you_mean

_WHOLE = re.compile(r"\d+"), "a whole number, such as 10"
_FLAG = re.compile(r"true|false", re.IGNORECASE), "true or false"
_BYTES = re.compile(r"[1-9]\d*"), "a number of bytes, such as 134217728"
_SIZE = re.compile(r"[1-9]\d*[kmg]?b?", re.IGNORECASE), "a size, such as 128mb"
_SPAN = re.compile(r"interval \d+ [a-z]+", re.IGNORECASE), "an interval, such as interval 30 days"
_CODEC = (
    re.compile(r"zstd|snappy|gzip|uncompressed", re.IGNORECASE),
    ("zstd, snappy, gzip or uncompressed"),
)
_TEXT = re.compile(r"(?s).*"), ""

#: Delta's own properties that change nothing about how a table is read and committed to.
_DELTA = {
    "delta.autoOptimize.autoCompact": _FLAG,
    "delta.autoOptimize.optimizeWrite": _FLAG,
    "delta.checkpointInterval": _WHOLE,
    "delta.dataSkippingNumIndexedCols": _WHOLE,
    "delta.dataSkippingStatsColumns": _TEXT,
    "delta.deletedFileRetentionDuration": _SPAN,
    "delta.logRetentionDuration": _SPAN,
    "delta.parquet.compression.codec": _CODEC,
    "delta.setTransactionRetentionDuration": _SPAN,
    "delta.targetFileSize": _SIZE,
    "delta.tuneFileSizesForRewrites": _FLAG,
}
#: Iceberg's properties that a commit reads; others are accepted with any value.
_ICEBERG = {
    "commit.manifest-merge.enabled": _FLAG,
    "commit.manifest.min-count-to-merge": _WHOLE,
    "commit.manifest.target-size-bytes": _BYTES,
    "commit.num-retries": _WHOLE,
    "commit.retry.num-retries": _WHOLE,
    "history.expire.max-snapshot-age-ms": _WHOLE,
    "history.expire.min-snapshots-to-keep": _WHOLE,
    "write.metadata.delete-after-commit.enabled": _FLAG,
    "write.metadata.previous-versions-max": _WHOLE,
    "write.parquet.compression-codec": _CODEC,
    "write.target-file-size-bytes": _BYTES,
}
#: Iceberg's properties that runs rely on, by the beginnings of their names.
_OURS = ("backfill.", "format-version", "schema.name-mapping.", "write.format.")


def check_properties(properties: Mapping[str, str], *, iceberg: bool) -> None:
    """Checks the properties that a job file gives to its tables.

    Args:
        properties: the values by name.
        iceberg: whether the tables are Iceberg tables, rather than Delta tables.

    Raises:
        JobFileError: a property would break what a run does, or has an invalid value.
    """
    known = _ICEBERG if iceberg else _DELTA
    for name, value in properties.items():
        field = f"properties.{name}"
        if iceberg and name.startswith(_OURS):
            raise JobFileError(
                "can't be set, since runs rely on it", field=field, way_out="Leave it out"
            )
        if not iceberg and name.startswith("delta.") and name not in known:
            raise JobFileError(
                "can't be set by a job file", field=field, way_out=did_you_mean(name, known)
            )
        form, said = known.get(name, _TEXT)
        if not form.fullmatch(value):
            raise JobFileError(f"must be {said}", field=field, value=value)

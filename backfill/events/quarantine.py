"""Rows that are not events, kept with their reason."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill.columns import REASON, column
from backfill.events.model import CORRUPT, OURS, SOURCE, no_line

_JSON = {
    "ignoreNullFields": "false",
    "timeZone": "UTC",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


def quarantine_rows(frame: DataFrame) -> DataFrame:
    """The rows of a normalised frame that have a reason.

    Args:
        frame: from `normalise`.

    Returns:
        `reason`; `raw`, the line that did not parse, else the source's own columns as JSON, NULLs
        included and times in UTC; `source`, the row's place in the input, or NULL if the frame
        does not have it.
    """
    own = [column(name) for name in frame.columns if name not in OURS]
    raw = F.to_json(F.struct(*own), _JSON)
    if CORRUPT in frame.columns:
        raw = F.coalesce(F.col(CORRUPT), raw)
    source = F.col(SOURCE) if SOURCE in frame.columns else no_line()
    rows = frame.filter(F.col(REASON).isNotNull())
    return rows.select(F.col(REASON).alias("reason"), raw.alias("raw"), source.alias("source"))

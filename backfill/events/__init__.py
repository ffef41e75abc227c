"""From a source to events: read, normalise, quarantine."""

from backfill.events.bounds import time_bounds
from backfill.events.digests import digest, digests
from backfill.events.failures import spark_errors, translate
from backfill.events.model import NAMED, InputFile, Rewrite, Snapshot, Source, SourceOptions
from backfill.events.normalise import REASONS, EventRules, check_column, normalise
from backfill.events.pushdown import time_condition, within
from backfill.events.quarantine import quarantine_rows
from backfill.events.several import NAME, check_parts
from backfill.events.sources import FORMATS, open_source
from backfill.events.times import time_column
from backfill.time.zone_names import check_zone
from backfill.time.zones import from_local, to_local

__all__ = [
    "FORMATS",
    "NAME",
    "NAMED",
    "REASONS",
    "EventRules",
    "InputFile",
    "Rewrite",
    "Snapshot",
    "Source",
    "SourceOptions",
    "check_column",
    "check_parts",
    "check_zone",
    "digest",
    "digests",
    "from_local",
    "normalise",
    "open_source",
    "quarantine_rows",
    "spark_errors",
    "time_bounds",
    "time_column",
    "time_condition",
    "to_local",
    "translate",
    "within",
]

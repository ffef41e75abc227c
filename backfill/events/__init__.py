"""From a source to events: read, normalise, quarantine."""

from backfill.events.failures import spark_errors, translate
from backfill.events.model import InputFile, Snapshot, Source, SourceOptions
from backfill.events.normalise import REASONS, EventRules, normalise
from backfill.events.quarantine import quarantine_rows
from backfill.events.sources import FORMATS, open_source
from backfill.events.times import time_column
from backfill.events.zones import check_zone, from_local, to_local

__all__ = [
    "FORMATS",
    "REASONS",
    "EventRules",
    "InputFile",
    "Snapshot",
    "Source",
    "SourceOptions",
    "check_zone",
    "from_local",
    "normalise",
    "open_source",
    "quarantine_rows",
    "spark_errors",
    "time_column",
    "to_local",
    "translate",
]

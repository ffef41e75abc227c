"""Where results live: embedded Delta tables, written by Spark, committed without it."""

from backfill.tables.clean import Cleaned
from backfill.tables.delta import DeltaStore
from backfill.tables.live import LiveFile
from backfill.tables.lookup import look_up
from backfill.tables.staging import APART, StagedFile, StagedFiles

__all__ = ["APART", "Cleaned", "DeltaStore", "LiveFile", "StagedFile", "StagedFiles", "look_up"]

"""Where results live: embedded Delta tables, written by Spark, committed without it."""

from backfill.store.delta.clean import Cleaned
from backfill.store.delta.live import LiveFile
from backfill.store.delta.lookup import look_up
from backfill.store.delta.staging import APART, StagedFile, StagedFiles
from backfill.store.delta.store import DeltaStore

__all__ = ["APART", "Cleaned", "DeltaStore", "LiveFile", "StagedFile", "StagedFiles", "look_up"]

"""Keeps a job's tables small and tidy; what can be read from them stays the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession

from backfill.errors import JobFileError
from backfill.store import Cleaned, Store
from backfill.time.durations import Fixed, fixed


@dataclass(frozen=True)
class Kept:
    """What was done to a table.

    Attributes:
        removed: what killed runs had left.
        compacted: the version that compacted small files; None if there was nothing to do.
    """

    removed: Cleaned
    compacted: int | None


def clean(
    spark: SparkSession,
    store: Store,
    tables: Mapping[str, tuple[str, ...]],
    *,
    older_than: object,
    run_id: str,
) -> dict[str, Kept]:
    """Deletes what killed runs left, and compacts the files of many small runs.

    Args:
        spark: the session that compacts.
        store: the job's tables.
        tables: their names, and the order of the rows within their files.
        older_than: a duration, such as "24h". Files written since are spared: they may be of a run
            that is under way.
        run_id: the run id of the commits that compact.

    Raises:
        WindowError: `older_than` is not a duration of fixed length.
        JobFileError: it is negative.
        TableError: a table can't be read, or a run published meanwhile.
    """
    seconds = age(older_than).us / 1_000_000
    done = {}
    for name, order in tables.items():
        removed = store.clean(name, older_than_s=seconds)
        exists = store.open(name) is not None
        compacted = store.compact(spark, name, run_id=run_id, sort_by=order) if exists else None
        done[name] = Kept(removed, compacted)
    return done


def age(older_than: object) -> Fixed:
    """How old the leftovers of runs must be to be deleted.

    Raises:
        WindowError: it is not a duration of fixed length.
        JobFileError: it is negative.
    """
    duration = fixed(older_than, field="older_than")
    if duration.us < 0:
        raise JobFileError("must not be negative", field="older_than", value=str(duration))
    return duration

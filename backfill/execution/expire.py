"""Dropping the windows that ended before the limit of retention."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from backfill.errors import JobFileError
from backfill.execution.edges import with_edges_apart
from backfill.ledger.record import Record
from backfill.ledger.state import State, states
from backfill.spec import JobSpec
from backfill.store import DeltaStore
from backfill.time.dates import Dates

_DAY = dt.timedelta(days=1)


@dataclass(frozen=True)
class Expired:
    """What was done to a table.

    Attributes:
        rows: the windows that were dropped.
        before: the instant (µs) before which they had ended.
        version: that the commit made; None where nothing was to be dropped.
    """

    rows: int
    before: int
    version: int | None


def expire(
    spark: SparkSession,
    store: DeltaStore,
    spec: JobSpec,
    *,
    run_id: str,
    metadata: Mapping[str, str],
) -> dict[str, Expired]:
    """Drops, of every published window, the rows that ended longer ago than the retention.

    The limit counts back from the table's horizon. Dates stay covered, and the events that made
    the rows stay counted.

    Args:
        spark: the session that rewrites files which hold other rows besides.
        store: the job's tables.
        spec: the job.
        run_id: of the commits.
        metadata: kept with them.

    Raises:
        JobFileError: the job has no retention.
        TableError: a table is stale, or another run published meanwhile.
    """
    if spec.retention_us is None:
        raise JobFileError(
            "is not set, so nothing expires",
            field="retention",
            way_out="Set it in the job file, such as retention: 180d",
        )
    done = {}
    for state in states(spec, store, spec.windows):
        if state.version is None or state.settled.horizon is None:
            continue
        limit = state.settled.horizon - spec.retention_us
        done[state.name] = _expire(spark, store, spec, state, limit, run_id, metadata)
    return done


def _expire(
    spark: SparkSession,
    store: DeltaStore,
    spec: JobSpec,
    state: State,
    limit: int,
    run_id: str,
    metadata: Mapping[str, str],
) -> Expired:
    name, version, home = state.name, state.version, spec.path.parent
    files = [
        each
        for each in store.live(name, version=version)
        if each.minimum.get("window_end", limit - 1) < limit
    ]
    if not files:
        return Expired(0, limit, None)
    # Files all of whose rows have ended need not be read.
    mixed = [each.path for each in files if each.maximum.get("window_end", limit) >= limit]
    rows = store.read(spark, name, version=version, files=mixed or None)
    lasting = rows.where(F.unix_micros("window_end") >= limit)
    if not mixed:
        lasting = lasting.limit(0)
    kept = store.stage(
        name,
        with_edges_apart(lasting, spec.windows[name].window, spec.engine, spec.timezone),
        run_id=run_id,
        partition_by=("date",),
        sort_by=(*spec.key, "window_start"),
    )
    try:
        dropped = sum(each.rows for each in files) - kept.rows
        if not dropped:
            return Expired(0, limit, None)

        def record(before: dict[str, Any] | None) -> dict[str, Any]:
            base = state.settled if before is None else Record.from_json(before, home)
            return replace(base, expired=max(limit, base.expired or limit)).json(home)

        days = [each.minimum["date"] for each in files]
        made = store.publish(
            name,
            kept,
            replace=[each.path for each in files],
            base=version,
            dates=list(Dates.of((each, each + _DAY) for each in days).ranges),
            metadata={**metadata, "rows": str(kept.rows), "changed": str(dropped)},
            record=record,
        )
    finally:
        store.discard(kept)
    return Expired(dropped, limit, made)

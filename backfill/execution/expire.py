"""Dropping the windows that ended before the limit of retention."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from backfill.execution.date_edges import with_edges_apart
from backfill.kinds import row_order, times_of
from backfill.ledger.record import Record
from backfill.ledger.state import State, states
from backfill.planning.expiry import plan_expiry
from backfill.planning.stages import ExpireStage
from backfill.spec import JobSpec
from backfill.store import Store


@dataclass(frozen=True)
class Expired:
    """What was done to a table.

    Attributes:
        rows: how many windows were dropped.
        before: the instant (µs) before which they had ended.
        version: the version that the commit made; None if there was nothing to drop.
    """

    rows: int
    before: int
    version: int | None


def expire(
    spark: SparkSession,
    store: Store,
    spec: JobSpec,
    *,
    run_id: str,
    metadata: Mapping[str, str],
) -> dict[str, Expired]:
    """Drops the windows that ended longer ago than the retention, from every window's table.

    The limit counts back from the table's horizon. Dates stay covered, and the events that made
    the rows stay counted.

    Args:
        spark: the session that rewrites files that also hold other rows.
        store: the job's tables.
        spec: the job.
        run_id: the run id of the commits.
        metadata: stored with the commits.

    Raises:
        JobFileError: the job has no retention.
        TableError: a table is stale, or another run published meanwhile.
    """
    tables = {state.name: state for state in states(spec, store, spec.windows)}
    return {
        stage.table: _expire(spark, store, spec, tables[stage.table], stage, run_id, metadata)
        for stage in plan_expiry(spec, tables.values())
    }


def _expire(
    spark: SparkSession,
    store: Store,
    spec: JobSpec,
    state: State,
    stage: ExpireStage,
    run_id: str,
    metadata: Mapping[str, str],
) -> Expired:
    name, limit = stage.table, stage.limit
    if not stage.whole and not stage.mixed:
        return Expired(0, limit, None)
    assert state.table is not None
    # Files all of whose rows have ended need not be read.
    _, ends = times_of(spec.windows[name].window)
    lasting = state.table.read(spark, stage.mixed).where(F.unix_micros(ends) >= limit)
    kept = store.stage(
        name,
        with_edges_apart(lasting, spec.windows[name].window, spec.engine, spec.timezone),
        run_id=run_id,
        partition_by=("date",),
        sort_by=row_order(spec.windows[name].window, spec.key),
    )
    try:
        replaced = {*stage.whole, *stage.mixed}
        dropped = sum(file.rows for file in state.files if file.path in replaced) - kept.rows
        if not dropped:
            return Expired(0, limit, None)

        def record(before: dict[str, Any] | None) -> dict[str, Any]:
            home = spec.path.parent
            base = state.settled if before is None else Record.from_json(before, home)
            return replace(base, expired=max(limit, base.expired or limit)).json(home)

        made = store.publish(
            name,
            kept,
            replace=sorted(replaced),
            base=state.version,
            dates=list(stage.closure.ranges),
            metadata={**metadata, "rows": str(kept.rows), "changed": str(dropped)},
            record=record,
        )
    finally:
        store.discard(kept)
    return Expired(dropped, limit, made)

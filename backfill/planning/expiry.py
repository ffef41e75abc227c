"""Which windows are past the retention, by table."""

from __future__ import annotations

from collections.abc import Iterable

from backfill.errors import JobFileError
from backfill.kinds import times_of
from backfill.ledger.state import State
from backfill.planning.stages import ExpireStage
from backfill.spec import JobSpec
from backfill.time.dates import DAY, NONE, Dates


def plan_expiry(spec: JobSpec, tables: Iterable[State]) -> list[ExpireStage]:
    """A stage for each table, of the files that can hold windows past the retention.

    The limit counts back from the table's horizon.

    Args:
        spec: the job.
        tables: the tables of its windows.

    Raises:
        JobFileError: the job has no retention.
        TableError: a table is stale.
    """
    if spec.retention_us is None:
        raise JobFileError(
            "is not set, so nothing expires",
            field="retention",
            way_out="Set it in the job file, such as retention: 180d",
        )
    return [
        _stage(
            state,
            state.settled.horizon - spec.retention_us,
            times_of(spec.windows[state.name].window),
        )
        for state in tables
        if state.version is not None and state.settled.horizon is not None
    ]


def _stage(state: State, limit: int, times: tuple[str, str]) -> ExpireStage:
    _, ends = times
    old = [file for file in state.files if file.minimum.get(ends, limit - 1) < limit]
    mixed = {file.path for file in old if file.maximum.get(ends, limit) >= limit}
    days = [file.minimum["date"] for file in old]
    return ExpireStage(
        table=state.name,
        limit=limit,
        whole=tuple(file.path for file in old if file.path not in mixed),
        mixed=tuple(file.path for file in old if file.path in mixed),
        closure=Dates.of((day, day + DAY) for day in days) if days else NONE,
    )

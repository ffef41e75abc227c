"""Bots in jobs: whose events are quarantined, and which runs that allows."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill.columns import REASON
from backfill.errors import TableError
from backfill.operators.bots import with_bots
from backfill.planning.context import Context
from backfill.spec import JobSpec
from backfill.windows import SessionWindow

_BOT = "_bot"


def judged(context: Context, rows: DataFrame) -> DataFrame:
    """The rows, with the rule's name as the reason of bots' events.

    Args:
        context: of the run.
        rows: normalised, of all inputs: what is a bot's depends on all events of a key.
    """
    spec = context.spec
    if spec.bots is None:
        return rows
    found = with_bots(
        rows,
        spec.bots,
        key=spec.key,
        zone=spec.timezone,
        rules=spec.engine.rules_for(SessionWindow(gap=spec.bots.gap)),
        id=spec.id,
        name=_BOT,
    )
    return found.withColumn(REASON, F.coalesce(REASON, _BOT)).drop(_BOT)


def reasons(spec: JobSpec) -> list[str]:
    """The reasons in the quarantine that are names of rules for bots: good rows, not wanted."""
    return [] if spec.bots is None else [each.name for each in spec.bots.rules]


def check_whole(spec: JobSpec, what: str) -> None:
    """Refuses what looks at a part of the events only.

    A late event can make a bot of a session or of a day, or of a bot a person; then events are
    counted that were quarantined, and windows of every kind change.

    Args:
        spec: the job.
        what: is asked for.

    Raises:
        TableError: the job has rules for bots.
    """
    if spec.bots is not None:
        raise TableError(
            f"rules for bots look at all events of a key, so {what} is not possible with them",
            field="events.bots",
            way_out="Run everything: backfill run JOB",
        )

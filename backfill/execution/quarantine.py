"""What runs put into the quarantine, once for each input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill.columns import REASON
from backfill.execution.change import QuarantineChange
from backfill.execution.retention import BEYOND
from backfill.execution.run_result import Past
from backfill.execution.staging import Staging
from backfill.ledger.state import QUARANTINE
from backfill.planning.context import Context
from backfill.time.dates import Dates


def unusable(
    context: Context, staging: Staging, new: Sequence[str], past: Past | None, closure: Dates
) -> QuarantineChange:
    """Writes what cannot be used, of a run over a part of the dates.

    Args:
        context: of the run.
        staging: where to write.
        new: the inputs that no run has looked at.
        past: events beyond retention, of any inputs.
        closure: the run's dates.
    """
    rows = context.reader.unusable(list(new))
    by_reason = rows.groupBy(REASON).count().collect() if new else []
    found = {row[REASON]: row["count"] for row in by_reason}
    count = sum(found.values())
    gone = past.rows if past is not None else 0
    if past is not None and gone:
        found[BEYOND] = gone
        rows = rows.unionByName(past.frame)
    known, replaced = _quarantined(context, new)
    staged = staging.quarantine(
        rows if count or gone else None,
        known=known if gone else None,
        kept=known if replaced else None,
    )
    return QuarantineChange(
        staged=staged,
        replaces=replaced,
        rows=count,
        reasons=found,
        inputs={path: context.inputs[path] for path in new},
        closure=closure,
        facts={"quarantined": count},
    )


def all_unusable(
    staging: Staging,
    events: DataFrame | None,
    past: Past | None,
) -> QuarantineChange:
    """Writes what cannot be used, of a run over everything.

    Args:
        staging: where to write.
        events: normalised; None where all of them can be used.
        past: events beyond retention.
    """
    staged = staging.quarantine(_bad(events, past))
    counts = staged.count_by("reason")
    return QuarantineChange(
        staged=staged,
        replaces="all",
        rows=staged.rows,
        reasons=dict(sorted(counts.items(), key=lambda each: (-each[1], each[0]))),
        inputs=None,
        closure=None,
        facts={},
    )


def _bad(events: DataFrame | None, past: Past | None) -> DataFrame | None:
    """The rows that go to the quarantine."""
    if events is None or past is None:
        return past.frame if past is not None else events
    return events.where(F.col(REASON).isNotNull()).unionByName(past.frame)


def _quarantined(context: Context, new: Sequence[str]) -> tuple[DataFrame | None, list[str]]:
    """What is in the quarantine, without rows of inputs that have changed since.

    Returns:
        The rows, and the files to be rewritten: all of them if an input has changed.
    """
    state = context.tables[QUARANTINE]
    if state.table is None:
        return None, []
    rows = state.table.read(context.spark)
    known: Mapping[str, object] = {} if state.record is None else state.record.inputs
    changed = [path for path in new if path in known]
    if not changed:
        return rows, []
    # An access log's rows have the line behind the path.
    path = F.regexp_replace("source", r":\d+$", "")
    gone = F.col("source").isin(changed) | path.isin(changed)
    files = [each.path for each in state.files]
    return rows.where(F.col("source").isNull() | ~gone), files

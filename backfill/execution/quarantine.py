"""What runs put into the quarantine, once for each input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_, or_

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill.columns import REASON
from backfill.events import quarantine_rows
from backfill.execution.bot_rows import BotRows
from backfill.execution.change import QuarantineChange
from backfill.execution.retention import BEYOND
from backfill.execution.run_result import Past
from backfill.execution.staging import Staging
from backfill.ledger.state import QUARANTINE
from backfill.planning.bots import reasons
from backfill.planning.context import Context
from backfill.store import FILE
from backfill.time.dates import ALL, Dates

_GONE = "_gone_"


def unusable(
    context: Context,
    staging: Staging,
    new: Sequence[str],
    past: Past | None,
    closure: Dates,
    bots: BotRows | None,
    leaving: DataFrame | None,
    dates: Dates = ALL,
) -> QuarantineChange:
    """Writes what a run over part of the dates cannot use.

    Args:
        context: the run's context.
        staging: where to write.
        new: the inputs that no run has looked at.
        past: events beyond retention, from any input.
        closure: the run's dates.
        bots: what changes for the events of bots; None for a job without rules for bots.
        leaving: events about which it was decided again whether they are beyond retention: their
            rows are removed, unless they are in `past`. None if nothing was decided again.
        dates: the dates that the run has computed.
    """
    counts: dict[str, int] = {}
    rows: list[DataFrame] = []
    if new:
        bad = context.reader.unusable(list(new))
        counts = {row[REASON]: row["count"] for row in bad.groupBy(REASON).count().collect()}
        rows += [bad] if counts else []
    count = of_bots = sum(counts.values())
    added = past is not None and past.rows > 0
    if past is not None and added:
        counts[BEYOND] = past.rows
        rows.append(past.frame)
    if bots is not None:
        counts |= bots.counts
        of_bots += sum(bots.counts.values())
        if bots.coming is not None:
            added = True
            rows.append(bots.coming)
    every = bots is not None and bots.every
    # These depend on events of any date.
    of_all = every or leaving is not None
    theirs = None if bots is None else bots.leaving
    frames = [frame for frame in (leaving, theirs) if frame is not None]
    leaving = reduce(DataFrame.unionByName, frames) if frames else None
    absent = _absent(context, dates)
    known, replaced, kept = _quarantined(context, [*new, *absent], leaving, every=every)
    staged = staging.quarantine(
        reduce(DataFrame.unionByName, rows) if rows else None,
        known=known if added else None,
        kept=kept,
    )
    return QuarantineChange(
        staged=staged,
        replaces=replaced,
        rows=of_bots,
        reasons=counts,
        unusable=count,
        inputs={path: context.inputs[path] for path in new},
        absent=absent,
        closure=None if of_all else closure,
        facts={"quarantined": of_bots + (past.rows if past is not None else 0)},
    )


def _absent(context: Context, dates: Dates) -> list[str]:
    """Inputs that do not exist now, and of which no table has events on other dates than these."""
    record = context.tables[QUARANTINE].record
    held = {
        replacement.path
        for name in context.definitions
        for replacement in context.replaced(context.tables[name])
        if replacement.dates - dates
    }
    known = [] if record is None else record.inputs
    return [path for path in known if path not in context.inputs and path not in held]


def all_unusable(
    staging: Staging,
    events: DataFrame | None,
    past: Past | None,
) -> QuarantineChange:
    """Writes what a run over everything cannot use.

    Args:
        staging: where to write.
        events: normalised; None if all of them can be used.
        past: events beyond retention.
    """
    staged = staging.quarantine(_bad(events, past))
    counts = staged.count_by("reason")
    return QuarantineChange(
        staged=staged,
        replaces="all",
        rows=staged.rows,
        reasons=dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))),
        unusable=staged.rows,
        inputs=None,
        closure=None,
        facts={},
    )


def _bad(events: DataFrame | None, past: Past | None) -> DataFrame | None:
    """The rows that go to the quarantine."""
    if events is None or past is None:
        return past.frame if past is not None else events
    return events.where(F.col(REASON).isNotNull()).unionByName(past.frame)


def _quarantined(
    context: Context, inputs: Sequence[str], leaving: DataFrame | None, *, every: bool
) -> tuple[DataFrame | None, list[str], DataFrame | None]:
    """What stays in the quarantine: all but rows of some inputs, of bots, and of other events.

    Args:
        context: the run's context.
        inputs: those whose rows leave, if there are any.
        leaving: the events that leave; None: none do.
        every: whether all rows of bots leave.

    Returns:
        The rows that stay; the files to be rewritten, which are all files if rows of an input or
        all bots leave; and the rows that stay from these files, None if nothing is rewritten.
    """
    state = context.tables[QUARANTINE]
    if state.table is None:
        return None, [], None
    rows = state.table.read(context.spark)
    known: Mapping[str, object] = {} if state.record is None else state.record.inputs
    changed = [path for path in inputs if path in known]
    files: list[str] = []
    if changed:
        # The path is followed by the line in an access log, by partition and offset in a topic.
        path = F.regexp_replace("source", r":\d+$", "")
        before = F.regexp_replace(path, r":\d+$", "")
        gone = reduce(or_, (column.isin(changed) for column in (F.col("source"), path, before)))
        rows = rows.where(F.col("source").isNull() | ~gone)
    if every:
        rows = rows.where(~F.col("reason").isin(reasons(context.spec)))
    if changed or every:
        files = [file.path for file in state.files]
    if leaving is not None:
        if not files and state.files:
            held = state.table.read(context.spark, with_file=True)
            paths = _left(context, held, leaving, "left_semi").select(FILE).distinct()
            files = sorted(row[FILE] for row in paths.collect())
        rows = _left(context, rows, leaving, "left_anti")
    if not files:
        return rows, [], None
    if len(files) == len(state.files):
        return rows, files, rows
    kept = state.table.read(context.spark, files)
    if leaving is not None:
        kept = _left(context, kept, leaving, "left_anti")
    return rows, files, kept


def _left(context: Context, rows: DataFrame, leaving: DataFrame, how: str) -> DataFrame:
    """The rows of these events with a reason that may no longer apply, or all other rows."""
    theirs = quarantine_rows(leaving.withColumn(REASON, F.lit(""))).select(
        F.col("raw").alias(f"{_GONE}raw"), F.col("source").alias(f"{_GONE}source")
    )
    same = [F.col(name).eqNullSafe(F.col(f"{_GONE}{name}")) for name in ("raw", "source")]
    judged = F.col("reason").isin([*reasons(context.spec), BEYOND])
    return rows.join(theirs, reduce(and_, same, judged), how)

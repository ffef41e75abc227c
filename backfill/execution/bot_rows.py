"""What a run over part of the events changes about bots in the quarantine.

The quarantine has the events of bots that count and lie on covered dates, as the tables have the
windows that start on these dates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from backfill.columns import REASON, TIME
from backfill.planning.bots import in_step, named, on_dates, people
from backfill.planning.context import Context
from backfill.planning.judged_anew import JudgedAnew
from backfill.planning.range_input import RangeInput
from backfill.planning.whole_sessions import bots_key
from backfill.time.dates import Dates
from backfill.time.spans import inside_span


@dataclass(frozen=True)
class BotRows:
    """What changes.

    Attributes:
        coming: rows with the rule as their reason; those that are already there are not added.
        leaving: rows that cannot stay as they are.
        every: all rows of bots are removed, and written anew.
        counts: by rule, how many of the rows that the run has read are of bots.
    """

    coming: DataFrame | None
    leaving: DataFrame | None
    every: bool
    counts: Mapping[str, int]


def bots_of_range(
    context: Context, parts: Sequence[RangeInput], bots: DataFrame | None, covered: Dates
) -> BotRows | None:
    """What a run over a range changes.

    Args:
        context: the run's context.
        parts: the range, for each group of tables that cover and have counted the same.
        bots: the bots among the events that were read for the last part: key (inner names), time
            and rule.
        covered: the dates that are covered after the run.
    """
    if context.spec.bots is None:
        return None
    part = parts[-1]
    counts: dict[str, int] = {}
    rows = None
    if bots is not None:
        rows = named(context.reader.events(part.counted, part.read), bots, bots_key(context))
        counts = _counts(rows)
    # A table without a record is new: it has no further events, and is never in the last part.
    known = [one for one in parts if one.states[0].record is not None]
    replaced = any(context.replaced(one.states[0]) for one in known)
    alike = all(one.counted == part.counted for one in known)
    if known and (replaced or not alike or not in_step(context)):
        counted = {path: Dates.union(one.counted[path] for one in known) for path in context.inputs}
        return _every(context, counted, covered, counts)
    records = [one.states[0].record for one in known]
    before = Dates.union(record.covered for record in records if record is not None)
    zone = context.spec.timezone
    coming = None if rows is None else rows.where(_on(covered - before, zone))
    if part.anew is not None:
        again = part.anew.coming.where(_on(covered & before, zone))
        coming = again if coming is None else coming.unionByName(again)
    leaving = part.anew.leaving if part.anew is not None and part.anew.gone else None
    return BotRows(coming, leaving, False, counts)


def late_bots(context: Context, anew: JudgedAnew | None, *, every: bool) -> BotRows | None:
    """What late events change.

    Args:
        context: the run's context.
        anew: who is a bot now; None if nothing is late.
        every: whether all events are judged, since tables have counted different inputs.
    """
    if context.spec.bots is None:
        return None
    counts = {} if anew is None else _counts(anew.late_rows)
    covered = Dates.union(context.tables[name].settled.covered for name in context.spec.windows)
    if every or not in_step(context):
        return _every(context, context.all_dates, covered, counts)
    if anew is None:
        return BotRows(None, None, False, counts)
    coming = anew.coming.where(_on(covered, context.spec.timezone))
    return BotRows(coming, anew.leaving if anew.gone else None, False, counts)


def _every(
    context: Context, counted: Mapping[str, Dates], covered: Dates, counts: Mapping[str, int]
) -> BotRows:
    """All bots, judged again: the quarantine has those of other events than are counted now."""
    context.progress("judging all events again: the quarantine is not in step with the tables")
    bots = people(context, counted).bots
    if bots is None:
        return BotRows(None, None, True, counts)
    rows = named(context.reader.events(on_dates(counted, covered)), bots, bots_key(context))
    # They leave as well where they were judged to be beyond retention before.
    return BotRows(rows, rows, True, counts)


def _counts(rows: DataFrame) -> dict[str, int]:
    """The number of rows for each rule, the largest first."""
    counts = rows.groupBy(REASON).count().orderBy(F.desc("count"), REASON).collect()
    return {row[REASON]: row["count"] for row in counts}


def _on(dates: Dates, zone: str) -> Column:
    """Whether an event is on one of the dates."""
    return reduce(or_, (inside_span(F.col(TIME), span) for span in dates.spans(zone)), F.lit(False))

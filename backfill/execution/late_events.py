"""Reads late events, and what the quarantine must have of them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill.columns import TIME, column
from backfill.conservation import Totals
from backfill.execution.retention import past_of_all
from backfill.execution.run_result import Past
from backfill.operators.calendar import local_date
from backfill.planning.bots import people, without
from backfill.planning.context import Context
from backfill.planning.judged_anew import JudgedAnew
from backfill.planning.late import counted_but, judged_late
from backfill.planning.slicing import counted_slices, slices
from backfill.planning.whole_sessions import bots_key
from backfill.rows.compute import Sliced
from backfill.runtimes.differences import computed_once
from backfill.time.dates import Dates


@dataclass(frozen=True)
class LateEvents:
    """Late events that count.

    Attributes:
        events: normalised and usable; without events that were counted before, and those of bots.
        sliced: their slices.
        sums: the totals of the slices.
        read: how many rows were read, without those of bots.
        anew: who is a bot now; None for a job without rules for bots.
    """

    events: DataFrame
    sliced: Sliced
    sums: Totals
    read: int
    anew: JudgedAnew | None

    def horizon(self, context: Context, names: Sequence[str]) -> int:
        """The largest event time, µs, of these events and of what the tables have counted."""
        known = [context.tables[name].settled.horizon for name in names]
        latest = (*known, self.sums.horizon, None if self.anew is None else self.anew.last)
        return max(time for time in latest if time is not None)


def read_late(context: Context, inputs: Mapping[str, Dates], names: Sequence[str]) -> LateEvents:
    """Reads the events of inputs that some tables have not counted.

    Args:
        context: the run's context.
        inputs: the dates on which each input is not counted.
        names: the tables.
    """
    events, read = _late_events(context, inputs)
    anew = judged_late(context, inputs)
    if anew is not None:
        events = without(events, anew.bots(context), bots_key(context)).unionByName(anew.came)
        read = None if read is None else read - anew.late_bots + anew.ceased
    sliced, sums = counted_slices(context, events, names)
    return LateEvents(events, sliced, sums, sums.rows if read is None else read, anew)


def seen_again(
    context: Context, inputs: Mapping[str, Dates]
) -> tuple[LateEvents, Past | None, DataFrame | None]:
    """Reads inputs that not all tables have counted, or that the quarantine lacks.

    An event is beyond retention if its windows have ended in all tables, those that have counted it
    and those that have not. So the windows are computed from all events.

    Args:
        context: the run's context.
        inputs: the dates on which each input is looked at.

    Returns:
        The events, as if no table had counted them; those beyond retention; and events whose rows
        in the quarantine are removed, unless they are added again.
    """
    names = list(context.spec.windows)
    late = read_late(context, inputs, names)
    context.progress(
        f"{late.sums.accepted:,} events are not counted by all tables, or not by the quarantine"
    )
    limit = context.limit(late.horizon(context, names))
    if limit is None:
        return late, None, None
    leaving = context.reader.events(inputs).where(F.col(TIME) < limit)
    if late.anew is not None:
        leaving = leaving.unionByName(late.anew.leaving)
    if late.sums.first is None or late.sums.first >= limit:
        return late, None, leaving
    everyone = people(context, context.all_dates).events
    sliced = slices(context, everyone, names, computed_once)
    sliced = replace(sliced, frame=computed_once(sliced.frame))
    return late, past_of_all(context, late.events, sliced, limit), leaving


def _late_events(context: Context, late: Mapping[str, Dates]) -> tuple[DataFrame, int | None]:
    """The late events without those that were counted before, and how many there are with them.

    Without an id none can be recognized: all are returned, and are not counted here.
    """
    events = context.reader.events(late)
    if context.spec.id is None:
        return events, None
    return _not_counted(context, events, counted_but(context, late))


def _not_counted(
    context: Context, events: DataFrame, known: Mapping[str, Dates]
) -> tuple[DataFrame, int]:
    """The events without redeliveries of those in the windows already, and how many with them.

    Only key, time and id are looked up, on the dates that late events fall in.
    """
    spec = context.spec
    assert spec.id is not None
    dates, rows = _dates(events, spec.timezone)
    counted = {path: days & dates for path, days in known.items()}
    before = context.reader.events({path: days for path, days in counted.items() if days})
    names = [*spec.key, spec.id]
    own = before.select(
        *(column(name).alias(f"_known{i}") for i, name in enumerate(names)),
        F.col(TIME).alias("_known_time"),
    )
    same = [column(name).eqNullSafe(F.col(f"_known{i}")) for i, name in enumerate(names[:-1])]
    same += [column(spec.id) == F.col(f"_known{len(names) - 1}")]
    same += [F.col(TIME) == F.col("_known_time")]
    return events.join(own, reduce(and_, same), "left_anti"), rows


def _dates(events: DataFrame, zone: str) -> tuple[Dates, int]:
    """The dates that events fall in, and how many events there are."""
    date = local_date(F.col(TIME), zone)
    rows = events.groupBy(date).agg(F.count(F.lit(1))).collect()
    dates = Dates.of((row[0], row[0] + dt.timedelta(days=1)) for row in rows)
    return dates, sum(row[1] for row in rows)

"""A run over everything: each table is replaced in one commit."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill.columns import EVENTS, REASON, TIME
from backfill.conservation import check_held, check_rows, totals
from backfill.errors import SourceError
from backfill.events import Snapshot
from backfill.execution.change import Computed, TableChange
from backfill.execution.dropped import dropped_of
from backfill.execution.gate import Rows
from backfill.execution.quarantine import all_unusable
from backfill.execution.retention import duplicates_of, ended, past_of_all
from backfill.execution.staging import Staging
from backfill.planning.bots import judged, reasons
from backfill.planning.context import Context
from backfill.planning.slicing import singles, slices, with_combining
from backfill.planning.time_spans import dates_between, dates_over, first_start, starts_on
from backfill.quality.events import Counted, slice_checks
from backfill.runtimes.differences import observed


def compute_full(context: Context, staging: Staging) -> Computed:
    """Computes every date of the source; covered dates that have no events now are cleared.

    Raises:
        SourceError: the source has no event.
        ConservationError: events were lost in the computation.
    """
    definitions, zone = context.definitions, context.spec.timezone
    events = judged(context, context.reader.rows(list(context.inputs)))
    if context.spec.bots is not None:
        # Judged once, for all that follows.
        events = staging.persisted(events)
    usable = events.where(F.col(REASON).isNull())
    watched, counted = observed(
        events, F.count(F.lit(1)).alias("read"), F.count(REASON).alias("unusable")
    )
    context = with_combining(context, context.inputs, list(definitions))
    context.progress(f"reading {_inputs(context.source.snapshot)} into slices")
    # Kept for all windows: the source is scanned once.
    sliced = slices(
        context, watched.where(F.col(REASON).isNull()), list(definitions), staging.persisted
    ).by_key()
    sliced = replace(
        sliced,
        frame=staging.persisted(sliced.frame),
        singles=singles(context, usable, list(definitions)),
    )
    sums = totals(sliced, definitions, slice_checks(sliced, context.known_span))
    # This comes first, because Spark may observe nothing of a frame that it finds to be empty.
    if sums.first is None or sums.horizon is None:
        raise nothing_usable(context, events)
    sliced = replace(sliced, count=sums.accepted)
    counts = counted()
    read, unusable = counts["read"], counts["unusable"]
    first, horizon = _first_and_last(context, events, (sums.first, sums.horizon))
    context.progress(f"{read:,} rows read, {sums.accepted:,} events accepted")

    limit = context.limit(horizon)
    gone = None
    if limit is not None and sums.first < limit:
        gone = past_of_all(context, usable, sliced, limit)
    quarantine = all_unusable(staging, events if unusable else None, gone)
    check_rows(read, sums, quarantine.rows - (gone.rows if gone else 0))
    bots = sum(quarantine.reasons.get(reason, 0) for reason in reasons(context.spec))
    low = first_start(context, (first, first + 1), list(definitions.values()))
    covered = dates_between(low, horizon, zone)
    accepted = sums.accepted - (gone.events if gone else 0)
    duplicates = duplicates_of(sums, gone)
    facts = {
        "read": read,
        "accepted": accepted,
        "duplicates": duplicates,
        "quarantined": quarantine.rows,
    }
    changes = []
    for name, definition in definitions.items():
        built = sliced.build(definition)
        if gone is not None and limit is not None:
            built = replace(built, frame=built.frame.where(~ended(built, limit)))
        dropped = None
        if definition.drops:
            built = replace(built, frame=staging.persisted(built.frame))
            dropped = dropped_of(built)
        computed = None
        if definition.blanks:
            built = replace(built, frame=staging.persisted(built.frame))
            computed = built.frame.agg(F.sum(built.kind.held)).collect()[0][0] or 0
            # Values fall back to nothing long after the last event. Dates that had events before
            # stay covered.
            record = context.tables[name].record
            dates = covered if record is None else covered | record.covered
            built = replace(built, frame=built.frame.where(starts_on(dates, zone)))
        staged = staging.windows(name, built.table(horizon))
        count = staged.sum_of(EVENTS)
        held = count if built.kind.held == EVENTS else staged.sum_of(built.kind.held)
        held_of_all = (held if computed is None else computed) + (gone.held[name] if gone else 0)
        held_of_all += 0 if dropped is None else dropped.events
        check_held(name, held_of_all, sums.assigned[name])
        context.progress(f"{name}: {staged.rows:,} rows written")
        changes.append(
            TableChange(
                state=context.tables[name],
                staged=staged,
                replaces="all",
                rows=staged.rows,
                events=count,
                covered=covered,
                closure=None,
                horizon=horizon,
                times=(first, horizon),
                facts=facts,
                dropped=dropped,
                checked=Rows(
                    frame=context.store.read_staged(context.spark, staged),
                    dates=dates_over(covered, horizon, zone),
                    table=None,
                    without=(),
                    held=held_of_all,
                    assigned=sums.assigned[name],
                    written=staged.rows,
                ),
            )
        )
    return Computed(
        tables=changes,
        quarantine=replace(quarantine, covered=covered, facts={"rows": quarantine.rows, **facts}),
        counted=Counted(
            sliced=sliced,
            sums=sums.also,
            events=usable,
            id=context.spec.id,
            read=read,
            # Events of bots, and events beyond retention, are usable.
            quarantined=quarantine.rows - bots - (gone.rows if gone else 0),
        ),
        read=read,
        accepted=accepted,
        duplicates=duplicates,
        horizon=horizon,
    )


def _first_and_last(
    context: Context, events: DataFrame, of_people: tuple[int, int]
) -> tuple[int, int]:
    """The least and the largest event time, bots' events included: they move time on, too."""
    if context.spec.bots is None:
        return of_people
    every = F.col(REASON).isNull() | F.col(REASON).isin(reasons(context.spec))
    row = events.where(every).agg(F.min(TIME), F.max(TIME)).collect()[0]
    return row[0], row[1]


def nothing_usable(context: Context, rows: DataFrame) -> SourceError:
    """The error that the source has no event.

    Args:
        context: the run's context.
        rows: all its rows, normalised.
    """
    path = context.spec.source.path
    counts = rows.groupBy(REASON).count().orderBy(F.desc("count")).collect()
    read = sum(row["count"] for row in counts)
    if not read:
        return SourceError("is empty", field="source", value=path, way_out="Check the path")
    why = ", ".join(f"{row[REASON]}: {row['count']:,}" for row in counts)
    return SourceError(
        f"none of its {read:,} rows are usable ({why})",
        field="source",
        value=path,
        way_out="Check events.key, events.time and events.time_format in the job file",
    )


def _inputs(snapshot: Snapshot) -> str:
    if not snapshot.inputs:
        return "the table"
    size = sum(file.size for file in snapshot.inputs) / 1e6
    return f"{len(snapshot.inputs):,} files, {size:,.1f} MB,"

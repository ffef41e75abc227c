"""Checks what is already published, without a run."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from pyspark.sql import functions as F

from backfill.columns import REASON
from backfill.conservation import totals
from backfill.events import spark_errors
from backfill.execution.gate import Gate, Rows
from backfill.execution.retention import BEYOND
from backfill.execution.staging import Staging
from backfill.ledger.record import Record
from backfill.ledger.state import QUARANTINE, State
from backfill.planning.bots import judged, reasons
from backfill.planning.context import Context
from backfill.planning.slicing import of, slices, with_combining
from backfill.planning.time_spans import dates_between, dates_over, first_start
from backfill.quality.checks import Outcome
from backfill.quality.errors import ChecksFailed
from backfill.quality.events import Counted, slice_checks
from backfill.time.dates import Dates
from backfill.time.spans import EVERYTHING


def validate(context: Context, names: Collection[str], dates: Dates | None) -> tuple[Outcome, ...]:
    """Checks published tables, and the events that they were made from; publishes nothing.

    Args:
        context: the job's context.
        names: the windows whose tables to check.
        dates: check only windows that start on these dates. Then the events are not checked, nor
            whether the windows hold them all, since a window can reach beyond a date.

    Returns:
        The outcome of each check.

    Raises:
        TableError: nothing is published, or the table is stale.
    """
    with Staging(context) as staging, spark_errors(context.source.snapshot):
        records = {name: context.tables[name].settled for name in names}
        counted, assigned = None, None
        if dates is None:
            counted, assigned = _counted(context, staging, records)
        windows = {name: _rows(context, context.tables[name], dates, assigned) for name in names}
        context.progress("checking what is published")
        try:
            return Gate(context.spec, context.run_id).audit(counted, windows)
        except ChecksFailed as failed:
            return failed.outcomes


def _counted(
    context: Context, staging: Staging, records: Mapping[str, Record]
) -> tuple[Counted | None, Mapping[str, int] | None]:
    """The events that the tables were made from, and how many each table is assigned.

    The latter is None unless the tables hold every window of these events.
    """
    record = next(iter(records.values()))
    alike = all(_same_inputs(record, other) for other in records.values())
    same = all(
        path in context.inputs and file.same_content(context.inputs[path])
        for path, file in record.inputs.items()
    )
    if not alike or not same:
        why = (
            "inputs have changed since the last run"
            if alike
            else "the tables have counted different inputs"
        )
        context.progress(f"events are not checked: {why}")
        return None, None
    names, zone = list(records), context.spec.timezone
    context = with_combining(context, record.inputs, names)
    context.progress("reading the events that were counted")
    rows = context.reader.events({path: file.counted for path, file in record.inputs.items()})
    events = judged(context, rows).where(F.col(REASON).isNull())
    sliced = slices(context, events, names).by_key()
    sliced = replace(sliced, frame=staging.persisted(sliced.frame))
    definitions = of(context, names)
    sums = totals(sliced, definitions, slice_checks(sliced, EVERYTHING))
    state = context.tables[QUARANTINE]
    quarantined = sum(file.rows for file in state.files)
    bots = gone = 0
    if state.table is not None:
        usable = F.col("reason").isin([*reasons(context.spec), BEYOND])
        rows = state.table.read(context.spark).where(usable)
        counts = {row["reason"]: row["count"] for row in rows.groupBy("reason").count().collect()}
        # These are among the events that are read above.
        gone = counts.pop(BEYOND, 0)
        bots = sum(counts.values())
    counted = Counted(
        sliced=sliced,
        sums=sums.also,
        events=events,
        id=context.spec.id,
        read=sums.rows + quarantined - gone,
        quarantined=quarantined - gone - bots,
    )
    whole = False
    if sums.first is not None and sums.horizon is not None:
        low = first_start(context, (sums.first, sums.first + 1), list(definitions.values()))
        every = dates_between(low, sums.horizon, zone)
        whole = all(not every - table_record.covered for table_record in records.values())
    expired = any(table_record.expired is not None for table_record in records.values())
    return counted, sums.assigned if whole and not expired else None


def _same_inputs(one: Record, other: Record) -> bool:
    """Whether two tables have counted the same content, whenever its files were written."""
    return one.inputs.keys() == other.inputs.keys() and all(
        file.same_content(other.inputs[path]) and file.counted == other.inputs[path].counted
        for path, file in one.inputs.items()
    )


def _rows(
    context: Context, state: State, dates: Dates | None, assigned: Mapping[str, int] | None
) -> Rows:
    record = state.settled
    assert state.table is not None
    definition = context.definitions[state.name]
    rows = state.table.read(context.spark)
    wanted = record.covered if dates is None else record.covered & dates
    without: tuple[str, ...] = ()
    if dates is not None:
        inside = F.lit(False)
        for low, high in dates.ranges:
            inside |= (F.col("date") >= low) & (F.col("date") < high)
        rows = rows.where(inside)
        # The rows of these files are looked at anyway.
        without = tuple(file.path for file in state.files if file.minimum["date"] in dates)
    return Rows(
        frame=rows,
        dates=dates_over(wanted, record.horizon, context.spec.timezone),
        table=None if dates is None else state.table,
        without=without,
        # No table says how many events are in rows that are not published.
        assigned=None if assigned is None or definition.hides else assigned[state.name],
    )

"""Which late events there are, and into which tables they must be merged."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.sql import functions as F

from backfill.columns import TIME
from backfill.errors import SourceError
from backfill.ledger.arrival_ranges import can_tell
from backfill.ledger.changed_inputs import Replaced, dates_of, replaced, uncounted
from backfill.ledger.state import QUARANTINE
from backfill.planning.bots import in_step, without
from backfill.planning.context import Context
from backfill.planning.judged_anew import JudgedAnew, judged_anew
from backfill.planning.moved import moved
from backfill.planning.reached import reached_files
from backfill.planning.selection import Selection
from backfill.planning.slicing import slices
from backfill.planning.stages import Judged, LateInputs, MergeStage, Moved, Plan, Rewritten
from backfill.planning.touched_files import no_longer_open, rewritten
from backfill.planning.whole_sessions import bots_key
from backfill.printable import shown
from backfill.rows.compute import Built
from backfill.time.dates import ALL, NONE, Dates
from backfill.windows import by_place


def plan_late(context: Context, *, explain: bool) -> Plan:
    """The plan for what arrived since the tables were published; no stage if nothing needs doing.

    Args:
        context: the job's context.
        explain: also count the events.

    Raises:
        TableError: nothing is published, or a table is stale.
        SourceError: an input that was counted is gone, or has changed: what it held can't be
            taken out of the windows again. Or it is impossible to know what arrived.
    """
    spec = context.spec
    if not context.source.snapshot.inputs and not can_tell(context.source, spec.arrival):
        raise SourceError(
            "has no files, so new events cannot be detected",
            field="source",
            value=spec.source.path,
            way_out="Name the column of arrival (a time or a whole number) in events.arrival, "
            "or run the dates: backfill run JOB --from DATE --to DATE",
        )
    names: defaultdict[frozenset[tuple[str, Dates]], list[str]] = defaultdict(list)
    for name in spec.windows:
        record = context.tables[name].settled
        replacements = replaced(record, context.inputs, spec.timezone)
        if replacements:
            raise _contradicted(replacements)
        names[frozenset(uncounted(record, context.inputs).items())].append(name)
    groups = [LateInputs(tuple(tables), dict(sorted(lacks))) for lacks, tables in names.items()]
    late = [group for group in groups if group.inputs]
    unseen = unseen_inputs(context)
    if not late and not unseen and in_step(context):
        return Plan(Selection())
    again = _again(context, groups, unseen)
    if explain:
        late = [_counted(context, group) for group in late]
    return Plan(Selection(), (MergeStage(late=tuple(late), unseen=unseen, again=again),))


def counted_but(context: Context, late: Mapping[str, Dates]) -> dict[str, Dates]:
    """The dates on which each input counted before these did, where each counts on all dates."""
    return {path: late.get(path, NONE).rest() for path in context.inputs}


def judged_late(context: Context, late: Mapping[str, Dates]) -> JudgedAnew | None:
    """Who is a bot once late events count; None for a job without rules for bots.

    Args:
        context: the run's context.
        late: the dates on which each input is late; everything else was counted before.
    """
    if context.spec.bots is None:
        return None
    return judged_anew(context, counted_but(context, late), late)


def _again(
    context: Context, groups: Sequence[LateInputs], unseen: Sequence[str]
) -> dict[str, Dates]:
    """What the quarantine may lack: see `MergeStage.again`.

    A run of some dates shows the quarantine every input that may have events on them. So if one
    that is counted may have events on covered dates, but is unknown to the quarantine, a run was
    killed before its end.
    """
    again: dict[str, Dates] = {}
    covered = Dates.union(context.tables[name].settled.covered for name in context.spec.windows)
    for path in context.inputs:
        late = Dates.union(group.inputs.get(path, NONE) for group in groups)
        spans = (covered - late).spans(context.spec.timezone) if path in unseen else ()
        if any(context.reader.may_hold(path, span) for span in spans):
            late = ALL
        if late:
            again[path] = late
    return {} if all(group.inputs == again for group in groups) else again


def _counted(context: Context, late: LateInputs) -> LateInputs:
    """The late inputs, with the number of their events and what these change in the tables."""
    events = context.reader.events(late.inputs)
    anew = judged_late(context, late.inputs)
    if anew is not None:
        # All events whose windows change.
        people = without(events, anew.bots(context), bots_key(context))
        events = people.unionByName(anew.moved)
        judged = Judged(late=anew.late_bots, became=anew.became, ceased=anew.ceased)
        late = replace(late, bots=judged)
    count, low, high = events.agg(F.count(F.lit(1)), F.min(TIME), F.max(TIME)).collect()[0]
    if not count and anew is None:
        return replace(late, events=0)
    known = [context.tables[name].settled.horizon for name in late.tables]
    latest = (*known, high, None if anew is None else anew.last)
    horizon = max(time for time in latest if time is not None)
    sliced = slices(context, events, late.tables)
    affected: dict[str, int | None] = {}
    moving: list[Moved] = []
    again: dict[str, Rewritten] = {}
    for name in late.tables:
        state, definition = context.tables[name], context.definitions[name]
        files: dict[str, int] | None
        if not count or by_place(definition.window):
            own = sliced.of(definition)
            files = no_longer_open(context, state, Built(own.frame, definition, own), horizon)
            if count:
                one, others = moved(context, state, events)
                moving.append(one)
                files |= others
        else:
            span = low, high + 1
            files = reached_files(context, state, sliced, count, span, horizon)
            affected[name] = None if files is None else sum(files.values())
        if files is not None:
            again[name] = rewritten(state, files.keys())
    return replace(late, events=count, affected=affected, moved=tuple(moving), rewritten=again)


def unseen_inputs(context: Context) -> tuple[str, ...]:
    """The inputs whose unusable rows are not in the quarantine yet."""
    record = context.tables[QUARANTINE].record
    known = {} if record is None else record.inputs
    return tuple(
        path
        for path, file in context.inputs.items()
        if path not in known or not known[path].same_content(file)
    )


def _contradicted(replacements: Sequence[Replaced]) -> SourceError:
    first, others = replacements[0], len(replacements) - 1
    what = "is missing" if first.gone else "has changed"
    more = f" (as well as {others:,} others)" if others else ""
    way_out = "Run everything: backfill run JOB"
    if all(replacement.bounds is not None for replacement in replacements):
        dates = dates_of(replacements).ranges
        low, high = dates[0][0], dates[-1][1]
        way_out = f"Run the dates that it held: backfill run JOB --from {low} --to {high}"
    return SourceError(
        f"an input that was counted {what}{more}; its events cannot be removed by merging",
        field=shown(first.path),
        way_out=way_out,
    )

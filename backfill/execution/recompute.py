"""Late events merged into what is published; no event that was counted before is read for it."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from backfill.columns import END, EVENTS, START, TIME, column
from backfill.compute import Built, Definition, Sliced
from backfill.conservation import Totals, check_held
from backfill.errors import SourceError
from backfill.events import spark_errors
from backfill.events.model import shown
from backfill.execution.exchange import FEW, Place, of_keys, sent
from backfill.execution.merge import LATE, merged
from backfill.execution.origins import Origins
from backfill.execution.partial import Pending, Seen, duplicates_of, hull
from backfill.execution.rebuild import RebuildingRun
from backfill.execution.results import Past, RunResult, WindowResult
from backfill.ledger.arrivals import can_tell
from backfill.ledger.record import Record
from backfill.ledger.replaced import Replaced, dates_of, replaced, uncounted
from backfill.ledger.state import State
from backfill.operators.calendar import local_date
from backfill.quality.checks import Outcome
from backfill.quality.events import Counted
from backfill.time.dates import ALL, Dates
from backfill.windows import SessionWindow


@dataclass(frozen=True)
class _Found:
    """Merged windows, summed up.

    Attributes:
        late: how many late events they hold.
        behind: how many may go on on dates that are not covered.
        bounds: the first start and the last end, µs; None where there are none.
        seen: what the exchange wants to know.
    """

    late: int
    behind: int
    bounds: tuple[int, int] | None
    seen: Seen


@dataclass(frozen=True)
class _Merged:
    """What late events of tables that have counted the same came to.

    Attributes:
        horizon: µs.
        past: what is beyond retention.
        facts: for `history`.
        counted: the events, for the gate.
    """

    pending: list[Pending]
    horizon: int
    past: Past | None
    facts: Mapping[str, int]
    counted: Counted


class RecomputeRun(RebuildingRun):
    """Merges what arrived since the tables were last published."""

    kind = "recompute"

    def execute(self) -> RunResult | None:
        """Runs, once; None where nothing has arrived."""
        with self.stack, spark_errors(self.source.snapshot):
            return self._compute()

    def late_inputs(self, record: Record) -> dict[str, Dates]:
        """The inputs that are not counted yet, and on which dates not.

        Raises:
            SourceError: an input that was counted is gone, or has changed: what it held can't be
                taken out of the windows again.
        """
        found = replaced(record, self.inputs, self.spec.timezone)
        if found:
            raise _contradicted(found)
        return uncounted(record, self.inputs)

    def _compute(self) -> RunResult | None:
        if not self.source.snapshot.inputs and not can_tell(self.source, self.spec.arrival):
            raise SourceError(
                "has no files, so what arrived cannot be told",
                field="source",
                value=self.spec.source.path,
                way_out="Name the column of arrival (a time or a whole number) in events.arrival, "
                "or run the dates: backfill run JOB --from DATE --to DATE",
            )
        found = map(self._merged, self.groups(self.definitions))
        merged = [late for late in found if late is not None]
        fresh = self.fresh(self.inputs)
        if not merged and not fresh:
            return None
        last = merged[-1] if merged else None
        horizon = None if last is None else last.horizon
        unusable = self.unusable(fresh, None if last is None else last.past)
        checks: tuple[Outcome, ...] = ()
        if last is not None:
            read = sum(late.counted.read for late in merged) + unusable.rows
            checks = self.audit(
                replace(last.counted, read=read, quarantined=unusable.rows),
                {
                    each.state.name: self.written(each, each.closure, late.horizon)
                    for late in merged
                    for each in late.pending
                },
            )
        results: dict[str, WindowResult] = {}
        closure = Dates()
        for late in merged:
            for each in late.pending:
                results[each.state.name] = self.commit(
                    each.state,
                    each.exchange,
                    counted=ALL,
                    covered=Dates(),
                    closure=each.closure,
                    horizon=late.horizon,
                    facts={**late.facts, "changed": each.exchange.rows},
                )
                closure |= each.closure
        self.quarantine(unusable, closure, horizon)
        return RunResult(
            run_id=self.id,
            read=sum(late.facts["read"] for late in merged) + unusable.rows,
            accepted=sum(late.facts["accepted"] for late in merged),
            duplicates=sum(late.facts["duplicates"] for late in merged),
            quarantined=unusable.reasons,
            windows=results,
            horizon_us=horizon,
            seconds=time.monotonic() - self.began,
            checks=checks,
        )

    def _merged(self, group: Sequence[State]) -> _Merged | None:
        """Merges late events into tables that have counted the same; None where there are none."""
        record = group[0].settled
        for state in group:
            _ = state.settled
        late = self.late_inputs(record)
        if not late:
            return None
        names = [state.name for state in group]
        events, read = self._late_events(record, late)
        sliced, sums = self.sliced(events, names)
        self.progress(f"{sums.accepted:,} late events")
        read = sums.rows if read is None else read
        horizon = max(each for each in (record.horizon, sums.horizon) if each is not None)
        pending = []
        every: dict[str, Built] = {}
        for state in group:
            made, every[state.name] = self._window(state, record, names, sliced, sums, horizon)
            pending.append(made)
            self.progress(f"{state.name}: {made.exchange.rows:,} windows changed")
        past = self._past(events, sums, horizon, every)
        facts = {
            "late": sums.accepted,
            "read": read,
            "accepted": sums.accepted - (past.events if past else 0),
            # Those of each other, and of events that were counted before.
            "duplicates": duplicates_of(sums, past) + read - sums.rows,
        }
        counted = Counted(sliced=sliced, events=events, id=self.spec.id, read=read, quarantined=0)
        return _Merged(pending, horizon, past, facts, counted)

    def _late_events(
        self, record: Record, late: Mapping[str, Dates]
    ) -> tuple[DataFrame, int | None]:
        """The late events without those that were counted before, and how many all are.

        Without an id no event is known, and they are not counted here.
        """
        events = self.reader.events(late)
        return (events, None) if self.spec.id is None else self._not_counted(events, record)

    def _not_counted(self, events: DataFrame, record: Record) -> tuple[DataFrame, int]:
        """Without redeliveries of events that are in the windows already.

        Only key, time and id of the dates that late events fall in are looked up.
        """
        assert self.spec.id is not None
        dates, rows = self._dates(events)
        counted = {path: each.counted & dates for path, each in record.inputs.items()}
        before = self.reader.events({path: each for path, each in counted.items() if each})
        names = [*self.spec.key, self.spec.id]
        known = before.select(
            *(column(name).alias(f"_known{i}") for i, name in enumerate(names)),
            F.col(TIME).alias("_known_time"),
        )
        same = [column(name).eqNullSafe(F.col(f"_known{i}")) for i, name in enumerate(names[:-1])]
        same += [column(self.spec.id) == F.col(f"_known{len(names) - 1}")]
        same += [F.col(TIME) == F.col("_known_time")]
        return events.join(known, reduce(and_, same), "left_anti"), rows

    def _dates(self, events: DataFrame) -> tuple[Dates, int]:
        """The dates that events fall in, and how many events there are."""
        date = local_date(F.col(TIME), self.spec.timezone)
        rows = events.groupBy(date).agg(F.count(F.lit(1))).collect()
        dates = Dates.of((row[0], row[0] + dt.timedelta(days=1)) for row in rows)
        return dates, sum(row[1] for row in rows)

    def _window(
        self,
        state: State,
        record: Record,
        names: Sequence[str],
        sliced: Sliced,
        sums: Totals,
        horizon: int,
    ) -> tuple[Pending, Built]:
        """The windows that the late events change, written beside those that they do not.

        Returns:
            What is to be published, and all windows that hold late events.
        """
        definition = self.definitions[state.name]
        built = Built(sliced.frame, definition, sliced)
        origins, rows = self._near(state, built, sums)
        # Where states can't be merged, merging tells which windows are to be built from events.
        known = definition if definition.mergeable else replace(definition, aggregates={})
        whole = self.kept(merged(sliced, known, rows, origins))
        behind, lasting = self.behind(record, definition), self.lasting(built, horizon)
        starts = self.starts(record.covered) & lasting
        held = self.starts(record.covered) | origins.any()
        wanted = held & (lasting | behind)
        found = self._found(whole, starts, wanted, origins, behind)
        assigned = sums.assigned[state.name]
        check_held(state.name, found.late, assigned)
        final = whole.where(wanted)
        # Each holds a late event.
        extents = sent(final, found.late)
        bounds = found.bounds
        seen: Seen | None = found.seen
        if found.behind or not definition.mergeable:
            final, extents = self.rebuilt(state, names, sliced, extents, record)
            bounds, seen = hull(extents), None
        ours = replace(built, frame=final.where(starts))
        place = Place(None, extents.where(lasting))
        exchange = self.exchange(state, ours, place, bounds, horizon, seen)
        others = whole.where(~wanted).select(*sliced.key.inner, START, END, EVENTS)
        every = others.unionByName(final.select(*others.columns))
        dates = Dates() if bounds is None else self.hull(*bounds)
        few = sliced if sums.accepted <= FEW else None
        made = Pending(state, exchange, dates, found.late, assigned, few)
        return made, replace(built, frame=every)

    def _past(
        self, events: DataFrame, sums: Totals, horizon: int, every: Mapping[str, Built]
    ) -> Past | None:
        """What of the late events is beyond retention."""
        limit = self.limit(horizon)
        if limit is None or sums.first is None or sums.first >= limit:
            return None
        return self.past(events, every, limit)

    def _near(self, state: State, built: Built, sums: Totals) -> tuple[Origins, DataFrame | None]:
        """The published rows that the late events can touch, as far as time and key tell."""
        if sums.first is None or sums.horizon is None:
            return Origins([]), None
        low, high = self._reached(built.definition, sums.first, sums.horizon)
        files = self.candidates(state, built, low, high)
        origins = Origins([each.path for each in files])
        if not files:
            return origins, None
        keys = built.sliced.key.inner
        rows = self.published(state.name, built, files)
        near = rows.where((F.col(START) <= high) & (F.col(END) >= low))
        if keys:
            near = of_keys(near, sent(built.frame, sums.accepted), keys, "left_semi")
        return origins, origins.with_bits(self.spark, near)

    def _reached(self, definition: Definition, first: int, last: int) -> tuple[int, int]:
        """Between which instants windows lie that the late events can touch, µs, inclusive."""
        window = definition.window
        if isinstance(window, SessionWindow):
            return first - window.gap.us, last + window.gap.us
        return self.widened((first, last + 1), [definition])

    def _found(
        self, whole: DataFrame, starts: Column, wanted: Column, origins: Origins, behind: Column
    ) -> _Found:
        """What there is to know of the merged windows, looked up at once."""
        row = whole.agg(
            F.sum(LATE).alias("late"),
            F.count_if(wanted & behind).alias("behind"),
            F.min(F.when(wanted, F.col(START))).alias("low"),
            F.max(F.when(wanted, F.col(END))).alias("high"),
            F.count_if(starts).alias("rows"),
            F.sum(F.when(starts, F.col(EVENTS))).alias("events"),
            *origins.joined(wanted),
        ).collect()[0]
        return _Found(
            late=row["late"] or 0,
            behind=row["behind"],
            bounds=None if row["low"] is None else (row["low"], row["high"]),
            seen=Seen(row["rows"], row["events"] or 0, tuple(origins.of(row))),
        )


def _contradicted(found: Sequence[Replaced]) -> SourceError:
    first, others = found[0], len(found) - 1
    what = "is gone" if first.gone else "has changed"
    more = f" (as are {others:,} others)" if others else ""
    way_out = "Run everything: backfill run JOB"
    if all(each.bounds is not None for each in found):
        dates = dates_of(found).ranges
        low, high = dates[0][0], dates[-1][1]
        way_out = f"Run the dates that it held: backfill run JOB --from {low} --to {high}"
    return SourceError(
        f"an input that was counted {what}{more}; its events cannot be taken out by merging",
        field=shown(first.path),
        way_out=way_out,
    )

"""A run over a range of dates: it reads events, and replaces every window that holds one there."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill.columns import END, EVENTS, START
from backfill.compute import Built, Sliced
from backfill.conservation import Totals, check_held
from backfill.events import spark_errors
from backfill.execution.exchange import Place, given_way, overlaps
from backfill.execution.partial import Exchange, Pending, duplicates_of, hull
from backfill.execution.results import Past, RunResult, WindowResult
from backfill.ledger.replaced import dates_of
from backfill.ledger.state import State
from backfill.planning.region import Region, RegionRun, Span
from backfill.quality.events import Counted
from backfill.time.dates import Dates, midnight
from backfill.windows import SessionWindow


@dataclass(frozen=True)
class _Made:
    """One table's windows of the range.

    Attributes:
        exchange: for the table.
        reached: the dates of what was looked at.
        every: all windows that hold an event of the range, those that are not published too.
        held: how many events they hold.
        assigned: how many the engine assigns to them.
    """

    exchange: Exchange
    reached: Dates
    every: Built
    held: int
    assigned: int


@dataclass(frozen=True)
class _Computed:
    """What a region came to.

    Attributes:
        covered: the covered dates of each table after this run.
        past: what is beyond retention.
        facts: for `history`.
        counted: the events, for the gate.
    """

    pending: list[Pending]
    covered: Mapping[str, Dates]
    past: Past | None
    facts: Mapping[str, Any]
    counted: Counted


class RangeRun(RegionRun):
    """Computes the windows of [from, to), whatever was published of them."""

    def __init__(self, *arguments: Any, until: dt.date | None = None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.until = until

    def execute(self) -> RunResult:
        """Runs, once."""
        with self.stack, spark_errors(self.source.snapshot):
            return self._compute()

    def _compute(self) -> RunResult:
        horizon = self._horizon()
        if horizon is None:
            raise self.nothing_usable()
        fresh = [
            path for path in self.fresh(self.inputs) if self.reader.may_hold(path, self.span())
        ]
        computed = [self._region(region, horizon) for region in self.regions()]
        last = computed[-1]
        unusable = self.unusable(fresh, last.past)
        checks = self.audit(
            replace(
                last.counted,
                read=last.counted.read + unusable.rows,
                quarantined=unusable.rows,
                until=None if self.until is None else midnight(self.until, self.spec.timezone),
                latest=horizon,
            ),
            {
                each.state.name: self.written(each, self.dates, horizon)
                for region in computed
                for each in region.pending
            },
        )
        results: dict[str, WindowResult] = {}
        closure = self.dates
        for region in computed:
            for each in region.pending:
                results[each.state.name] = self.commit(
                    each.state,
                    each.exchange,
                    counted=self.dates,
                    covered=region.covered[each.state.name],
                    closure=each.closure,
                    horizon=horizon,
                    facts={
                        **region.facts,
                        "changed": self.changed(each.exchange.staged, each.exchange.replaced),
                    },
                )
                closure |= each.closure
        self.quarantine(unusable, closure, horizon)
        self._tell_of_replaced()
        return RunResult(
            run_id=self.id,
            read=last.facts["read"] + unusable.rows,
            accepted=last.facts["accepted"],
            duplicates=last.facts["duplicates"],
            quarantined=unusable.reasons,
            windows={name: results[name] for name in self.definitions},
            horizon_us=horizon,
            seconds=time.monotonic() - self.began,
            checks=checks,
        )

    def _tell_of_replaced(self) -> None:
        """Says on which dates, besides the run's, windows are left of inputs that changed."""
        found = [each for name in self.definitions for each in self.replaced(self.states[name])]
        left = dates_of(found) - self.dates
        if left:
            ranges = ", ".join(f"[{low}, {high})" for low, high in left.ranges)
            self.progress(f"inputs of {ranges} are gone or have changed: run these dates, too")

    def _region(self, region: Region, horizon: int) -> _Computed:
        """Computes and writes a region's windows."""
        sliced, sums = self.slices_of(region)
        covered = self.covered_after(sliced, region)
        pending = []
        every: dict[str, Built] = {}
        for state in region.states:
            made = self._window(state, sliced, region, sums, horizon, covered[state.name])
            closure = self.dates | made.reached
            pending.append(Pending(state, made.exchange, closure, made.held, made.assigned))
            every[state.name] = made.every
            self.progress(f"{state.name}: {made.exchange.rows:,} windows computed")
        past = self._past(region, sums, horizon, every)
        facts = {
            "from": self.dates.ranges[0][0],
            "to": self.dates.ranges[0][1],
            "read": sums.rows,
            "accepted": sums.accepted - (past.events if past else 0),
            "duplicates": duplicates_of(sums, past),
        }
        counted = Counted(
            sliced=sliced,
            events=self.reader.events(region.counted, region.read),
            id=self.spec.id,
            read=sums.rows,
            quarantined=0,
            span=region.read,
        )
        return _Computed(pending, covered, past, facts, counted)

    def _horizon(self) -> int | None:
        """The largest event time in the snapshot, µs; only new inputs are looked at if they can."""
        known, seen = None, set()
        for name in self.definitions:
            record = self.states[name].record
            if record is None or any(
                path not in self.inputs or replace(self.inputs[path], counted=each.counted) != each
                for path, each in record.inputs.items()
            ):
                return self.reader.horizon(list(self.inputs), None)
            known, seen = record.horizon, set(record.inputs)
        return self.reader.horizon([each for each in self.inputs if each not in seen], known)

    def _window(
        self,
        state: State,
        sliced: Sliced,
        region: Region,
        sums: Totals,
        horizon: int,
        covered: Dates,
    ) -> _Made:
        definition = self.definitions[state.name]
        if isinstance(definition.window, SessionWindow):
            return self._session(state, sliced, region, horizon, covered)
        built = sliced.build(definition)
        every = self.kept(built.frame)
        (events,) = every.agg(F.sum(EVENTS)).collect()[0]
        check_held(state.name, events or 0, sums.assigned[state.name])
        inside = replace(built, frame=every.where(overlaps(built, region.span)))
        place, span = Place(region.span, None), _inclusive(region.read)
        self.check_removed(state, inside, place, span)
        kept = self.starts(covered) & self.lasting(built, horizon)
        ours = replace(built, frame=inside.frame.where(kept))
        exchange = self.exchange(state, ours, place, span, horizon)
        reached = self.hull(region.read[0], region.read[1] - 1)
        assigned = sums.assigned[state.name]
        return _Made(exchange, reached, replace(built, frame=every), events or 0, assigned)

    def _session(
        self,
        state: State,
        sliced: Sliced,
        region: Region,
        horizon: int,
        covered: Dates,
    ) -> _Made:
        definition = self.definitions[state.name]
        found = self.followed(state, sliced, region)
        frame = reduce(
            DataFrame.unionByName,
            (each.select(*sliced.frame.columns) for each in found.slices),
            sliced.frame,
        )
        whole = replace(sliced, frame=frame)
        built = whole.build(definition)
        every = self.kept(built.frame)
        held_events, assigned = self._check(state.name, every, frame)
        here = replace(built, frame=every)
        low, high = region.span
        # What lies inside the range gives way as such.
        over = self.kept(found.extents.where((F.col(START) < low) | (F.col(END) >= high)))
        within = overlaps(here, region.span)
        beyond = given_way(every.where(~within), here, Place(None, over), "left_semi")
        inside = replace(built, frame=every.where(within).unionByName(beyond))
        edges = [low, high - 1, *(hull(over) or ())]
        place, span = Place(region.span, over), (min(edges), max(edges))
        self.check_removed(state, inside, place, span)
        kept = self.starts(covered) & self.lasting(here, horizon)
        ours = replace(built, frame=inside.frame.where(kept))
        exchange = self.exchange(state, ours, place, span, horizon)
        if not found.steps:
            return _Made(exchange, self.dates, here, held_events, assigned)
        first, last = found.low, found.high
        bounds = [each for each in (first, *edges) if each is not None]
        ends = [each - 1 for each in (last,) if each is not None]
        reached = self.hull(min(bounds), max([*edges, *ends]))
        return _Made(exchange, reached, here, held_events, assigned)

    def _past(
        self, region: Region, sums: Totals, horizon: int, every: Mapping[str, Built]
    ) -> Past | None:
        """What of the range's events is beyond retention."""
        limit = self.limit(horizon)
        if limit is None or sums.first is None or sums.first >= limit:
            return None
        return self.past(self.reader.events(region.counted, region.span), every, limit)

    def _check(self, name: str, windows: DataFrame, slices: DataFrame) -> tuple[int, int]:
        """How many events the sessions hold, and how many there are: as many."""
        held, assigned = (
            each.agg(F.sum(EVENTS)).collect()[0][0] or 0 for each in (windows, slices)
        )
        check_held(name, held, assigned)
        return held, assigned


def _inclusive(span: Span) -> Span:
    return span[0], span[1] - 1

"""A run over a range of dates: it reads events, and replaces every window that holds one there."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill.columns import END, EVENTS, FIRST, LAST, START
from backfill.compute import Built, Definition, Sliced
from backfill.conservation import Totals, check_held
from backfill.events import spark_errors
from backfill.history.closure import Followed, follow
from backfill.history.dates import Dates, date_of, midnight
from backfill.history.exchange import Place, given_way, overlaps
from backfill.history.partial import Exchange, PartialRun, Pending, counted_by, duplicates_of, hull
from backfill.history.reading import events_of
from backfill.history.results import Past, RunResult, WindowResult
from backfill.history.state import State
from backfill.operators.calendar import local_date
from backfill.quality.events import Counted
from backfill.tables import LiveFile
from backfill.windows import SessionWindow

_DAY = dt.timedelta(days=1)
Span = tuple[int, int]


@dataclass
class Region:
    """What a range run reads for every key, of the tables that have counted the same.

    Attributes:
        counted: the dates on which each input counts.
        span: the range itself, µs, [low, high).
        read: the same, with what aligned windows need that reach over its edges.
        limits: the least and largest event time of all inputs; None where it is not known.
    """

    states: list[State]
    counted: Mapping[str, Dates]
    span: Span
    read: Span
    limits: tuple[int | None, int | None]

    @property
    def names(self) -> list[str]:
        """The tables."""
        return [state.name for state in self.states]


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


class RangeRun(PartialRun):
    """Computes the windows of [from, to), whatever was published of them."""

    def __init__(
        self, *arguments: Any, dates: Dates, until: dt.date | None = None, **options: Any
    ) -> None:
        super().__init__(*arguments, **options)
        self.dates, self.until = dates, until

    def execute(self) -> RunResult:
        """Runs, once."""
        with self.stack, spark_errors(self.source.snapshot):
            return self._compute()

    def preview(self) -> Iterator[tuple[str, Followed, list[LiveFile]]]:
        """How far each window's run would read, and which files it may write anew."""
        with self.stack, spark_errors(self.source.snapshot):
            for region in self.regions():
                sliced, _ = self._sliced(region)
                for state in region.states:
                    definition = self.definitions[state.name]
                    built = Built(sliced.frame, definition, sliced)
                    found = Followed(*region.read)
                    if isinstance(definition.window, SessionWindow):
                        held = self._held(state, sliced, definition, region)
                        found = self.followed(state, sliced, region, held)
                    high = None if found.high is None else found.high - 1
                    yield state.name, found, self.candidates(state, built, found.low, high)

    def regions(self) -> list[Region]:
        """What is to be read; more than one only where an earlier run was killed halfway."""
        for name in self.definitions:
            if self.states[name].record is not None:
                _ = self.states[name].settled
        low, high = self.span()
        return [
            Region(
                states=group,
                counted=counted_by(group[0].record, self.inputs, self.dates),
                span=(low, high),
                read=self._read_region(group),
                limits=self.reader.limits(list(self.inputs)),
            )
            for group in self.groups(self.definitions)
        ]

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

    def _region(self, region: Region, horizon: int) -> _Computed:
        """Computes and writes a region's windows."""
        sliced, sums = self._sliced(region)
        covered = self._covered(sliced, region)
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

    def span(self) -> Span:
        """The range, µs, [low, high)."""
        ((low, high),) = self.dates.spans(self.spec.timezone)
        assert low is not None
        assert high is not None
        return low, high

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

    def _sliced(self, region: Region) -> tuple[Sliced, Totals]:
        """The slices of the region's events, kept; and their sums, checked against the rows."""
        self.progress("reading the range into slices")
        kept, sums = self.sliced(self.reader.events(region.counted, region.read), region.names)
        self.progress(f"{sums.accepted:,} events accepted")
        return kept, sums

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
        kept = self.starts(covered) & self.lasting(built, horizon)
        ours = replace(built, frame=every.where(overlaps(built, region.span) & kept))
        exchange = self.exchange(
            state, ours, Place(region.span, None), _inclusive(region.read), horizon
        )
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
        held = self._held(state, sliced, definition, region)
        found = self.followed(state, sliced, region, held)
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
        inside = every.where(overlaps(here, region.span))
        if held is not None:
            # What is left of a published session that an event of the range held together.
            outside = every.where(~overlaps(here, region.span))
            inside = inside.unionByName(given_way(outside, here, Place(None, held), "left_semi"))
        reach = hull(inside)
        low, high = region.span
        over = inside.where((F.col(START) < low) | (F.col(END) >= high))
        kept = self.starts(covered) & self.lasting(here, horizon)
        ours = replace(built, frame=inside.where(kept))
        edges = [low, high - 1, *(reach or ())]
        exchange = self.exchange(
            state, ours, Place(region.span, over), (min(edges), max(edges)), horizon
        )
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

    def _held(
        self, state: State, sliced: Sliced, definition: Definition, region: Region
    ) -> DataFrame | None:
        """The published sessions that reach over an edge of the range: key, start, end."""
        built = Built(sliced.frame, definition, sliced)
        low, high = region.span
        files = self.candidates(state, built, low, high)
        if not files:
            return None
        rows = self.published(state.name, built, files)
        crossing = (F.col(START) < low) | (F.col(END) >= high)
        held = rows.where(overlaps(built, region.span) & crossing)
        return self.kept(held.select(*sliced.key.inner, START, END))

    def followed(
        self, state: State, sliced: Sliced, region: Region, held: DataFrame | None
    ) -> Followed:
        """Slices beyond the region, of the keys whose sessions reach over its edges."""
        definition = self.definitions[state.name]
        window, keys = definition.window, sliced.key.inner
        assert isinstance(window, SessionWindow)
        rules = self.spec.engine.rules_for(window)
        extents = self.extents(sliced, definition, held, region.span)
        found = follow(
            extents,
            window,
            rules,
            keys,
            region=region.read,
            limits=region.limits,
            read=lambda low, high, wanted: self._read(region, sliced, low, high, wanted),
        )
        for step in found.steps:
            self.progress(f"{state.name}: {step.keys:,} keys have sessions over the range's edge")
        return found

    def _read_region(self, group: Sequence[State]) -> Span:
        """The range, with what windows need that reach over its edges.

        Where they reach back to a date that is not covered, all of it is read, which tells
        whether it has events.
        """
        span = self.span()
        low, high = self.widened(span, (self.definitions[each.name] for each in group))
        zone = self.spec.timezone
        covered = Dates() if group[0].record is None else group[0].record.covered
        if low < span[0] and Dates.between(date_of(low, zone), self.dates.ranges[0][0]) - covered:
            begins = midnight(date_of(low, zone), zone)
            assert begins is not None
            low = begins
        return low, high

    def _read(
        self,
        region: Region,
        sliced: Sliced,
        low: int | None,
        high: int | None,
        wanted: DataFrame,
    ) -> DataFrame:
        """The slices of some keys' events beyond the region."""
        events = events_of(self.reader.events(region.counted, (low, high)), sliced.key, wanted)
        return self.kept(self.slices(events, region.names).frame)

    def _covered(self, sliced: Sliced, region: Region) -> dict[str, Dates]:
        """The covered dates of each table after this run.

        From the first to the last date of the range that has events; and the dates before that
        have none, as far as windows reach that hold events of the range: nothing else will ever
        compute them.
        """
        zone = self.spec.timezone
        first, last = (local_date(F.col(each), zone) for each in (FIRST, LAST))
        rows = sliced.frame.select(F.explode(F.sequence(first, last))).distinct().collect()
        dates = {row[0] for row in rows}
        here = [each for each in dates if each in self.dates]
        new = Dates()
        if here:
            low, earliest = min(here), date_of(region.read[0], zone)
            while low > earliest and low - _DAY not in dates:
                low -= _DAY
            new = Dates.between(low, max(here) + _DAY)
        return {
            state.name: new | (Dates() if state.record is None else state.record.covered)
            for state in region.states
        }


def _inclusive(span: Span) -> Span:
    return span[0], span[1] - 1

"""What a run over a range of dates reads: the range, and beyond it what reaches over its edges."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill.columns import END, FIRST, LAST, START
from backfill.compute import Built, Definition, Sliced
from backfill.conservation import Totals, check_none_lost
from backfill.events import spark_errors
from backfill.execution.exchange import Place, given_way, overlaps
from backfill.execution.losses import fewer, outside, unlike
from backfill.execution.partial import PartialRun, hull
from backfill.ledger.reader import events_of, events_within
from backfill.ledger.replaced import counted_by
from backfill.ledger.state import State
from backfill.operators.calendar import local_date
from backfill.planning.closure import Followed, follow
from backfill.store import LiveFile
from backfill.time.dates import Dates, date_of, midnight
from backfill.windows import SessionWindow

_DAY = dt.timedelta(days=1)
Span = tuple[int, int]
#: [low, high), µs; None: no bound.
Reach = tuple[int | None, int | None]


@dataclass
class Region:
    """What a range run reads for every key, of the tables that have counted the same.

    Attributes:
        counted: the dates on which each input counts.
        span: the range itself, µs, [low, high).
        read: the same, with what aligned windows need that reach over its edges.
    """

    states: list[State]
    counted: Mapping[str, Dates]
    span: Span
    read: Span

    @property
    def names(self) -> list[str]:
        """The tables."""
        return [state.name for state in self.states]


class RegionRun(PartialRun):
    """Reads what the windows of [from, to) are made of."""

    def __init__(self, *arguments: Any, dates: Dates, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.dates = dates

    def preview(self) -> Iterator[tuple[str, int, Reach, list[LiveFile]]]:
        """What each window's run would do.

        Yields:
            The window, how many keys are followed, how far is read, which files may be rewritten.
        """
        with self.stack, spark_errors(self.source.snapshot):
            for region in self.regions():
                sliced, _ = self.slices_of(region)
                for state in region.states:
                    definition = self.definitions[state.name]
                    built = Built(sliced.frame, definition, sliced)
                    keys = 0
                    reach: Reach = region.read
                    if isinstance(definition.window, SessionWindow):
                        found = self.followed(state, sliced, region)
                        keys = found.steps[0].keys if found.steps else 0
                        reach = found.low, found.high
                    high = None if reach[1] is None else reach[1] - 1
                    files = self.candidates(state, built, reach[0], high)
                    yield state.name, keys, reach, files

    def regions(self) -> list[Region]:
        """What is to be read; more than one only where an earlier run was killed halfway."""
        for name in self.definitions:
            if self.states[name].record is not None:
                _ = self.states[name].settled
        low, high = self.span()
        return [
            Region(
                states=group,
                counted=counted_by(group[0].record, self.inputs, self.dates, self.spec.timezone),
                span=(low, high),
                read=self._read_region(group),
            )
            for group in self.groups(self.definitions)
        ]

    def span(self) -> Span:
        """The range, µs, [low, high)."""
        ((low, high),) = self.dates.spans(self.spec.timezone)
        assert low is not None
        assert high is not None
        return low, high

    def slices_of(self, region: Region) -> tuple[Sliced, Totals]:
        """The slices of the region's events, kept; and their sums, checked against the rows."""
        paths = [
            path
            for path, dates in region.counted.items()
            if dates and self.reader.may_hold(path, region.read)
        ]
        self.choose(paths, region.names)
        self.progress("reading the range into slices")
        kept, sums = self.sliced(self.reader.events(region.counted, region.read), region.names)
        self.progress(f"{sums.accepted:,} events accepted")
        return kept, sums

    def beyond(
        self, state: State, sliced: Sliced, definition: Definition, region: Region
    ) -> DataFrame | None:
        """The published sessions of the region that are not inside the range: key, start, end.

        Those inside give way, and nothing beyond the range depends on them.
        """
        built = Built(sliced.frame, definition, sliced)
        (low, high), (first, last) = region.span, region.read
        files = self.candidates(state, built, first, last - 1)
        if not files:
            return None
        rows = self.published(state.name, built, files)
        outside = (F.col(START) < low) | (F.col(END) >= high)
        held = rows.where(overlaps(built, region.read) & outside)
        return self.kept(held.select(*sliced.key.inner, START, END))

    def followed(self, state: State, sliced: Sliced, region: Region) -> Followed:
        """Slices beyond the region, of the keys whose sessions reach over its edges."""
        definition = self.definitions[state.name]
        window, keys = definition.window, sliced.key.inner
        assert isinstance(window, SessionWindow)
        rules = self.spec.engine.rules_for(window)
        whole = beside = None
        held = self.beyond(state, sliced, definition, region)
        if held is not None:
            inside = overlaps(Built(held, definition, sliced), region.span)
            whole, beside = held.where(inside), held.where(~inside)
        extents = self.extents(sliced, definition, whole, beside, region.span)
        low, high = region.span
        gap = window.gap.us
        near = (F.col(START) - low <= gap) | (F.lit(high) - F.col(END) <= gap)
        found = follow(
            extents.where(near),
            window,
            rules,
            keys,
            region=region.read,
            limits=self.limits(state),
            read=lambda low, high, wanted: self._read(region, sliced, low, high, wanted),
            published=lambda low, high, wanted: self.published_extents(
                state, sliced, (low, high), wanted
            ),
        )
        for step in found.steps:
            self.progress(f"{state.name}: {step.keys:,} keys have sessions over the range's edge")
        return found

    def check_removed(
        self, state: State, written: Built, place: Place, hull_: tuple[int, int]
    ) -> None:
        """What the windows held that give way is in windows written, as far as it is in the source.

        Only where fewer events are in their place are events read again: those of these windows.

        Args:
            state: the table.
            written: the windows that were computed in their place.
            place: what gives way.
            hull_: the instants between which that lies, µs, inclusive.

        Raises:
            ConservationError: events of a window that is removed are in no window written.
        """
        removed = self.given_way(state, written, place, hull_)
        if removed is None:
            return
        lost = self.kept(fewer(removed, written))
        bounds = hull(lost)
        if bounds is None:
            return
        low, high = bounds
        counted = counted_by(state.record, self.inputs, self.dates, self.spec.timezone)
        events = events_within(
            self.reader.events(counted, (low, high + 1)), written.sliced.key, lost
        )
        sliced = self.slices(events, [state.name])
        if isinstance(written.definition.window, SessionWindow):
            wrong = outside(sliced.frame, written)
        else:
            again = sliced.build(written.definition)
            wrong = unlike(given_way(again.frame, again, Place(None, lost), "left_semi"), written)
        check_none_lost(state.name, wrong.count())

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

    def covered_after(self, sliced: Sliced, region: Region) -> dict[str, Dates]:
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

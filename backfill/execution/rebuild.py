"""Windows that can't be had by merging, built from events: theirs and no others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from backfill.columns import END, START
from backfill.compute import Built, Definition, Sliced
from backfill.errors import SourceError
from backfill.events.model import shown
from backfill.execution.exchange import Place, given_way, of_keys
from backfill.execution.losses import fewer
from backfill.execution.partial import PartialRun, hull
from backfill.ledger.reader import events_of, events_within
from backfill.ledger.record import Record
from backfill.ledger.state import State
from backfill.planning.closure import follow
from backfill.time.dates import ALL
from backfill.windows import SessionWindow


class RebuildingRun(PartialRun):
    """A run that counts every input everywhere, and builds some windows from their events.

    These are windows of an aggregate that needs all its events, and sessions that reach to dates
    that are not covered, whose sessions are not published.
    """

    def behind(self, record: Record, definition: Definition) -> Column:
        """Whether something that is not published could belong to the window.

        Sessions that start on a date that is not covered are in no table, however far they reach;
        so every window behind such a date is looked at, if there can be events on it. And windows
        that ended before a limit of retention were dropped.
        """
        window = definition.window
        if not isinstance(window, SessionWindow):
            # What had ended was dropped; should it be kept after all, its events are needed.
            return F.lit(False) if record.expired is None else F.col(END) < record.expired
        least, most = self.reader.limits(list(self.inputs))
        tests = [F.lit(False)]
        if record.expired is not None:
            tests.append(F.col(START) - window.gap.us <= record.expired)
        for low, high in record.covered.rest().spans(self.spec.timezone):
            empty = (high is not None and least is not None and least >= high) or (
                low is not None and most is not None and most < low
            )
            if not empty:
                tests.append(F.lit(True) if low is None else F.col(END) + window.gap.us >= low)
        return reduce(or_, tests)

    def rebuilt(
        self,
        state: State,
        names: Sequence[str],
        sliced: Sliced,
        wanted: DataFrame,
        record: Record,
    ) -> tuple[DataFrame, DataFrame]:
        """The final windows, and the extents that they take the place of.

        Args:
            state: the table.
            names: the tables whose slices to make.
            sliced: slices of the same key.
            wanted: merged windows. They are final where states could be merged and no session
                reaches to a date that is not covered.
            record: what was counted and covered before.

        Raises:
            SourceError: the source does not hold what was counted.
        """
        definition = self.definitions[state.name]
        final, extents = self._rebuilt(state, names, sliced, wanted, record)
        final = self.kept(final)
        lost = hull(fewer(wanted, Built(final, definition, sliced)))
        if lost is not None:
            (low, high), *_ = self.hull(*lost).ranges
            raise SourceError(
                "does not hold events any more that were counted; they cannot be taken out by "
                "merging",
                field="source",
                value=shown(self.spec.source.path),
                way_out=f"Run these dates: backfill run JOB --from {low} --to {high}",
            )
        return final, extents

    def _rebuilt(
        self,
        state: State,
        names: Sequence[str],
        sliced: Sliced,
        wanted: DataFrame,
        record: Record,
    ) -> tuple[DataFrame, DataFrame]:
        definition = self.definitions[state.name]
        keys = sliced.key.inner
        bounds = [*keys, START, END]
        columns = sliced.build(definition).frame.columns
        if not isinstance(definition.window, SessionWindow):
            final = self._from_events(names, sliced, definition, wanted)
            return final.select(*columns), wanted.select(*bounds)
        behind = self.kept(wanted.where(self.behind(record, definition)).select(*keys))
        settled = of_keys(wanted, behind, keys, "left_anti")
        edge = of_keys(wanted, behind, keys, "left_semi").select(*bounds)
        final = (
            settled.select(*columns)
            if definition.mergeable
            else self._from_events(names, sliced, definition, settled).select(*columns)
        )
        extents = wanted.select(*bounds)
        if not behind.count():
            return final, extents
        followed, over = self._followed(state, names, sliced, edge)
        return final.unionByName(followed.select(*columns)), extents.unionByName(over)

    def _from_events(
        self, names: Sequence[str], sliced: Sliced, definition: Definition, windows: DataFrame
    ) -> DataFrame:
        """These windows, whose bounds are known, from their events and no others."""
        wanted = self.kept(windows.select(*sliced.key.inner, START, END))
        bounds = hull(wanted)
        low, high = bounds if bounds is not None else (0, -1)
        events = events_within(self._events((low, high + 1)), sliced.key, wanted)
        again = self.slices(events, names).build(definition)
        place = Place(None, wanted)
        return given_way(again.frame, again, place, "left_semi")

    def _followed(
        self, state: State, names: Sequence[str], sliced: Sliced, edge: DataFrame
    ) -> tuple[DataFrame, DataFrame]:
        """The sessions of these extents, from events, followed outward until they close.

        Returns:
            The sessions, and the extents of what they take the place of.
        """
        definition = self.definitions[state.name]
        window, keys = definition.window, sliced.key.inner
        assert isinstance(window, SessionWindow)
        edge = self.kept(edge)
        bounds = hull(edge)
        assert bounds is not None
        gap = window.gap.us
        region = (bounds[0] - gap - 1, bounds[1] + gap + 2)

        def read(low: int | None, high: int | None, wanted: DataFrame) -> DataFrame:
            events = events_of(self._events((low, high)), sliced.key, wanted)
            return self.kept(self.slices(events, names).frame)

        events = events_of(self._events(region), sliced.key, edge)
        inside = self.slices(events, names)
        kept = replace(inside, frame=self.kept(inside.frame))
        beside = self.published_extents(state, sliced, region, edge)
        extents = self.extents(kept, definition, edge, beside)
        found = follow(
            extents,
            window,
            self.spec.engine.rules_for(window),
            keys,
            region=region,
            limits=self.limits(state),
            read=read,
            published=lambda low, high, wanted: self.published_extents(
                state, sliced, (low, high), wanted
            ),
        )
        whole = replace(kept, frame=reduce(DataFrame.unionByName, found.slices, kept.frame))
        built = whole.build(definition)
        over = self.kept(found.extents)
        return given_way(built.frame, built, Place(None, over), "left_semi"), over

    def _events(self, span: tuple[int | None, int | None]) -> DataFrame:
        """All events of a span: after this run every input is counted everywhere."""
        return self.reader.events(dict.fromkeys(self.inputs, ALL), span)

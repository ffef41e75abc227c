"""Windows that can't be had by merging, built from events: theirs and no others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from backfill.columns import END, START, TIME
from backfill.compute import Definition, Sliced
from backfill.history.closure import follow
from backfill.history.dates import ALL
from backfill.history.exchange import Place, given_way, of_keys
from backfill.history.partial import PartialRun, hull
from backfill.history.reading import events_of
from backfill.history.record import Record
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
        names: Sequence[str],
        sliced: Sliced,
        definition: Definition,
        wanted: DataFrame,
        record: Record,
    ) -> tuple[DataFrame, DataFrame]:
        """The final windows, and the extents that they take the place of.

        Args:
            names: the tables whose slices to make.
            sliced: slices of the same key.
            definition: the window and its aggregates.
            wanted: merged windows. They are final where states could be merged and no session
                reaches to a date that is not covered.
            record: what was counted and covered before.
        """
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
        sessions = self.kept(self._followed(names, sliced, definition, edge))
        return (
            final.unionByName(sessions.select(*columns)),
            extents.unionByName(sessions.select(*bounds)),
        )

    def _from_events(
        self, names: Sequence[str], sliced: Sliced, definition: Definition, windows: DataFrame
    ) -> DataFrame:
        """These windows, whose bounds are known, from their events and no others."""
        wanted = self.kept(windows.select(*sliced.key.inner, START, END))
        bounds = hull(wanted)
        low, high = bounds if bounds is not None else (0, -1)
        inside = (F.col(TIME) >= F.col(f"_wanted{START}")) & (F.col(TIME) <= F.col(f"_wanted{END}"))
        events = events_of(self._events((low, high + 1)), sliced.key, wanted, inside)
        again = self.slices(events, names).build(definition)
        place = Place(None, wanted)
        return given_way(again.frame, again, place, "left_semi")

    def _followed(
        self, names: Sequence[str], sliced: Sliced, definition: Definition, edge: DataFrame
    ) -> DataFrame:
        """The sessions of these extents, from events, followed outward until they close."""
        window = definition.window
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
        rules = self.spec.engine.rules_for(window)
        extents = self.extents(kept, definition, edge)
        found = follow(
            extents,
            window,
            rules,
            sliced.key.inner,
            region=region,
            limits=self.reader.limits(list(self.inputs)),
            read=read,
        )
        whole = replace(kept, frame=reduce(DataFrame.unionByName, found.slices, kept.frame))
        built = whole.build(definition)
        return given_way(built.frame, built, Place(None, edge), "left_semi")

    def _events(self, span: tuple[int | None, int | None]) -> DataFrame:
        """All events of a span: after this run every input is counted everywhere."""
        return self.reader.events(dict.fromkeys(self.inputs, ALL), span)

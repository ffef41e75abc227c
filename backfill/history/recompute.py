"""Late events merged into what is published; no event that was counted before is read for it."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import and_, or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from backfill.columns import END, START, TIME, column
from backfill.compute import Built, Definition, Sliced
from backfill.conservation import Totals, check_held
from backfill.errors import SourceError
from backfill.events import spark_errors
from backfill.events.model import shown
from backfill.history.base import RunResult, WindowResult
from backfill.history.closure import follow
from backfill.history.dates import ALL, Dates
from backfill.history.exchange import Place, given_way
from backfill.history.merge import FILES, LATE, merged
from backfill.history.partial import Exchange, PartialRun, hull
from backfill.history.record import Record
from backfill.history.state import State
from backfill.operators.calendar import local_date
from backfill.windows import SessionWindow


class RecomputeRun(PartialRun):
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
        for path, before in record.inputs.items():
            now = self.inputs.get(path)
            if now is None:
                raise self._contradicted(path, "is gone")
            if now.digest != before.digest or now.size != before.size:
                raise self._contradicted(path, "has changed")
        late = {
            path: record.inputs[path].counted.rest() if path in record.inputs else ALL
            for path in self.inputs
        }
        return {path: dates for path, dates in late.items() if dates}

    def _contradicted(self, path: str, what: str) -> SourceError:
        return SourceError(
            f"an input that was counted {what}; its events cannot be taken out by merging",
            field=shown(path),
            way_out="Recompute the dates that it holds: backfill run JOB --from DATE --to DATE, "
            "or everything: backfill run JOB",
        )

    def _compute(self) -> RunResult | None:
        results: dict[str, WindowResult] = {}
        read = accepted = duplicates = 0
        closure = Dates()
        horizon: int | None = None
        for group in self.groups(self.definitions):
            record = group[0].settled
            for state in group:
                _ = state.settled
            late = self.late_inputs(record)
            if not late:
                continue
            names = [state.name for state in group]
            sliced, sums = self._sliced(record, late, names)
            read, accepted = read + sums.rows, accepted + sums.accepted
            duplicates += sums.rows - sums.accepted
            known = [each for each in (record.horizon, sums.horizon) if each is not None]
            horizon = max(known)
            pending = []
            for state in group:
                exchange, dates = self._window(state, record, names, sliced, sums, horizon)
                pending.append((state, exchange, dates))
                self.progress(f"{state.name}: {exchange.rows:,} windows changed")
            for state, exchange, dates in pending:
                results[state.name] = self.commit(
                    state,
                    exchange,
                    counted=ALL,
                    covered=Dates(),
                    closure=dates,
                    horizon=horizon,
                    facts={
                        "late": sums.accepted,
                        "read": sums.rows,
                        "accepted": sums.accepted,
                        "duplicates": sums.rows - sums.accepted,
                        "changed": exchange.rows,
                    },
                )
                closure |= dates
        fresh = self.fresh(self.inputs)
        if not results and not fresh:
            return None
        unusable, found = self.quarantine(fresh, closure, horizon)
        return RunResult(
            run_id=self.id,
            read=read + unusable,
            accepted=accepted,
            duplicates=duplicates,
            quarantined=found,
            windows=results,
            horizon_us=horizon,
            seconds=time.monotonic() - self.began,
        )

    def _sliced(
        self, record: Record, late: Mapping[str, Dates], names: Sequence[str]
    ) -> tuple[Sliced, Totals]:
        """The slices of the late events, kept; without those that were counted before."""
        events = self.reader.events(late)
        if self.spec.id is not None:
            events = self._not_counted(events, record)
        kept, sums = self.sliced(events, names)
        self.progress(f"{sums.accepted:,} late events")
        return kept, sums

    def _not_counted(self, events: DataFrame, record: Record) -> DataFrame:
        """Without redeliveries of events that are in the windows already.

        Only key, time and id of the dates that late events fall in are looked up.
        """
        assert self.spec.id is not None
        dates = self._dates(events)
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
        return events.join(known, reduce(and_, same), "left_anti")

    def _dates(self, events: DataFrame) -> Dates:
        """The dates that events fall in."""
        date = local_date(F.col(TIME), self.spec.timezone)
        rows = events.select(date).distinct().collect()
        return Dates.of((row[0], row[0] + dt.timedelta(days=1)) for row in rows)

    def _window(
        self,
        state: State,
        record: Record,
        names: Sequence[str],
        sliced: Sliced,
        sums: Totals,
        horizon: int,
    ) -> tuple[Exchange, Dates]:
        """The windows that the late events change, written beside those that they do not."""
        definition = self.definitions[state.name]
        built = Built(sliced.frame, definition, sliced)
        rows = None
        if sums.first is not None and sums.horizon is not None:
            files = self.candidates(state, built, *self._reached(definition, sums))
            rows = self.published(state.name, built, files) if files else None
        # Where states can't be merged, merging tells which windows are to be built from events.
        known = definition if definition.mergeable else replace(definition, aggregates={})
        whole = self.kept(merged(sliced, known, rows))
        self._check(state.name, whole, definition, sums)
        final, extents = self._rebuilt(record, names, sliced, definition, whole)
        ours = replace(built, frame=final.where(self.starts(record.covered)))
        bounds = hull(extents)
        exchange = self.exchange(state, ours, Place(None, extents), bounds, horizon)
        return exchange, Dates() if bounds is None else self.hull(*bounds)

    def _reached(self, definition: Definition, sums: Totals) -> tuple[int, int]:
        """Between which instants windows lie that the late events can touch, µs, inclusive."""
        assert sums.first is not None
        assert sums.horizon is not None
        window = definition.window
        if isinstance(window, SessionWindow):
            return sums.first - window.gap.us, sums.horizon + window.gap.us
        return self.widened((sums.first, sums.horizon + 1), [definition])

    def _check(self, name: str, whole: DataFrame, definition: Definition, sums: Totals) -> None:
        (events,) = whole.agg(F.sum(LATE)).collect()[0]
        check_held(name, events or 0, sums.assigned[name])

    def _rebuilt(
        self,
        record: Record,
        names: Sequence[str],
        sliced: Sliced,
        definition: Definition,
        whole: DataFrame,
    ) -> tuple[DataFrame, DataFrame]:
        """The final windows, and the extents that they take the place of.

        Merged ones are final, but for those of an aggregate that needs all its events, and for
        sessions that reach to dates that are not covered, whose sessions are not published: these
        are built from events.
        """
        keys = sliced.key.inner
        bounds = [*keys, START, END]
        window = definition.window
        published = F.size(FILES) > 0
        starts = self.starts(record.covered)
        wanted = whole.where(starts | published)
        edge: DataFrame | None = None
        if isinstance(window, SessionWindow):
            near = self._near(record.covered.rest(), window.gap.us)
            edge = self.kept(wanted.where(near).select(*bounds))
            if not edge.count():
                edge = None
        settled = wanted
        if edge is not None:
            others = edge.select(*(F.col(each).alias(f"_edge{each}") for each in keys)).distinct()
            same = [F.col(each).eqNullSafe(F.col(f"_edge{each}")) for each in keys]
            condition = reduce(and_, same, F.lit(True))
            settled = wanted.join(others, condition, "left_anti")
            edge = wanted.join(others, condition, "left_semi").select(*bounds)
        extents = wanted.select(*bounds)
        columns = sliced.build(definition).frame.columns
        final = (
            settled
            if definition.mergeable
            else self._from_events(names, sliced, definition, settled)
        )
        final = final.select(*columns)
        if edge is not None:
            sessions = self.kept(self._followed(names, sliced, definition, edge))
            final = final.unionByName(sessions.select(*columns))
            extents = extents.unionByName(sessions.select(*bounds))
        return final, extents

    def _near(self, uncovered: Dates, gap: int) -> Column:
        """Whether a session that is not published could belong to the window.

        Sessions that start on a date that is not covered are in no table, however far they reach;
        so every window behind such a date is looked at, if there can be events on it.
        """
        least, most = self.reader.limits(list(self.inputs))
        tests = [F.lit(False)]
        for low, high in uncovered.spans(self.spec.timezone):
            empty = (high is not None and least is not None and least >= high) or (
                low is not None and most is not None and most < low
            )
            if not empty:
                tests.append(F.lit(True) if low is None else F.col(END) + gap >= low)
        return reduce(or_, tests)

    def _from_events(
        self, names: Sequence[str], sliced: Sliced, definition: Definition, windows: DataFrame
    ) -> DataFrame:
        """These windows, whose bounds are known, from their events and no others."""
        wanted = self.kept(windows.select(*sliced.key.inner, START, END))
        bounds = hull(wanted)
        low, high = bounds if bounds is not None else (0, -1)
        inside = (F.col(TIME) >= F.col(f"_wanted{START}")) & (F.col(TIME) <= F.col(f"_wanted{END}"))
        events = self.of_keys(self._events((low, high + 1)), sliced, wanted, inside)
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
            events = self.of_keys(self._events((low, high)), sliced, wanted)
            return self.kept(self.slices(events, names).frame)

        events = self.of_keys(self._events(region), sliced, edge)
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

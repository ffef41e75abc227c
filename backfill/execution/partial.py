"""What runs over a part of the dates have in common: which rows give way, and the commit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import groupby
from operator import or_

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from backfill.columns import END, EVENTS, FIRST, LAST, START
from backfill.compute import Built, Definition, Sliced
from backfill.conservation import Totals, check_rows, totals
from backfill.execution.exchange import (
    FEW,
    Place,
    as_published,
    given_way,
    of_keys,
    overlaps,
    remaining,
    touched,
)
from backfill.execution.gate import Rows
from backfill.execution.origins import FILE, file_of_table
from backfill.execution.published import with_bounds
from backfill.execution.quarantine import QuarantiningRun
from backfill.execution.results import Past, WindowResult
from backfill.execution.retention import ended
from backfill.ledger.reader import inside_span
from backfill.ledger.state import State
from backfill.operators.session import last_event, sessions
from backfill.planning.closure import as_span
from backfill.store import LiveFile, StagedFiles
from backfill.time.dates import Dates
from backfill.windows import SessionWindow

_WHOLE = "_whole"
#: A part of a table is often one date's: by Spark's setting, 64 MiB, one task would write it all.
_TASK = 8 * 1024 * 1024


@dataclass(frozen=True)
class Exchange:
    """Files of a table to be replaced by staged ones.

    Attributes:
        rows: the number of new windows.
        events: the sum of their numbers of events.
    """

    staged: StagedFiles
    replaced: tuple[str, ...]
    rows: int
    events: int


@dataclass(frozen=True)
class Pending:
    """One table's part of a run: written, and not published yet.

    Attributes:
        closure: the dates of what was looked at.
        held: how many events the windows hold that the run computed.
        assigned: how many the engine assigns to them.
        few: the slices that the run is of, if they are few: windows of other keys are copies.
    """

    state: State
    exchange: Exchange
    closure: Dates
    held: int
    assigned: int
    few: Sliced | None = None


@dataclass(frozen=True)
class Seen:
    """What a run knows of its new windows already.

    Attributes:
        rows: their number.
        events: the sum of their numbers of events.
        replaced: the files that hold what they take the place of.
    """

    rows: int
    events: int
    replaced: tuple[str, ...]


class PartialRun(QuarantiningRun):
    """A run that leaves most of a table as it is."""

    def groups(self, names: Iterable[str]) -> list[list[State]]:
        """The windows' tables, those together that have counted the same.

        They differ only where a run was killed between its commits.
        """

        def counted(state: State) -> str:
            if state.record is None:
                return ""
            inputs = {path: each.counted.json() for path, each in state.record.inputs.items()}
            return repr((state.record.covered.json(), sorted(inputs.items())))

        found = sorted((self.states[name] for name in names), key=counted)
        return [list(each) for _, each in groupby(found, key=counted)]

    def published(self, name: str, built: Built, files: Sequence[LiveFile]) -> DataFrame:
        """Rows of a table with their bounds and the file that each is in."""
        rows = self.store.read(
            self.spark, name, version=self.states[name].version, files=[each.path for each in files]
        )
        return self._bounded(rows.withColumn(FILE, file_of_table()), built)

    def candidates(
        self, state: State, built: Built, low: int | None, high: int | None
    ) -> list[LiveFile]:
        """The live files that can hold windows with an instant in [low, high], by statistics."""
        if state.version is None:
            return []
        found = []
        for file in self.store.live(state.name, version=state.version):
            first, last = file.minimum.get("window_start"), file.maximum.get("window_end")
            after = high is not None and first is not None and first > high
            if last is not None:
                last = self._last_instant(last, built)
            before = low is not None and last is not None and last < low
            if not after and not before:
                found.append(file)
        return found

    def exchange(
        self,
        state: State,
        built: Built,
        gives_way: Place,
        hull: tuple[int | None, int | None] | None,
        horizon: int,
        seen: Seen | None = None,
    ) -> Exchange:
        """Writes the new windows, and what else was in the files that they come to.

        Args:
            state: the table.
            built: the new windows.
            gives_way: what they replace.
            hull: the instants between which that lies, µs, inclusive; None: it replaces nothing.
            horizon: µs.
            seen: what is known of the new windows; None: it is looked up.
        """
        new = built.table(horizon)
        before = None if state.record is None else state.record.horizon
        moved = before is not None and before != horizon
        files: list[LiveFile] = []
        if before is not None and moved:
            edge = min(before, horizon) - self._reach(built)
            files += self.candidates(state, built, edge, None)
        if seen is None:
            new = self.kept(new)
            rows, events = new.agg(F.count(F.lit(1)), F.sum(EVENTS)).collect()[0]
            files += [] if hull is None else self.candidates(state, built, *hull)
        else:
            rows, events = seen.rows, seen.events
        replaced = set(() if seen is None else seen.replaced)
        if files:
            once = {each.path: each for each in files}
            found = self.published(state.name, built, list(once.values()))
            gone = gives_way if seen is None else Place(None, None)
            replaced |= set(touched(found, built, gone, horizon if moved else None))
        everything = new
        if replaced:
            like = self.store.read(
                self.spark, state.name, version=state.version, files=sorted(replaced)
            )
            rest = remaining(self._bounded(like, built), built, gives_way, horizon)
            everything = as_published(new, like).unionByName(as_published(rest, like))
        staged = self.stage_window(state.name, everything, task_bytes=_TASK)
        return Exchange(staged, tuple(sorted(replaced)), rows, events or 0)

    def given_way(
        self, state: State, built: Built, place: Place, hull: tuple[int | None, int | None]
    ) -> DataFrame | None:
        """The published windows that give way: key, start, end, number of events.

        Args:
            state: the table.
            built: windows of it.
            place: what gives way.
            hull: the instants between which that lies, µs, inclusive.

        Returns:
            None where there can be none.
        """
        files = self.candidates(state, built, *hull)
        if not files:
            return None
        rows = self.published(state.name, built, files).select(
            *built.sliced.key.inner, START, END, EVENTS
        )
        inside = F.lit(False) if place.span is None else overlaps(built, place.span)
        others = given_way(rows.where(~inside), built, place, "left_semi")
        return rows.where(inside).unionByName(others)

    def commit(
        self,
        state: State,
        exchange: Exchange,
        *,
        counted: Dates,
        covered: Dates,
        closure: Dates,
        horizon: int | None,
        facts: Mapping[str, object],
    ) -> WindowResult:
        """Makes the new windows visible."""
        version = self.store.publish(
            state.name,
            exchange.staged,
            replace=list(exchange.replaced),
            base=state.version,
            dates=list(closure.ranges),
            metadata=self.metadata(rows=exchange.rows, **facts),
            record=self.recorded(state, counted=counted, covered=covered, horizon=horizon),
        )
        return WindowResult(exchange.rows, exchange.events, version)

    def written(self, each: Pending, dates: Dates, horizon: int) -> Rows:
        """A table's part of the run, for the gate.

        Args:
            each: it.
            dates: that the run computed.
            horizon: µs.
        """
        frame = self.store.read_staged(self.spark, each.exchange.staged)
        computed = None
        few, keys = each.few, () if each.few is None else each.few.key.inner
        if few is not None and keys and each.exchange.staged.rows > FEW:
            rows = with_bounds(frame, self.definitions[each.state.name], few)
            computed = of_keys(rows, F.broadcast(few.frame), keys, "left_semi")
        return Rows(
            frame=frame,
            dates=self.over(dates, horizon),
            version=each.state.version,
            without=each.exchange.replaced,
            held=each.held,
            assigned=each.assigned,
            computed=computed,
        )

    def lasting(self, built: Built, horizon: int) -> Column:
        """Whether a window is within retention."""
        limit = self.limit(horizon)
        return F.lit(True) if limit is None else ~ended(built, limit)

    def starts(self, covered: Dates) -> Column:
        """Whether a window starts on a covered date."""
        inside = [inside_span(F.col(START), span) for span in covered.spans(self.spec.timezone)]
        return reduce(or_, inside, F.lit(False))

    def sliced(self, events: DataFrame, names: Sequence[str]) -> tuple[Sliced, Totals]:
        """The slices of normalised events, kept; and their sums, checked against the rows."""
        counted = Observation()
        observed = events.observe(counted, F.count(F.lit(1)).alias("rows"))
        sliced = self.slices(observed, names).by_key()
        kept = replace(sliced, frame=self.kept(sliced.frame))
        sums = totals(kept, {name: self.definitions[name] for name in names})
        # What Spark knows to be empty it does not execute, and then observes nothing of.
        check_rows(counted.get["rows"] if sums.rows else events.count(), sums, 0)
        return kept, sums

    def extents(
        self,
        sliced: Sliced,
        definition: Definition,
        whole: DataFrame | None,
        beside: DataFrame | None,
        span: tuple[int, int] | None = None,
    ) -> DataFrame:
        """What of sessions must come out whole: key, start and end, µs.

        Args:
            sliced: slices of all events of a region.
            definition: a session window.
            whole: key, start and end of what is to be followed, though it is not all in slices.
            beside: the same of published sessions that are followed if they touch what is.
            span: every session that overlaps it, besides.
        """
        window, keys = definition.window, sliced.key.inner
        assert isinstance(window, SessionWindow)
        parts = sliced.frame.select(*keys, FIRST, LAST, EVENTS, F.lit(0).alias(_WHOLE))
        zero = F.lit(0).cast("bigint").alias(EVENTS)
        for extents, flag in ((whole, 1), (beside, 0)):
            if extents is not None:
                rows = as_span(extents, keys).select("*", zero, F.lit(flag).alias(_WHOLE))
                parts = parts.unionByName(rows)
        rules = self.spec.engine.rules_for(window)
        also = [F.max(_WHOLE).alias(_WHOLE)]
        seen = sessions(parts, window, rules, keys, [], overlapping=True, also=also)
        wanted = F.col(_WHOLE) == 1
        if span is not None:
            wanted |= overlaps(Built(seen, definition, sliced), span)
        return seen.where(wanted).select(*keys, START, END)

    def published_extents(
        self, state: State, sliced: Sliced, span: tuple[int | None, int | None], wanted: DataFrame
    ) -> DataFrame | None:
        """Key, start and end (µs) of published sessions of some keys that overlap [low, high).

        Returns:
            None where there can be none.
        """
        low, high = span
        built = Built(sliced.frame, self.definitions[state.name], sliced)
        files = self.candidates(state, built, low, None if high is None else high - 1)
        if not files:
            return None
        rows = self.published(state.name, built, files).where(overlaps(built, span))
        keys = sliced.key.inner
        return self.kept(of_keys(rows, wanted, keys, "left_semi").select(*keys, START, END))

    def limits(self, state: State) -> tuple[int | None, int | None]:
        """The least and the largest time of an event, of now or of what was counted before, µs.

        None where it is not known.
        """
        before = [each.bounds for each in self.replaced(state)]
        low, high = self.reader.limits(list(self.inputs))
        if low is None or high is None or None in before:
            return None, None
        known = [(low, high), *(each for each in before if each is not None)]
        return min(first for first, _ in known), max(last for _, last in known)

    def _bounded(self, rows: DataFrame, built: Built) -> DataFrame:
        return with_bounds(rows, built.definition, built.sliced)

    def _last_instant(self, end: int, built: Built) -> int:
        """The last instant of a window by the end that is reported of it, µs; at the latest."""
        window, engine = built.definition.window, self.spec.engine
        if isinstance(window, SessionWindow):
            end = last_event(end, window, engine.rules_for(window))
        return end + engine.tick_us

    def _reach(self, built: Built) -> int:
        """How long before the horizon a window that is open can have ended, µs."""
        window = built.definition.window
        gap = window.gap.us if isinstance(window, SessionWindow) else 0
        return gap + self.spec.engine.tick_us


def hull(extents: DataFrame) -> tuple[int, int] | None:
    """From the first start to the last end, µs; None where there is nothing."""
    low, high = extents.agg(F.min(START), F.max(END)).collect()[0]
    return None if low is None else (low, high)


def duplicates_of(sums: Totals, past: Past | None) -> int:
    """How many rows were copies of events that count."""
    return sums.rows - sums.accepted - (past.rows - past.events if past else 0)

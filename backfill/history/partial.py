"""What runs over a part of the dates have in common: which rows give way, and the commit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import groupby
from operator import and_, or_

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from backfill.columns import END, EVENTS, FIRST, LAST, START, column
from backfill.compute import Built, Definition, Sliced
from backfill.conservation import Totals, check_rows, totals
from backfill.events.files import place
from backfill.history.base import QUARANTINE, BaseRun, WindowResult, reasons
from backfill.history.dates import ALL, Dates
from backfill.history.exchange import (
    FILE,
    Place,
    as_published,
    overlaps,
    remaining,
    touched,
)
from backfill.history.published import with_bounds
from backfill.history.reading import inside_span
from backfill.history.record import Record
from backfill.history.state import State
from backfill.operators.session import sessions
from backfill.tables import LiveFile, StagedFiles
from backfill.windows import SessionWindow

_WHOLE = "_whole"


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


class PartialRun(BaseRun):
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
        return with_bounds(rows.withColumn(FILE, place()), built.definition, built.sliced)

    def candidates(
        self, state: State, built: Built, low: int | None, high: int | None
    ) -> list[LiveFile]:
        """The live files that can hold windows with an instant in [low, high], by statistics."""
        if state.version is None:
            return []
        slack = self._slack(built)
        found = []
        for file in self.store.live(state.name, version=state.version):
            first, last = file.minimum.get("window_start"), file.maximum.get("window_end")
            after = high is not None and first is not None and first > high
            before = low is not None and last is not None and last < low - slack
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
    ) -> Exchange:
        """Writes the new windows, and what else was in the files that they come to.

        Args:
            state: the table.
            built: the new windows.
            gives_way: what they replace.
            hull: the instants between which that lies, µs, inclusive; None: it replaces nothing.
            horizon: µs.
        """
        new = self.kept(built.table(horizon))
        found_rows, events = new.agg(F.count(F.lit(1)), F.sum(EVENTS)).collect()[0]
        files = [] if hull is None else self.candidates(state, built, *hull)
        before = None if state.record is None else state.record.horizon
        moved = before is not None and before != horizon
        if before is not None and moved:
            edge = min(before, horizon) - self._reach(built)
            files += self.candidates(state, built, edge, None)
        by_path = {each.path: each for each in files}
        replaced: list[str] = []
        if by_path:
            rows = self.published(state.name, built, list(by_path.values()))
            folder = self.store.folder(state.name)
            paths = {str(folder / path): path for path in by_path}
            found = touched(rows, built, gives_way, horizon if moved else None)
            replaced = [paths[each] for each in found]
        if replaced:
            again = self.published(state.name, built, [by_path[path] for path in replaced])
            rest = remaining(again, built, gives_way, horizon)
            like = self.store.read(self.spark, state.name, version=state.version, files=replaced)
            everything = as_published(new, like).unionByName(as_published(rest, like))
        else:
            everything = new
        staged = self.stage_window(state.name, everything)
        return Exchange(staged, tuple(replaced), found_rows, events or 0)

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

    def quarantine(
        self, fresh: Sequence[str], closure: Dates, horizon: int | None
    ) -> tuple[int, Mapping[str, int]]:
        """Publishes what cannot be used of inputs that no run has looked at; tells how much."""
        state = self.states[QUARANTINE]
        rows = self.reader.unusable(list(fresh))
        count = rows.count() if fresh else 0
        staged = self.stage_quarantine(rows if count else None)
        found = reasons(staged)
        looked_at = {path: self.inputs[path] for path in fresh}
        if fresh or state.version is None:
            self.store.publish(
                QUARANTINE,
                staged,
                replace=[],
                base=state.version,
                dates=list(closure.ranges),
                metadata=self.metadata(quarantined=count),
                record=self.recorded(state, horizon=horizon, inputs=looked_at),
            )
        return count, found

    def fresh(self, paths: Iterable[str]) -> list[str]:
        """Those of the inputs whose unusable rows are not in the quarantine yet."""
        record = self.states[QUARANTINE].record
        known = {} if record is None else record.inputs
        return [path for path in paths if path not in known]

    def starts(self, covered: Dates) -> Column:
        """Whether a window starts on a covered date."""
        inside = [inside_span(F.col(START), span) for span in covered.spans(self.spec.timezone)]
        return reduce(or_, inside, F.lit(False))

    def of_keys(
        self,
        events: DataFrame,
        sliced: Sliced,
        wanted: DataFrame,
        condition: Column | None = None,
    ) -> DataFrame:
        """The events of some keys.

        Args:
            events: normalised.
            sliced: slices with the same key.
            wanted: the inner key columns, and perhaps start and end.
            condition: on the event and `_wanted` columns, besides.
        """
        others = wanted.select(*(F.col(each).alias(f"_wanted{each}") for each in wanted.columns))
        same = [
            column(name).eqNullSafe(F.col(f"_wanted{inner}"))
            for name, inner in zip(self.spec.key, sliced.key.inner, strict=True)
        ]
        conditions = same if condition is None else [*same, condition]
        return events.join(others, reduce(and_, conditions, F.lit(True)), "left_semi")

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

    def kept(self, frame: DataFrame) -> DataFrame:
        """The frame, computed once.

        Not persisted: that keeps the plan, and a run over little data spends most of its time on
        plans that hold all that went before.
        """
        return frame.localCheckpoint()

    def extents(
        self,
        sliced: Sliced,
        definition: Definition,
        whole: DataFrame | None,
        span: tuple[int, int] | None = None,
    ) -> DataFrame:
        """What of sessions must come out whole: key, start and end, µs.

        Args:
            sliced: slices of all events of a region.
            definition: a session window.
            whole: key, start and end of what is to be followed, though it is not all in slices.
            span: every session that overlaps it, besides.
        """
        window, keys = definition.window, sliced.key.inner
        assert isinstance(window, SessionWindow)
        parts = sliced.frame.select(*keys, FIRST, LAST, EVENTS, F.lit(0).alias(_WHOLE))
        if whole is not None:
            bounds = (F.col(START).alias(FIRST), F.col(END).alias(LAST))
            zero = F.lit(0).cast("bigint").alias(EVENTS)
            parts = parts.unionByName(whole.select(*keys, *bounds, zero, F.lit(1).alias(_WHOLE)))
        rules = self.spec.engine.rules_for(window)
        also = [F.max(_WHOLE).alias(_WHOLE)]
        seen = sessions(parts, window, rules, keys, [], overlapping=True, also=also)
        wanted = F.col(_WHOLE) == 1
        if span is not None:
            wanted |= overlaps(Built(seen, definition, sliced), span)
        return seen.where(wanted).select(*keys, START, END)

    def _slack(self, built: Built) -> int:
        """What a reported end can be later than the last event, µs."""
        window = built.definition.window
        return window.gap.us if isinstance(window, SessionWindow) else 0

    def _reach(self, built: Built) -> int:
        """How long before the horizon a window that is open can have ended, µs."""
        return self._slack(built) + self.spec.engine.tick_us


def hull(extents: DataFrame) -> tuple[int, int] | None:
    """From the first start to the last end, µs; None where there is nothing."""
    low, high = extents.agg(F.min(START), F.max(END)).collect()[0]
    return None if low is None else (low, high)


def counted_by(record: Record | None, paths: Iterable[str], everywhere: Dates) -> dict[str, Dates]:
    """The dates on which each input counts, for a run that counts all inputs on some dates."""
    if record is None:
        return dict.fromkeys(paths, ALL)
    none = Dates()
    return {
        path: everywhere | (record.inputs[path].counted if path in record.inputs else none)
        for path in paths
    }

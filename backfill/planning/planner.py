"""What a run has to do: looked at, cut into stages, told, executed; always the same stages."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql import functions as F

from backfill.columns import TIME
from backfill.errors import TableError
from backfill.events import spark_errors
from backfill.events.model import shown
from backfill.execution.base import BaseRun
from backfill.ledger.reader import EVERYTHING, Span
from backfill.ledger.replaced import Replaced, dates_of, uncounted
from backfill.ledger.state import State, settings
from backfill.operators.calendar import local_date
from backfill.planning.combining import Combining
from backfill.planning.region import RegionRun
from backfill.planning.selection import Selection
from backfill.time.dates import ALL, NONE, Dates, Range, date_of

_DAY = dt.timedelta(days=1)


@dataclass(frozen=True)
class Stage:
    """One run.

    Attributes:
        dates: of a range; None: everything, in one commit.
        events: how many there are on these dates.
        done: the run that committed it already, for this selection, job file and snapshot.
        key: what tells the same stage again.
        combining: how the events become slices; None where that was not asked.
    """

    dates: Range | None
    events: int
    key: str
    done: str | None = None
    combining: Combining | None = None


@dataclass(frozen=True)
class DateState:
    """Dates of one window that are alike.

    Attributes:
        state: missing, present, stale, changed, late, no_input; past_retention where a date is not
            covered and lies before the limit of retention.
        events: on these dates, in the source.
        late: events that are not in the windows yet; 0 on changed dates, where nobody can tell.
        detail: which settings have changed, of stale dates; which inputs, of changed ones.
    """

    dates: Range
    state: str
    events: int
    late: int = 0
    detail: str | None = None


@dataclass(frozen=True)
class Beyond:
    """What a range run reads, beyond its range too, for windows that lie across its edges.

    Attributes:
        keys: how many keys have a session there that is followed until it closes.
        low, high: from when to when is read, for these keys or for all if there are none; µs;
            None: everything before or after.
        rewritten: files of the table that can hold windows that give way; and their rows, bytes.
    """

    window: str
    dates: Range
    keys: int
    low: int | None
    high: int | None
    rewritten: tuple[int, int, int]


@dataclass(frozen=True)
class Plan:
    """What a run would do; made once, never changed.

    Attributes:
        selection: what was asked for.
        windows: the states of the selected dates, by window.
        stages: the runs, in order.
        without_input: selected dates on which there is no event.
        waiting: events of inputs not counted yet, on dates that are not covered.
        files: of the source, that the stages read.
        size: their bytes.
        reads: what is read beyond the ranges.
        refused: why a run of this selection would be; there are no stages then.
    """

    selection: Selection
    windows: Mapping[str, tuple[DateState, ...]] = field(default_factory=dict)
    stages: tuple[Stage, ...] = ()
    without_input: Dates = NONE
    waiting: int = 0
    files: int = 0
    size: int = 0
    reads: tuple[Beyond, ...] = ()
    refused: str | None = None


class Planner(BaseRun):
    """Looks at the source and at what is published; runs nothing."""

    def plan(self, selection: Selection, *, explain: bool) -> Plan:
        """The plan for a selection.

        Args:
            selection: what was asked for.
            explain: find out, too, what is read beyond the ranges; and tell of a stale table.

        Raises:
            TableError: a part is asked for of a table that is stale, and not to explain.
            SourceError: an input can't be read.
        """
        with spark_errors(self.source.snapshot):
            return self._plan(selection, explain=explain)

    def _plan(self, selection: Selection, *, explain: bool) -> Plan:
        states = [self.states[name] for name in self.definitions]
        covered = _common(states)
        # What is covered is not missing, whatever events it has: a year of them is not counted.
        known = covered if selection.missing else NONE
        counts, late = self._counts(selection, known.rest())
        with_events = _alike(counts)
        wanted = ALL if selection.dates is None else Dates.between(*selection.dates)
        kept = self._kept(with_events)
        if selection.missing:
            wanted = (wanted & with_events & kept) - covered
        todo = wanted & (with_events | covered) if not selection.everything else wanted
        refusal = None if selection.everything else _refusal(states)
        if refusal is not None and not explain:
            raise refusal
        stages = () if refusal else tuple(self._stages(selection, todo, counts, states))
        looked_at = with_events | covered if selection.dates is None else wanted
        if selection.missing:
            looked_at = wanted
        holes = _hull(with_events | known) if selection.dates is None else wanted
        reads: tuple[Beyond, ...] = ()
        if explain:
            looked = [self._looked_at(each) for each in stages]
            stages = tuple(stage for stage, _ in looked)
            reads = tuple(beyond for _, every in looked for beyond in every)
        spans = [*todo.spans(self.spec.timezone), *((each.low, each.high) for each in reads)]
        read = [
            each
            for each in self.source.snapshot.inputs
            if selection.everything or any(self.reader.may_hold(each.path, span) for span in spans)
        ]
        return Plan(
            selection=selection,
            windows={
                each.name: tuple(
                    _date_states(
                        each,
                        looked_at,
                        with_events,
                        kept,
                        counts,
                        late[each.name],
                        self.replaced(each),
                    )
                )
                for each in states
            },
            stages=stages,
            without_input=(holes & kept) - with_events - known,
            waiting=max(
                (count for state in states for count in [_waiting(state, late[state.name])]),
                default=0,
            ),
            files=len(read),
            size=sum(each.size for each in read),
            reads=reads,
            refused=None if refusal is None else str(refusal),
        )

    def _looked_at(self, stage: Stage) -> tuple[Stage, list[Beyond]]:
        """The stage, with how its events become slices; and what it reads beyond its range."""
        if stage.done is not None:
            return stage, []
        if stage.dates is None:
            self.choose(self.inputs, list(self.definitions))
            return replace(stage, combining=self.combining), []
        dates = Dates.between(*stage.dates)
        run = RegionRun(self.spec, self.store, self.spark, self.progress, dates=dates)
        found = [
            Beyond(
                window=name,
                dates=stage.dates,
                keys=keys,
                low=low,
                high=high,
                rewritten=(
                    len(files),
                    sum(each.rows for each in files),
                    sum(each.size for each in files),
                ),
            )
            for name, keys, (low, high), files in run.preview()
        ]
        return replace(stage, combining=run.combining), found

    def _kept(self, with_events: Dates) -> Dates:
        """The dates on which windows can end that are within retention."""
        if self.spec.retention_us is None or not with_events:
            return ALL
        limit = self.limit(self.reader.horizon(list(self.inputs), None))
        assert limit is not None
        return Dates.between(date_of(limit, self.spec.timezone), dt.date.max)

    def _counts(
        self, selection: Selection, dates: Dates
    ) -> tuple[dict[dt.date, int], dict[str, dict[dt.date, int]]]:
        """Events by date, on these dates; and for each window those that are not in it yet."""
        span: Span = EVERYTHING
        if selection.dates is not None:
            (span,) = Dates.between(*selection.dates).spans(self.spec.timezone)
        counts = self._by_date(dict.fromkeys(self.inputs, dates), span)
        late: dict[str, dict[dt.date, int]] = {}
        known: dict[str, dict[dt.date, int]] = {}
        for name in self.definitions:
            record = self.states[name].record
            if record is None:
                late[name] = {}
                continue
            # Of dates of replaced inputs nobody knows which events are not counted yet.
            known_before = dates_of(self.replaced(self.states[name])).rest()
            open_ = {
                path: dates & known_before for path, dates in uncounted(record, self.inputs).items()
            }
            key = repr(sorted((path, dates.json()) for path, dates in open_.items()))
            if key not in known:
                known[key] = self._by_date(open_, span) if open_ else {}
            late[name] = known[key]
        return counts, late

    def _by_date(
        self, counted: Mapping[str, Dates], span: tuple[int | None, int | None]
    ) -> dict[dt.date, int]:
        date = local_date(F.col(TIME), self.spec.timezone).alias("date")
        rows = self.reader.events(counted, span).groupBy(date).count().collect()
        return {row["date"]: row["count"] for row in rows}

    def _stages(
        self,
        selection: Selection,
        todo: Dates,
        counts: Mapping[dt.date, int],
        states: Iterable[State],
    ) -> Iterable[Stage]:
        if selection.everything:
            yield Stage(None, sum(counts.values()), "")
            return
        for low, high in todo.ranges:
            step = high - low if selection.chunk is None else selection.chunk * _DAY
            at = low
            while at < high:
                part = (at, min(high, at + step))
                events = sum(counts.get(each, 0) for each in Dates.between(*part).days())
                key = self._key(part)
                done = self._done(key, states) if selection.chunk is not None else None
                yield Stage(part, events, key, done)
                at = part[1]

    def _key(self, part: Range) -> str:
        """The same for the same dates, job file and snapshot."""
        files = [[each.path, each.size, each.modified_ms] for each in self.source.snapshot.inputs]
        own = {name: settings(self.spec, name) for name in self.definitions}
        text = json.dumps([str(part[0]), str(part[1]), own, files], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def _done(self, key: str, states: Iterable[State]) -> str | None:
        """The run that committed the same stage in every table, with nothing gone back since."""
        found: set[str] = set()
        for state in states:
            run: str | None = None
            for commit in self.store.history(state.name):
                metadata = commit["metadata"]
                if metadata.get("kind") == "restore":
                    break
                if metadata.get("stage") == key:
                    run = metadata["run_id"]
                    break
            if run is None:
                return None
            found.add(run)
        return max(found)


def _refusal(states: Iterable[State]) -> TableError | None:
    """Why no part of the tables can be computed."""
    try:
        for state in states:
            if state.record is not None:
                _ = state.settled
    except TableError as error:
        return error
    return None


def _date_states(
    state: State,
    dates: Dates,
    with_events: Dates,
    kept: Dates,
    counts: Mapping[dt.date, int],
    late: Mapping[dt.date, int],
    inputs: Sequence[Replaced],
) -> Iterable[DateState]:
    covered = NONE if state.record is None else state.record.covered
    changed = ", ".join(f"{name} (was {old})" for name, old in state.stale.items()) or None
    old = dates_of(inputs)
    run: DateState | None = None
    for date in dates.days():
        if date in covered:
            here = "late" if late.get(date) else "present"
            here = "stale" if changed else "changed" if date in old else here
        else:
            here = "missing" if date in with_events else "no_input"
            here = here if date in kept else "past_retention"
        events, new = counts.get(date, 0), late.get(date, 0) if date in covered else 0
        detail = changed if here == "stale" else None
        if here == "changed":
            detail = _why([each for each in inputs if date in each.dates])
        if run is not None and (run.state, run.detail, run.dates[1]) == (here, detail, date):
            run = DateState(
                (run.dates[0], date + _DAY), here, run.events + events, run.late + new, detail
            )
            continue
        if run is not None:
            yield run
        run = DateState((date, date + _DAY), here, events, new, detail)
    if run is not None:
        yield run


def _why(inputs: Sequence[Replaced]) -> str:
    """Which inputs are not what they were."""
    first, others = inputs[0], len(inputs) - 1
    what = "is gone" if first.gone else "has changed"
    return f"{shown(first.path)} {what}" + (f", and {others:,} others" if others else "")


def _alike(counts: Mapping[dt.date, int]) -> Dates:
    return Dates.of((each, each + _DAY) for each in counts)


def _common(states: Iterable[State]) -> Dates:
    """The dates that every table covers."""
    found = ALL
    for state in states:
        found &= NONE if state.record is None else state.record.covered
    return found


def _hull(dates: Dates) -> Dates:
    return Dates.between(dates.ranges[0][0], dates.ranges[-1][1]) if dates else NONE


def _waiting(state: State, late: Mapping[dt.date, int]) -> int:
    covered = NONE if state.record is None else state.record.covered
    return sum(count for date, count in late.items() if date not in covered)

"""What is to be done, as data: one stage for each commit of the tables.

Stages have no side effects. `backfill plan` prints them, and a run executes the same ones.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field

from backfill.planning.combining import Combining
from backfill.planning.selection import Selection
from backfill.time.dates import NONE, Dates, Range


@dataclass(frozen=True)
class DateState:
    """Dates of one window that are alike.

    Attributes:
        state: missing, present, stale, changed, late, no_input; past_retention if a date is not
            covered and is before the limit of retention.
        events: how many events the source has on these dates.
        late: events that are not in the windows yet; 0 on changed dates, where that is unknown.
        detail: which settings have changed, for stale dates; which inputs, for changed ones.
    """

    dates: Range
    state: str
    events: int
    late: int = 0
    detail: str | None = None


@dataclass(frozen=True)
class Rewritten:
    """Files of a table that hold windows to be replaced, and are written again without them.

    Attributes:
        files: how many.
        rows: how many rows they hold, those of other windows too.
        size: their bytes.
        of: how many files the table has.
    """

    files: int
    rows: int
    size: int
    of: int


@dataclass(frozen=True)
class Beyond:
    """What a range run reads outside its range, for windows that cross its boundaries.

    Attributes:
        keys: how many keys have a session there that is followed until it closes.
        low, high: the times that are read, for these keys, or for all keys if `keys` is 0; µs;
            None: everything before or after.
        rewritten: files of the table that may hold windows to be replaced.
        affected: for windows around single events, how many published rows outside the range are
            within reach of an event in it, and are computed again; None for other windows.
        slices: for a metric whose slices are read instead of events outside the range, their table
            and how many of its files and rows; None if events are read.
    """

    window: str
    dates: Range
    keys: int
    low: int | None
    high: int | None
    rewritten: Rewritten
    affected: int | None = None
    slices: tuple[str, int, int] | None = None


@dataclass(frozen=True, kw_only=True)
class FullStage:
    """Every date is computed, and each table replaced whole.

    Attributes:
        events: how many there are; None if that was not looked up.
        combining: how the events become slices; None if that was not asked for.
    """

    events: int | None = None
    combining: Combining | None = None


@dataclass(frozen=True, kw_only=True)
class RangeStage:
    """A range of dates is computed; windows that hold an event of it are replaced.

    Attributes:
        dates: the range.
        until: the end of the selection that it is a part of.
        events: how many there are on these dates.
        key: the same for the same dates, job file and snapshot.
        done: the run that has already committed it.
        combining: how the events become slices; None if that was not asked for.
        beyond: what is read beyond the range; None if that was not asked for.
        judged: dates outside the range whose windows are computed as well, since events of the
            range turn some of their events into a bot's or a person's; if that was asked for.
    """

    dates: Range
    until: dt.date
    events: int
    key: str
    done: str | None = None
    combining: Combining | None = None
    beyond: tuple[Beyond, ...] | None = None
    judged: Dates = NONE


@dataclass(frozen=True)
class Moved:
    """What late events cost in a table of windows by number or by offset, or of pairs by number.

    Attributes:
        table: its name.
        keys: how many keys have late events; 1 for windows of the whole stream.
        events: how many events of these keys were counted before and are read again; None if not
            every event has a row, so that the table does not tell.
        rows: how many rows of these keys are computed again.
    """

    table: str
    keys: int
    events: int | None
    rows: int


@dataclass(frozen=True)
class Judged:
    """What late events change about who is a bot, in numbers of rows.

    Attributes:
        late: late rows of bots.
        became: rows that were counted before and are of bots now.
        ceased: rows that were of bots and are counted now.
    """

    late: int
    became: int
    ceased: int


@dataclass(frozen=True)
class LateInputs:
    """Inputs that some tables have not counted.

    Attributes:
        tables: the tables, all of which have counted the same.
        inputs: the dates on which each input is not counted.
        events: how many late events there are, copies of counted ones included; None if that was
            not asked for.
        affected: for each table, at most how many of its published windows, or rows of events, are
            computed again, if that was asked for; None for sessions with rules. Tables in which
            events move others are left out.
        moved: what late events cost in tables in which they move others, if that was asked for.
        rewritten: for each table, the files that hold what is computed again, if that was asked
            for; nothing for sessions with rules.
        bots: what late events change about who is a bot; None if that was not asked for, or if
            there are no rules for bots. `events` leaves out events of bots, but includes events
            that were counted before and change sides.
    """

    tables: tuple[str, ...]
    inputs: Mapping[str, Dates]
    events: int | None = None
    affected: Mapping[str, int | None] = field(default_factory=dict)
    moved: tuple[Moved, ...] = ()
    rewritten: Mapping[str, Rewritten] = field(default_factory=dict)
    bots: Judged | None = None


@dataclass(frozen=True, kw_only=True)
class MergeStage:
    """Late events are merged into the windows that they touch, which are replaced.

    Attributes:
        late: one for each group of tables that have counted the same. There is more than one if a
            table was added or restored since, or if an earlier run was killed halfway.
        unseen: inputs whose unusable rows are not in the quarantine yet.
        again: the dates on which each input is looked at for the quarantine and for the counts of
            the run: where it is not counted by all tables, or not known to the quarantine. Empty
            if these are the late inputs of all tables.
    """

    late: tuple[LateInputs, ...]
    unseen: tuple[str, ...]
    again: Mapping[str, Dates] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ExpireStage:
    """Windows that ended before the limit of retention are dropped from one table.

    Attributes:
        table: the table.
        limit: what ended before is dropped, µs.
        whole: files all of whose rows ended before.
        mixed: files with such rows and others, which are rewritten.
        closure: the dates of these files.
    """

    table: str
    limit: int
    whole: tuple[str, ...]
    mixed: tuple[str, ...]
    closure: Dates


Stage = FullStage | RangeStage | MergeStage | ExpireStage


@dataclass(frozen=True)
class Plan:
    """What a run would do; made once, never changed.

    Attributes:
        selection: what was asked for.
        windows: the states of the selected dates, by window.
        stages: what is done, in order.
        without_input: selected dates on which there is no event.
        waiting: events of inputs not counted yet, on dates that are not covered.
        files: how many files of the source the stages read.
        size: their bytes.
        refused: why a run of this selection would be refused; then there are no stages.
    """

    selection: Selection
    stages: tuple[Stage, ...] = ()
    windows: Mapping[str, tuple[DateState, ...]] = field(default_factory=dict)
    without_input: Dates = NONE
    waiting: int = 0
    files: int = 0
    size: int = 0
    refused: str | None = None

    @property
    def reads(self) -> tuple[Beyond, ...]:
        """What is read beyond the ranges, as far as that was looked up."""
        return tuple(
            beyond
            for stage in self.stages
            if isinstance(stage, RangeStage)
            for beyond in stage.beyond or ()
        )

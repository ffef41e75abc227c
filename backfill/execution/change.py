"""What a run changes in the tables of a job: written, checked, and not published yet."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pyspark.sql import DataFrame

from backfill.execution.gate import Rows
from backfill.execution.rewrite import FileRewrite
from backfill.execution.run_result import Dropped
from backfill.ledger.record import Input
from backfill.ledger.state import State
from backfill.quality.events import Counted
from backfill.rows.compute import Built
from backfill.store import Staged
from backfill.time.dates import ALL, NONE, Dates


@dataclass(frozen=True, kw_only=True)
class TableChange:
    """A change to one window's table.

    Attributes:
        state: the table as the run found it.
        staged: the new rows.
        replaces: the files that are replaced, or all of them.
        rows: how many windows the run computed.
        events: the sum of their numbers of events.
        counted: the dates on which the run counted all inputs.
        covered: the dates that it computed.
        closure: the dates of all that was looked at; None: everything.
        horizon: the largest event time, µs.
        times: the least and the largest event time that the run has counted, µs; None without one.
        facts: for `history`.
        changed: how many windows differ from before; None: it is looked up.
        checked: what the gate looks at.
        dropped: sessions that are too short to be published; None if none can be.
    """

    state: State
    staged: Staged
    replaces: Literal["all"] | tuple[str, ...]
    rows: int
    events: int
    counted: Dates = ALL
    covered: Dates = NONE
    closure: Dates | None
    horizon: int
    times: tuple[int, int] | None
    facts: Mapping[str, object]
    changed: int | None = None
    checked: Rows
    dropped: Dropped | None = None


@dataclass(frozen=True, kw_only=True)
class ComputedWindows:
    """The windows of one table that a stage has computed and staged.

    Attributes:
        rewrite: the staged files, and the files that they replace.
        closure: the dates of everything that was looked at.
        every: all windows that hold an event of the stage, including those not published.
        held: how many of the stage's events these hold.
        assigned: how many of them the engine assigns to windows.
        dropped: sessions that are too short to be published; None if none can be.
    """

    rewrite: FileRewrite
    closure: Dates
    every: Built
    held: int
    assigned: int
    dropped: Dropped | None = None

    def change(
        self,
        state: State,
        frame: DataFrame,
        *,
        dates: Collection[dt.date],
        horizon: int,
        times: tuple[int, int] | None,
        facts: Mapping[str, object],
        counted: Dates = ALL,
        covered: Dates = NONE,
        changed: int | None = None,
        computed: DataFrame | None = None,
    ) -> TableChange:
        """The change to the table.

        Args:
            state: the table as the run found it.
            frame: the staged rows.
            dates: those that the gate compares with the history of their weekday.
            horizon: the largest event time, µs.
            times: the least and the largest event time that the run has counted, µs.
            facts: for `history`.
            counted: the dates on which the run counted all inputs.
            covered: the dates that it computed.
            changed: how many windows differ from before; None: it is looked up.
            computed: the rows that the gate checks; None: all staged rows.
        """
        return TableChange(
            state=state,
            staged=self.rewrite.staged,
            replaces=self.rewrite.replaced,
            rows=self.rewrite.rows,
            events=self.rewrite.events,
            counted=counted,
            covered=covered,
            closure=self.closure,
            horizon=horizon,
            times=times,
            facts=facts,
            changed=changed,
            dropped=self.dropped,
            checked=Rows(
                frame=frame,
                dates=dates,
                table=state.table,
                without=self.rewrite.replaced,
                held=self.held,
                assigned=self.assigned,
                computed=computed,
            ),
        )


@dataclass(frozen=True, kw_only=True)
class QuarantineChange:
    """A change to the quarantine.

    Attributes:
        staged: the new rows.
        replaces: the files that are replaced, or all of them.
        rows: how many rows of the run's inputs are not events, or are events of bots.
        reasons: how many rows for each reason, events beyond retention included.
        unusable: how many of the rows are not events.
        inputs: what was looked at; None: every input of the snapshot.
        absent: inputs that do not exist now, whose rows are removed.
        covered: the dates that the run computed.
        closure: the run's dates; None: everything.
        facts: for `history`.
    """

    staged: Staged
    replaces: Literal["all"] | Sequence[str]
    rows: int
    reasons: Mapping[str, int]
    unusable: int
    inputs: Mapping[str, Input] | None
    absent: Sequence[str] = ()
    covered: Dates = NONE
    closure: Dates | None
    facts: Mapping[str, object]


@dataclass(frozen=True, kw_only=True)
class Computed:
    """All that one run changes.

    Attributes:
        tables: the windows' tables.
        quarantine: what cannot be used.
        counted: the events, for the gate; None if no event was counted.
        read: the rows that were read.
        accepted: the events that count.
        duplicates: copies of events that count.
        horizon: the largest event time, µs; None if no event was counted.
    """

    tables: Sequence[TableChange]
    quarantine: QuarantineChange
    counted: Counted | None
    read: int
    accepted: int
    duplicates: int
    horizon: int | None

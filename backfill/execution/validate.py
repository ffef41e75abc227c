"""Checks of what is published already, without a run."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from pyspark.sql import functions as F

from backfill.conservation import totals
from backfill.events import spark_errors
from backfill.execution.base import QUARANTINE, BaseRun
from backfill.execution.gate import Gate, Rows
from backfill.ledger.record import Record
from backfill.ledger.state import State
from backfill.quality.checks import Outcome
from backfill.quality.errors import ChecksFailed
from backfill.quality.events import Counted
from backfill.time.dates import Dates


class Validating(BaseRun):
    """Checks published tables, and the events that they were made from; publishes nothing."""

    kind = "validate"

    def outcomes(self, names: Collection[str], dates: Dates | None) -> tuple[Outcome, ...]:
        """What came of each check.

        Args:
            names: the windows whose tables to check.
            dates: only windows that start on these; then nothing is said of events, nor whether
                the windows hold them all: a window reaches beyond a date.

        Raises:
            TableError: nothing is published, or the table is stale.
        """
        with self.stack, spark_errors(self.source.snapshot):
            records = {name: self.states[name].settled for name in names}
            counted, assigned = None, None
            if dates is None:
                counted, assigned = self._counted(records)
            windows = {name: self._rows(self.states[name], dates, assigned) for name in names}
            self.progress("checking what is published")
            try:
                return Gate(self.spec, self.store, self.id).audit(counted, windows)
            except ChecksFailed as failed:
                return failed.outcomes

    def _counted(
        self, records: Mapping[str, Record]
    ) -> tuple[Counted | None, Mapping[str, int] | None]:
        """The events that the tables were made from, and how many each is assigned.

        The latter only where the tables hold every window of these events.
        """
        record = next(iter(records.values()))
        alike = all(each.inputs == record.inputs for each in records.values())
        same = all(
            path in self.inputs and self.inputs[path].digest == each.digest
            for path, each in record.inputs.items()
        )
        if not alike or not same:
            why = "inputs have changed" if alike else "the tables have not counted the same"
            self.progress(f"events are not looked at: {why} since the last run")
            return None, None
        self.choose(record.inputs, list(records))
        self.progress("reading the events that were counted")
        events = self.reader.events({path: each.counted for path, each in record.inputs.items()})
        sliced = self.slices(events, list(records)).by_key()
        sliced = replace(sliced, frame=sliced.frame.persist())
        self.stack.callback(sliced.frame.unpersist)
        definitions = {name: self.definitions[name] for name in records}
        sums = totals(sliced, definitions)
        unusable = self.states[QUARANTINE]
        quarantined = (
            0
            if unusable.version is None
            else sum(each.rows for each in self.store.live(QUARANTINE, version=unusable.version))
        )
        counted = Counted(
            sliced=sliced,
            events=events,
            id=self.spec.id,
            read=sums.rows + quarantined,
            quarantined=quarantined,
        )
        whole = False
        if sums.first is not None and sums.horizon is not None:
            low, _ = self.widened((sums.first, sums.first + 1), definitions.values())
            hull = self.hull(low, sums.horizon)
            whole = all(not hull - each.covered for each in records.values())
        expired = any(each.expired is not None for each in records.values())
        return counted, sums.assigned if whole and not expired else None

    def _rows(self, state: State, dates: Dates | None, assigned: Mapping[str, int] | None) -> Rows:
        record = state.settled
        rows = self.store.read(self.spark, state.name, version=state.version)
        wanted = record.covered if dates is None else record.covered & dates
        if dates is not None:
            inside = F.lit(False)
            for low, high in dates.ranges:
                inside |= (F.col("date") >= low) & (F.col("date") < high)
            rows = rows.where(inside)
        return Rows(
            frame=rows,
            dates=self.over(wanted, record.horizon),
            version=None if dates is None else state.version,
            without=() if dates is None else self._files(state, dates),
            assigned=None if assigned is None else assigned[state.name],
        )

    def _files(self, state: State, dates: Dates) -> tuple[str, ...]:
        """The table's files of these dates, whose rows are looked at anyway."""
        files = self.store.live(state.name, version=state.version)
        return tuple(each.path for each in files if each.minimum["date"] in dates)

"""What is published of a job, and whether the job file still describes it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from backfill.errors import TableError
from backfill.ledger.record import Record
from backfill.spec import JobSpec
from backfill.store import DataFile, Store, Table
from backfill.windows import JoinWindow, MetricSlices, RollingWindow

#: The table of rows that are not events.
QUARANTINE = "quarantine"


@dataclass(frozen=True)
class State:
    """One table as a run finds it.

    Attributes:
        table: the version that the run begins from; None if there is no table.
        record: what it holds; None if nothing was recorded.
        stale: the settings of the job file that have changed since, with their old values.
    """

    name: str
    table: Table | None
    record: Record | None
    stale: Mapping[str, str]

    @property
    def version(self) -> int | None:
        """The table's version."""
        return None if self.table is None else self.table.version

    @property
    def files(self) -> Sequence[DataFile]:
        """The table's files; none if there is no table."""
        return () if self.table is None else self.table.files

    @property
    def settled(self) -> Record:
        """The record.

        Raises:
            TableError: there is none, or the job file has changed.
        """
        if self.record is None:
            raise TableError(
                "nothing has been published yet",
                field=self.name,
                way_out="Publish it first: backfill run JOB",
            )
        if self.stale:
            changed = ", ".join(f"{name} (was {old})" for name, old in self.stale.items())
            raise TableError(
                f"the table is stale because the job file has changed: {changed}",
                field=self.name,
                way_out="Rebuild all covered dates in one commit: backfill run JOB",
            )
        return self.record


def states(spec: JobSpec, store: Store, names: Iterable[str]) -> list[State]:
    """The tables as they are now."""
    return [_state(spec, store, name) for name in names]


def settings(spec: JobSpec, name: str) -> dict[str, str]:
    """The settings of the job file that decide what is in a window's table."""
    common = {
        "events.key": ", ".join(spec.key),
        "events.time": spec.time,
        "events.time_format": str(spec.time_format),
        "events.timezone": spec.timezone,
        "events.id": str(spec.id),
        "events.arrival": ", ".join(spec.arrival),
        "engine": spec.engine.name,
    }
    if spec.source.parts:
        # Events have these names in a column.
        common["sources"] = ", ".join(sorted(spec.source.parts))
    if spec.bots is not None:
        common["events.bots"] = str(spec.bots)
    if name not in spec.windows:
        return common
    window = spec.windows[name]
    sections = {RollingWindow: "metrics", MetricSlices: "metrics", JoinWindow: "joins"}
    place = f"{sections.get(type(window.window), 'windows')}.{name}"
    aggregates = {
        f"{place}.aggregates.{column}": str(aggregate)
        for column, aggregate in window.aggregates.items()
    }
    return {**common, place: str(window.window), **aggregates}


def _state(spec: JobSpec, store: Store, name: str) -> State:
    table = store.open(name)
    document = None if table is None else table.record
    if document is None:
        return State(name, table, None, {})
    record = Record.from_json(document, spec.path.parent)
    now = settings(spec, name)
    stale = {setting: old for setting, old in record.settings.items() if now.get(setting) != old}
    stale |= {setting: "absent" for setting in now if setting not in record.settings}
    return State(name, table, record, stale)


def grouped(tables: Iterable[State]) -> list[list[State]]:
    """The tables, in groups that cover the same dates and have counted the same.

    Tables differ if some were added or restored, or if a run was killed between its commits.
    """

    def counted(state: State) -> str:
        if state.record is None:
            return ""
        inputs = {path: file.counted.json() for path, file in state.record.inputs.items()}
        return repr((state.record.covered.json(), sorted(inputs.items())))

    return [list(group) for _, group in groupby(sorted(tables, key=counted), key=counted)]

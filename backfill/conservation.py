"""No event vanishes: the two sums that every run checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from backfill.columns import EVENTS, FIRST, LAST, ROWS
from backfill.errors import ConservationError
from backfill.kinds import kind_of
from backfill.kinds.placed import CountRows
from backfill.rows.compute import Sliced
from backfill.rows.definition import Definition
from backfill.windows import CountWindow, TableWindow

_WAY_OUT = "Nothing was published. Run again; if the error persists, report it as a bug"


@dataclass(frozen=True)
class Totals:
    """The sums over all slices of a run.

    Attributes:
        accepted: the number of events, without duplicates.
        rows: the number of rows, including duplicates.
        first: the smallest event time in µs, or None if there is no event.
        horizon: the largest event time likewise.
        assigned: per window definition, the sum over events of the number of windows that they
            are counted in.
        also: what else was added up in the same pass, by name.
    """

    accepted: int
    rows: int
    first: int | None
    horizon: int | None
    assigned: Mapping[str, int]
    also: Mapping[str, Any] = field(default_factory=dict)


def totals(
    sliced: Sliced, definitions: Mapping[str, Definition], also: Sequence[Column] = ()
) -> Totals:
    """Adds up the slices, in one pass.

    Args:
        sliced: the slices.
        definitions: the window definitions by name.
        also: further aggregates over slices, with names.

    Raises:
        ConservationError: if events of one slice belong to different numbers of windows.
    """
    row = sliced.frame.agg(*total_columns(sliced, definitions), *also).collect()[0]
    counted = totals_from(row.asDict(), definitions)
    owned = _owned(sliced, definitions, sliced.frame, F.sum(EVENTS))
    usable = _usable(sliced, definitions)
    return replace(counted, assigned={**counted.assigned, **owned, **usable})


def total_columns(sliced: Sliced, definitions: Mapping[str, Definition]) -> list[Column]:
    """The aggregates over slices that `totals_from` reads."""
    ends = [(name, at) for name in definitions for at in (FIRST, LAST)]
    return [
        F.sum(EVENTS).alias("accepted"),
        F.sum(ROWS).alias("rows"),
        F.min(FIRST).alias("first"),
        F.max(LAST).alias("horizon"),
        *(_assigned(sliced, definitions[name], at).alias(f"{name}{at}") for name, at in ends),
    ]


def totals_from(row: Mapping[str, Any], definitions: Mapping[str, Definition]) -> Totals:
    """As `totals`, from the values of `total_columns`.

    For count windows, metrics and joins, this also counts events without a window: `assigned_to`
    gives the correct number.
    """
    assigned = {name: row[f"{name}{FIRST}"] or 0 for name in definitions}
    for name, first in assigned.items():
        last = row[f"{name}{LAST}"] or 0
        if first != last:
            raise ConservationError(
                f"inconsistent slices: {first} windows by their first events, {last} by their "
                "last ones",
                field=name,
                way_out=_WAY_OUT,
            )
    accepted, rows = row["accepted"] or 0, row["rows"] or 0
    return Totals(accepted, rows, row["first"], row["horizon"], assigned, also=row)


def assigned_to(sliced: Sliced, definition: Definition) -> int:
    """The same sum, from the events themselves, for windows that are computed from them."""
    assert sliced.events is not None
    if isinstance(definition.window, CountWindow):
        return _owned(sliced, {"one": definition}, sliced.events, F.count(F.lit(1)))["one"]
    if definition.blanks:
        return _usable(sliced, {"one": definition})["one"]
    return sliced.events.count() if sliced.count is None else sliced.count


def _usable(sliced: Sliced, definitions: Mapping[str, Definition]) -> dict[str, int]:
    """How many events have a dimension of each metric, or are on a side of each join."""
    wanted = {
        name: sliced.usable(definition.window)
        for name, definition in definitions.items()
        if isinstance(definition.window, TableWindow)
    }
    if not wanted:
        return {}
    assert sliced.events is not None
    counts = [F.count_if(condition).alias(name) for name, condition in wanted.items()]
    return sliced.events.agg(*counts).collect()[0].asDict()


def _owned(
    sliced: Sliced, definitions: Mapping[str, Definition], rows: DataFrame, events: Column
) -> dict[str, int]:
    """How many events have their own count window, from the number of events of each key."""
    sums: dict[tuple[str, ...], list[Column]] = {}
    for name, definition in definitions.items():
        kind = kind_of(definition.window, sliced.engine, sliced.zone)
        if isinstance(kind, CountRows):
            owned = F.sum(kind.owned(F.col("_count"))).alias(name)
            sums.setdefault(tuple(sliced.of(definition).key.inner), []).append(owned)
    own_counts: dict[str, int] = {}
    for key, own in sums.items():
        counts = rows.groupBy(*key).agg(events.alias("_count"))
        own_counts |= counts.agg(*own).collect()[0].asDict()
    return {name: value or 0 for name, value in own_counts.items()}


def _assigned(sliced: Sliced, definition: Definition, at: str) -> Column:
    kind = kind_of(definition.window, sliced.engine, sliced.zone)
    return F.sum(F.col(EVENTS) * kind.windows_each(F.col(at)))


def check_rows(read: int, totals: Totals, quarantined: int) -> None:
    """Checks that rows read = events accepted + their duplicates + rows quarantined.

    Raises:
        ConservationError: if not.
    """
    if read != totals.rows + quarantined:
        raise ConservationError(
            f"{read} rows were read, but {totals.rows} counted and {quarantined} quarantined",
            field="source",
            way_out=_WAY_OUT,
        )


def check_held(name: str, events: int, assigned: int) -> None:
    """Checks that a definition's windows hold each event as often as the engine assigns it.

    Raises:
        ConservationError: if not.
    """
    if events != assigned:
        raise ConservationError(
            f"its windows hold {events} events, but {assigned} were assigned to them",
            field=name,
            way_out=_WAY_OUT,
        )


def check_none_lost(name: str, lost: int) -> None:
    """Checks that every event of the source that was in a removed window is in a new one.

    Args:
        name: the table.
        lost: how many windows or slices hold events that are in no new window.

    Raises:
        ConservationError: some are not.
    """
    if lost:
        raise ConservationError(
            f"{lost} windows or parts of windows were removed, but their events are not in any "
            "window that was written",
            field=name,
            way_out=_WAY_OUT,
        )

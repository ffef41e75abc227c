"""Inputs that were counted, but are gone or different now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from backfill.ledger.record import Input, Record, known_as
from backfill.time.dates import ALL, NONE, Dates


@dataclass(frozen=True)
class Replaced:
    """An input whose events, as they were, are still in windows.

    Attributes:
        path: the file's path.
        gone: the file does not exist now; otherwise it has changed.
        dates: the dates on which its events can be in windows. Running these dates puts it right.
        bounds: the times between which its counted events lie, µs, inclusive; None if they are not
            known.
    """

    path: str
    gone: bool
    dates: Dates
    bounds: tuple[int, int] | None


def replaced(record: Record | None, inputs: Mapping[str, Input], zone: str) -> list[Replaced]:
    """The inputs of a record that are gone or have changed.

    Args:
        record: a table's record; None if nothing is published.
        inputs: the inputs as they are now.
        zone: the time zone of dates.
    """
    replacements: list[Replaced] = []
    if record is None:
        return replacements
    for name, before in record.inputs.items():
        now = inputs.get(name)
        if now is not None and before.same_content(now):
            continue
        dates = record.held(before, zone)
        if dates:
            path = known_as(name)
            bounds = before.bounds or _bounds(dates, zone)
            replacements.append(Replaced(path, path not in inputs, dates, bounds))
    return replacements


def _bounds(dates: Dates, zone: str) -> tuple[int, int] | None:
    spans = [*dates.spans(zone)]
    low, high = spans[0][0], spans[-1][1]
    return None if low is None or high is None else (low, high - 1)


def dates_of(replacements: Iterable[Replaced]) -> Dates:
    """All dates on which events of replaced inputs can be in windows."""
    return Dates.union(replacement.dates for replacement in replacements)


def counted_by(
    record: Record | None, inputs: Mapping[str, Input], dates: Dates, zone: str
) -> dict[str, Dates]:
    """The dates on which each input counts, for a run of some dates.

    All inputs count on the run's dates, and each one where it was counted before. On dates of
    replaced inputs every input counts: a window that reaches there is written from what the source
    holds now, since nothing else is left to write it from.
    """
    if record is None:
        return dict.fromkeys(inputs, ALL)
    everywhere = dates | dates_of(replaced(record, inputs, zone))
    return {path: everywhere | counted_before(record, path, file) for path, file in inputs.items()}


def uncounted(record: Record | None, inputs: Mapping[str, Input]) -> dict[str, Dates]:
    """The dates on which each input is not counted yet; fully counted inputs are left out."""
    rest = {path: counted_before(record, path, file).rest() for path, file in inputs.items()}
    return {path: dates for path, dates in rest.items() if dates}


def counted_before(record: Record | None, path: str, now: Input) -> Dates:
    """The dates on which an input was counted as it is now."""
    before = None if record is None else record.inputs.get(path)
    return NONE if before is None or not before.same_content(now) else before.counted

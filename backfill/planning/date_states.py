"""What is known about each date: whether it is computed, and whether that still holds."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence

from backfill.ledger.changed_inputs import Replaced, dates_of
from backfill.ledger.state import State
from backfill.planning.stages import DateState
from backfill.printable import shown
from backfill.time.dates import DAY, NONE, Dates


def date_states(
    state: State,
    dates: Dates,
    with_events: Dates,
    kept: Dates,
    counts: Mapping[dt.date, int],
    late: Mapping[dt.date, int],
    inputs: Sequence[Replaced],
) -> Iterable[DateState]:
    """Dates that are alike, in order.

    Args:
        state: the table.
        dates: the dates to look at.
        with_events: dates that have events, or rows without events.
        kept: dates within retention.
        counts: events by date.
        late: events that are not in the windows yet, by date.
        inputs: inputs that are gone or have changed.
    """
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
            detail = _why([replacement for replacement in inputs if date in replacement.dates])
        if run is not None and (run.state, run.detail, run.dates[1]) == (here, detail, date):
            run = DateState(
                (run.dates[0], date + DAY), here, run.events + events, run.late + new, detail
            )
            continue
        if run is not None:
            yield run
        run = DateState((date, date + DAY), here, events, new, detail)
    if run is not None:
        yield run


def _why(inputs: Sequence[Replaced]) -> str:
    """Which inputs are not what they were."""
    first, others = inputs[0], len(inputs) - 1
    what = "is missing" if first.gone else "has changed"
    return f"{shown(first.path)} {what}" + (f", and {others:,} others" if others else "")

"""What a replay shows about one difference: what it dropped, still holds, lost or counted twice."""

from __future__ import annotations

from typing import Any

from backfill.reconciliation.explaining.case import Case
from backfill.reconciliation.explaining.matching import Difference
from backfill.reconciliation.explaining.outcome import Outcome
from backfill.windows import SlidingWindow, is_distinct

#: The cause for each reason why the replay dropped an event. That an engine's time begins at the
#: epoch is a convention of its own.
_DROPPED = {
    "late": "late",
    "past_retention": "retention",
    "no_key": "missing_in_stream",
    "before_epoch": "end_convention",
}


def facts(case: Case, difference: Difference, made: Outcome, evidence: dict[str, Any]) -> set[str]:
    """The causes that a replay shows by itself.

    Args:
        case: the key.
        difference: one of the key's.
        made: what was replayed, of the whole key or of what is near the difference.
        evidence: gets what shows the causes.
    """
    hull = difference.hull
    shown = set()
    near = [event.arrival for event in case.inside(hull)]
    dropped = [event for arrival in near for event in made.dropped.get(arrival, ())]
    lost = [
        (event.arrival, event.late_by, _DROPPED[event.reason])
        for event in dropped
        if event.reason in _DROPPED
    ]
    lost += [
        (window.arrival, window.late_by, "late")
        for bounds in {row.bounds for row in difference.batch}
        for window in made.dropped_windows.get(bounds, ())
    ]
    for arrival, late_by, cause in sorted(set(lost), key=repr):
        shown.add(cause)
        evidence.setdefault("dropped", []).append({"arrival": arrival, "late_by_us": late_by})
    stores = case.operator.stores
    for kind, cause in (
        ("pending", "pending"),
        ("lost", "engine_loss"),
        ("begun_anew", "engine_loss" if stores else "overlap"),
        # With panes, what was merged into a session is part of that one, which may be pending.
        *((("superseded", "engine_loss"),) if stores else ()),
    ):
        windows = made.windows(kind, case.operator).about(*hull)
        rows = [row for row in windows if case.concerns(row, hull)]
        if rows:
            shown.add(cause)
            evidence.setdefault(cause, []).extend(list(row.bounds) for row in rows)
    misplaced = _misplaced(case, hull, made, missing=not lost)
    if misplaced:
        shown.add("engine_loss")
        evidence["misplaced"] = misplaced
    copies = sorted(n for n in near if n in case.copies and n not in made.dropped)
    if copies:
        shown.add("redelivered")
        evidence["copies"] = copies
    return shown


def _misplaced(case: Case, hull: tuple[int, int], made: Outcome, *, missing: bool) -> list[Any]:
    """Events that the operator took but that are not in their own row, or are in another one.

    This is for windows around single events. Flink clears a key's state if nothing comes for long,
    and then takes earlier rows again. With late events that it does not drop, Kafka Streams lacks
    windows, and takes the states of some windows for those of others.

    Args:
        case: of the key.
        hull: the bounds of the row.
        made: what was replayed.
        missing: if there is no such row, that is not because of dropped events.
    """
    window = case.operator.window
    if not isinstance(window, SlidingWindow):
        return []
    distinct = is_distinct(window)
    taken = {
        event.arrival
        for event in case.inside(hull)
        if event.arrival not in made.dropped
        and not (distinct and (case.floored(event) or 0) < hull[0])
    }
    final = made.windows("final", case.operator).about(*hull)
    rows = [row for row in final if case.concerns(row, hull)]
    if not rows:
        return sorted(taken) if distinct and missing else []
    return sorted({n for row in rows for n in taken ^ {*row.written}})

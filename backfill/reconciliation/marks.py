"""Turns the offsets of commits and restarts into arrivals of the events that are replayed."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from backfill.reconciliation.arrow_rows import Values
from backfill.reconciliation.clocks import PARTITION, PLACE

#: Settings that name places in the input: partition and offset. Commits can be at intervals, too.
PLACES = ("commits", "restarts")
#: Settings that have no meaning for a key alone: other keys' events decide when they matter.
OF_ALL_KEYS = (*PLACES, "emit_interval")


def names_places(settings: Mapping[str, Any], name: str) -> bool:
    """Whether the setting is given, as places rather than as an interval."""
    return name in settings and not isinstance(settings[name], str | int)


def nearest(name: str, ordered: Sequence[int], mark: int) -> int | None:
    """The index in `ordered` of the place that a commit follows or a restart precedes, if any.

    A commit follows the last place at or before its mark; a restart precedes the first place at or
    after its mark.
    """
    at = bisect_right(ordered, mark) - 1 if name == "commits" else bisect_left(ordered, mark)
    return at if 0 <= at < len(ordered) else None


def by_arrival(
    settings: Mapping[str, Any], rows: Sequence[Values], arrivals: Sequence[int]
) -> dict[str, Any]:
    """The settings, with arrivals in place of offsets.

    A mark may also be the offset of a record that is not an event here.

    Args:
        settings: of the operator.
        rows: the events in order of arrival, by partition and offset.
        arrivals: the arrivals of the events.
    """
    offsets: dict[str, list[int]] = {}
    places: dict[str, list[int]] = {}
    for row, arrival in zip(rows, arrivals, strict=True):
        offsets.setdefault(str(row[PARTITION]), []).append(row[PLACE])
        places.setdefault(str(row[PARTITION]), []).append(arrival)
    new_settings = dict(settings)
    for name in PLACES:
        if names_places(settings, name):
            marks = []
            for partition, offset in settings[name]:
                at = nearest(name, offsets.get(str(partition), []), offset)
                if at is not None:
                    marks.append(places[str(partition)][at])
            new_settings[name] = tuple(marks)
    return new_settings

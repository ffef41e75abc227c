"""The causes by which batch and stream differ, each named and described once.

Whoever tells a cause, accepts it or draws it takes it from here. Nothing else of the package is
imported, so that a job file and the command line can ask for a name before Spark is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from backfill.errors import JobFileError, did_you_mean

UNEXPLAINED = "unexplained"
#: No cause, but what may be accepted like one: causes that hold and are not proved.
POSSIBLE = "possible"


@dataclass(frozen=True, kw_only=True)
class Cause:
    """Why rows differ.

    Attributes:
        name: as reports, `--accept` and JSON have it.
        since: the rows differ since this is so.
        color: in pictures.
        shown: the replay shows it by itself, without a fault that is assumed.
        of_order: it hangs on the order in which events arrived, those of other keys too.
    """

    name: str
    since: str
    color: str
    shown: bool = False
    of_order: bool = False


#: By name. Where a replay shows several, they count in this order.
CAUSES: Mapping[str, Cause] = MappingProxyType(
    {
        each.name: each
        for each in (
            Cause(
                name="missing_in_stream",
                since="the stream never saw events, or its operator does not take them (no key)",
                color="#76b7b2",
                shown=True,
            ),
            Cause(
                name="late",
                since="events came too late, for all their windows or for some",
                color="#4e79a7",
                shown=True,
                of_order=True,
            ),
            Cause(
                name="retention",
                since="what is past it is dropped, or gone from the batch",
                color="#9c755f",
                shown=True,
                of_order=True,
            ),
            Cause(
                name="pending",
                since="the window had not closed when the input ended",
                color="#f28e2b",
                shown=True,
                of_order=True,
            ),
            Cause(
                name="engine_loss",
                since="a store hid, deleted or left over what it should not have",
                color="#b07aa1",
                shown=True,
                of_order=True,
            ),
            Cause(
                name="overlap",
                since="the engine had forgotten a session, and began another too near to it",
                color="#ff9da7",
                shown=True,
                of_order=True,
            ),
            Cause(
                name="redelivered",
                since="an event came twice, and a batch counts it once",
                color="#59a14f",
                shown=True,
            ),
            Cause(
                name="restart",
                since="the operator's clock was lost, and it took what is late otherwise",
                color="#edc948",
                shown=True,
                of_order=True,
            ),
            Cause(
                name="end_convention",
                since="windows end, or begin to be, elsewhere: an end with the gap or without it, "
                "the other side closed, no windows or no events before the epoch",
                color="#bab0ac",
                shown=True,
            ),
            Cause(
                name="tombstone_missing",
                since="a row that was taken back is still there",
                color="#a0cbe8",
            ),
            Cause(
                name="gap_edge",
                since="events exactly one gap apart are one session to one of the two only",
                color="#ffbe7d",
            ),
            Cause(
                name="zone_shift",
                since="the stream's windows are moved by an offset of a zone",
                color="#8cd17d",
            ),
            Cause(
                name="wrong_gap",
                since="the stream's windows have another gap",
                color="#b6992d",
            ),
            Cause(
                name="wrong_size",
                since="the stream's windows have another size",
                color="#499894",
            ),
            Cause(
                name="rounded",
                since="the stream's values have fewer digits",
                color="#d37295",
            ),
            Cause(
                name="float_order",
                since="doubles were added in another order, which moved the sum by more than the "
                "bound within which they count as equal",
                color="#d4a6c8",
            ),
            Cause(
                name="missing_in_batch",
                since="the table lacks events that the source has, or has values that are not "
                "theirs",
                color="#79706e",
            ),
            Cause(
                name=UNEXPLAINED,
                since="nothing that was tried gives what the stream wrote",
                color="#e15759",
            ),
        )
    }
)

#: What may be accepted: all causes but that there is none, and those that are not proved.
ACCEPTABLE = (*(name for name in CAUSES if name != UNEXPLAINED), POSSIBLE)


def check_acceptable(names: Iterable[str]) -> None:
    """Raises JobFileError for what is the name of no cause."""
    for name in names:
        if name not in ACCEPTABLE:
            raise JobFileError(
                "there is no such cause to accept",
                field="accept",
                value=name,
                way_out=did_you_mean(name, ACCEPTABLE),
            )

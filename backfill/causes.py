"""The causes of differences between batch and stream, each named and described once.

Reports, `--accept` and charts take them from here. Nothing that needs Spark is imported, so that
the job file and the command line can check a name before Spark is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from backfill.errors import JobFileError, did_you_mean

UNEXPLAINED = "unexplained"
#: Not a cause, but can be accepted like one: causes that hold but are not proved.
POSSIBLE = "possible"


@dataclass(frozen=True, kw_only=True)
class Cause:
    """Why rows differ.

    Attributes:
        name: its name in reports, `--accept` and JSON.
        since: a sentence that says why the rows differ.
        color: its color in charts.
        shown: the replay shows it by itself, without assuming a fault.
        of_order: it depends on the order in which events arrived, including those of other keys.
    """

    name: str
    since: str
    color: str
    shown: bool = False
    of_order: bool = False


#: By name. If a replay shows several, they count in this order.
CAUSES: Mapping[str, Cause] = MappingProxyType(
    {
        cause.name: cause
        for cause in (
            Cause(
                name="missing_in_stream",
                since="the stream never received the events, or its operator rejects them (no key)",
                color="#76b7b2",
                shown=True,
            ),
            Cause(
                name="late",
                since="events arrived too late for some or all of their windows",
                color="#4e79a7",
                shown=True,
                of_order=True,
            ),
            Cause(
                name="retention",
                since="the window is past the retention, so the stream dropped it or the table "
                "removed it",
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
                since="a state store hid, deleted or kept entries that it should not have",
                color="#b07aa1",
                shown=True,
                of_order=True,
            ),
            Cause(
                name="overlap",
                since="the engine had evicted a session and started another one within the gap",
                color="#ff9da7",
                shown=True,
                of_order=True,
            ),
            Cause(
                name="spurious",
                since="an event was written alone before its partner came (joins only)",
                color="#86bcb6",
                of_order=True,
            ),
            Cause(
                name="redelivered",
                since="an event was delivered twice; the batch counts it once",
                color="#59a14f",
                shown=True,
            ),
            Cause(
                name="restart",
                since="the operator lost its clock in a restart and accepted events that were late",
                color="#edc948",
                shown=True,
                of_order=True,
            ),
            Cause(
                name="end_convention",
                since="the two sides draw windows differently: the end with or without the gap, "
                "the other end inclusive, or no windows or events before the epoch",
                color="#bab0ac",
                shown=True,
            ),
            Cause(
                name="tombstone_missing",
                since="a retracted row is still in the output",
                color="#a0cbe8",
            ),
            Cause(
                name="gap_edge",
                since="only one side puts events exactly one gap apart into the same session",
                color="#ffbe7d",
            ),
            Cause(
                name="zone_shift",
                since="the stream's windows are shifted by a time zone offset",
                color="#8cd17d",
            ),
            Cause(
                name="wrong_gap",
                since="the stream used a different session gap",
                color="#b6992d",
            ),
            Cause(
                name="wrong_size",
                since="the stream used a different window size",
                color="#499894",
            ),
            Cause(
                name="rounded",
                since="the stream's values have fewer digits",
                color="#d37295",
            ),
            Cause(
                name="float_order",
                since="doubles were added in a different order, which changed the sum by more than "
                "the tolerance",
                color="#d4a6c8",
            ),
            Cause(
                name="missing_in_batch",
                since="the table is missing events that the source has, or has values that the "
                "source does not give",
                color="#79706e",
            ),
            Cause(
                name=UNEXPLAINED,
                since="no known cause reproduces the stream's output",
                color="#e15759",
            ),
        )
    }
)

#: What may be accepted: every cause except `unexplained`, and those that are not proved.
ACCEPTABLE = (*(name for name in CAUSES if name != UNEXPLAINED), POSSIBLE)


def check_acceptable(names: Iterable[str]) -> None:
    """Raises JobFileError for a name that is not a cause."""
    for name in names:
        if name not in ACCEPTABLE:
            raise JobFileError(
                "there is no such cause",
                field="accept",
                value=name,
                way_out=did_you_mean(name, ACCEPTABLE),
            )

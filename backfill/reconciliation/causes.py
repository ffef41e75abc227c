"""Why a key's windows differ: the operator is replayed, and what gives the stream's rows is it.

A cause is proved where the replay under it gives exactly what the stream wrote, and nothing else
that was tried does so equally well. Causes are tried from the least to the most that they assume:
the operator as it is described; then one fault besides, of the output, of its settings, of its
input; then a fault of each of two of these kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from backfill.reconciliation.matching import Difference
from backfill.reconciliation.operator import Operator
from backfill.reconciliation.rows import Row, Slack, same_values
from backfill.replay import Event, Replayed

UNEXPLAINED = "unexplained"
POSSIBLE = "possible"


@dataclass(frozen=True)
class Explanation:
    """Why one difference is there.

    Attributes:
        causes: in order of weight; the first counts.
        proved: the replay under them gives the stream's rows, and no other does.
        evidence: what shows it.
    """

    causes: tuple[str, ...]
    proved: bool
    evidence: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """One key with differences.

    Attributes:
        operator: as it is described.
        events: of the key, in order of arrival, redelivered copies among them.
        stream: all the stream's rows of the key.
        differences: to be explained.
        slack: by aggregate, for sums of doubles.
        copies: for each event (by arrival) that is a copy of an earlier one, that one's arrival.
        expired: what ended before it is past the batch's retention, µs.
    """

    operator: Operator
    events: Sequence[Event]
    stream: Sequence[Row]
    differences: Sequence[Difference]
    slack: Mapping[str, Slack] = field(default_factory=dict)
    copies: Mapping[Any, Any] = field(default_factory=dict)
    expired: int | None = None

    def same(self, one: Row, other: Row) -> bool:
        """Whether two rows say the same."""
        return one.bounds == other.bounds and same_values(one.values, other.values, self.slack)

    def gives(self, made: Sequence[Row], hull: tuple[int, int]) -> bool:
        """Whether these rows are the stream's, as far as they meet a span of time."""
        ours = sorted((r for r in made if _meets(r, hull)), key=_by_bounds)
        theirs = sorted((r for r in self.stream if _meets(r, hull)), key=_by_bounds)
        return len(ours) == len(theirs) and all(map(self.same, ours, theirs))


@dataclass(frozen=True)
class Hypothesis:
    """Rows that the stream would hold, if a fault were there.

    Attributes:
        causes: what the fault is called.
        rows: what the key's output would be.
        replayed: where they come from; None where the output alone is at fault.
        evidence: what the fault is.
        proved: that the rows agree proves it.
    """

    causes: tuple[str, ...]
    rows: Sequence[Row]
    replayed: Replayed | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)
    proved: bool = True


#: Makes hypotheses of a fault, for one difference.
Fault = Callable[[Case, Difference, Replayed], Iterator[Hypothesis]]


def _meets(row: Row, hull: tuple[int, int]) -> bool:
    return row.start <= hull[1] and row.end >= hull[0]


def _by_bounds(row: Row) -> tuple[int, int, str]:
    return row.start, row.end, repr(sorted(row.values.items(), key=str))

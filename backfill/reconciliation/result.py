"""What a reconciliation found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from backfill.causes import POSSIBLE, UNEXPLAINED, check_acceptable
from backfill.quality.checks import Outcome
from backfill.reconciliation.case import Explanation
from backfill.reconciliation.matching import Difference


@dataclass(frozen=True)
class Explained:
    """One difference of one key, and its causes.

    Attributes:
        key: the values of the key's columns.
        difference: the windows on both sides.
        explanation: why.
    """

    key: tuple[Any, ...]
    difference: Difference
    explanation: Explanation


@dataclass(frozen=True)
class Part:
    """What came of some keys.

    Attributes:
        windows: how many the batch has of them.
        matched: how many of these are alike on both sides.
        explained: all other windows, by key.
        members: the events of the windows in there, for aggregates that are not replayed; None
            where all are.
    """

    windows: int
    matched: int
    explained: Sequence[Explained]
    members: pa.Table | None


@dataclass(frozen=True)
class Reconciled:
    """The result of a reconciliation.

    Attributes:
        window: the name of the table.
        matched: windows that are equal on both sides.
        differences: all others; windows of one key that overlap are one difference.
        batch, stream: the numbers of windows of both sides.
        ordered: the order in which events arrived is known.
        undecoded: rows of the stream that could not be decoded.
        checks: the outcome of each check of the job.
    """

    window: str
    matched: int
    differences: Sequence[Explained]
    batch: int
    stream: int
    ordered: bool
    undecoded: int = 0
    checks: tuple[Outcome, ...] = ()

    @property
    def causes(self) -> dict[str, int]:
        """How many differences have each cause first, most frequent first."""
        return dict(Counter(each.explanation.causes[0] for each in self.differences).most_common())

    @property
    def possible(self) -> int:
        """How many of the explained differences are not proved."""
        return sum(
            not each.explanation.proved and each.explanation.causes[0] != UNEXPLAINED
            for each in self.differences
        )

    @property
    def unexplained(self) -> int:
        """How many have no cause."""
        return self.causes.get(UNEXPLAINED, 0)

    def ok(self, accept: Collection[str] = ()) -> bool:
        """Whether nothing differs but for proved causes that are accepted, or possible ones.

        And all of the stream could be decoded, and no check failed that is no mere warning.

        Raises:
            JobFileError: there is no such cause.
        """
        check_acceptable(accept)
        failed = any(each.stops for each in self.checks)
        return (
            not failed
            and not self.undecoded
            and all(_accepted(each.explanation, accept) for each in self.differences)
        )


def _accepted(found: Explanation, accept: Collection[str]) -> bool:
    if found.causes[0] == UNEXPLAINED:
        return False
    return set(found.causes) <= set(accept) if found.proved else POSSIBLE in accept

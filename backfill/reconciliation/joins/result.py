"""The result of comparing a join with a stream's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from backfill.causes import UNEXPLAINED, check_acceptable


@dataclass(frozen=True)
class JoinDifference:
    """A row that only one side has.

    Attributes:
        row: its values, by the stream's columns.
        side: the side that has it, "batch" or "stream".
        cause: one of those of `reconcile`, or `spurious`; `unexplained` if replaying the operator
            does not give the stream's rows of the key.
        proved: whether replaying the operator gives them.
        time: of its left event, or of its only event, µs; None if it is unknown.
    """

    row: dict[str, Any]
    side: str
    cause: str
    time: int | None
    proved: bool


@dataclass(frozen=True)
class JoinReconciled:
    """A batch join compared with a stream's.

    Attributes:
        matched: rows that both have.
        differences: all others.
        batch, stream: the numbers of rows of both.
    """

    matched: int
    differences: tuple[JoinDifference, ...]
    batch: int
    stream: int

    @property
    def causes(self) -> dict[str, int]:
        """How many differences have each cause, most frequent first."""
        return dict(Counter(difference.cause for difference in self.differences).most_common())

    @property
    def unexplained(self) -> int:
        """How many have no cause."""
        return self.causes.get(UNEXPLAINED, 0)

    def ok(self, accept: Collection[str] = ()) -> bool:
        """Whether all differences have accepted causes.

        Raises:
            JobFileError: there is no such cause.
        """
        check_acceptable(accept)
        return set(self.causes) <= set(accept)

"""What a reconciliation found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from backfill.causes import POSSIBLE, UNEXPLAINED, check_acceptable
from backfill.quality.checks import Outcome
from backfill.reconciliation.packed import Explained, Kind, Packed, kind

__all__ = ["Explained", "Part", "Reconciled"]


@dataclass(frozen=True)
class Part:
    """The result for some of the keys.

    Attributes:
        windows: how many windows the batch has of these keys.
        matched: how many of these windows are alike on both sides.
        explained: all other windows, in order of the keys' text.
        members: the events of the windows in `explained`, for aggregates that are not replayed;
            None if all are.
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
        differences: all others; windows of one key that overlap are one difference. If there are
            many, they are unpacked on demand: iterate over them or take a slice, rather than making
            a list.
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
        return self._firsts(self._kinds)

    @property
    def proved(self) -> dict[str, int]:
        """How many of these are proved; causes of which none is proved are left out."""
        return self._firsts({kind: count for kind, count in self._kinds.items() if kind[1]})

    @property
    def possible(self) -> int:
        """How many of the explained differences are not proved."""
        return sum(
            count
            for (causes, proved), count in self._kinds.items()
            if not proved and causes[0] != UNEXPLAINED
        )

    @property
    def unexplained(self) -> int:
        """How many have no cause."""
        return self.causes.get(UNEXPLAINED, 0)

    def ok(self, accept: Collection[str] = ()) -> bool:
        """Whether all differences are accepted, all rows are decoded, and no check failed.

        A proved difference is accepted by its causes, any other that has a cause by `possible`.
        Checks that only warn do not count.

        Raises:
            JobFileError: there is no such cause.
        """
        check_acceptable(accept)
        failed = any(outcome.stops for outcome in self.checks)
        return (
            not failed
            and not self.undecoded
            and all(_accepted(causes, proved, accept) for causes, proved in self._kinds)
        )

    @property
    def _kinds(self) -> Mapping[Kind, int]:
        """The number of differences by their causes, and by whether these are proved."""
        if isinstance(self.differences, Packed):
            return self.differences.kinds
        return Counter(map(kind, self.differences))

    @staticmethod
    def _firsts(kinds: Mapping[Kind, int]) -> dict[str, int]:
        counts: Counter[str] = Counter()
        for (causes, _), count in kinds.items():
            counts[causes[0]] += count
        return dict(counts.most_common())


def _accepted(causes: Sequence[str], proved: bool, accept: Collection[str]) -> bool:
    if causes[0] == UNEXPLAINED:
        return False
    return {*causes} <= {*accept} if proved else POSSIBLE in accept

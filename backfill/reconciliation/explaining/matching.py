"""Matches the windows of a key: finds equal ones, and groups others that belong together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from backfill.reconciliation.rows import Row, by_bounds

Same = Callable[[Row, Row], bool]


@dataclass(frozen=True)
class Difference:
    """Windows of one key that are not alike on both sides, and meet each other.

    Attributes:
        batch: those of the batch, by start.
        stream: those of the stream, by start.
    """

    batch: tuple[Row, ...]
    stream: tuple[Row, ...]

    @property
    def status(self) -> str:
        """What kind of difference it is."""
        counts = len(self.batch), len(self.stream)
        if counts == (1, 1):
            same = self.batch[0].bounds == self.stream[0].bounds
            return "value_differs" if same else "bounds_differ"
        if not counts[1]:
            return "only_in_batch"
        if not counts[0]:
            return "only_in_stream"
        return "split" if counts[0] <= counts[1] else "merged"

    @property
    def hull(self) -> tuple[int, int]:
        """From the first start to the last end, µs.

        A session's end may be before its start if its gap is not the job's, because the job's gap
        was subtracted from the end that the engine reports.
        """
        bounds = [at for row in (*self.batch, *self.stream) for at in row.bounds]
        return min(bounds), max(bounds)


def match(
    batch: Sequence[Row], stream: Sequence[Row], same: Same, *, sessions: bool
) -> tuple[int, list[Difference]]:
    """The number of windows that are alike, and the differences, by time.

    Args:
        batch: windows of one key.
        stream: windows of the same key.
        same: whether two rows of equal bounds have the same values.
        sessions: windows that differ belong together if they overlap; if false, only if their
            bounds are equal.
    """
    rest = by_bounds(stream)
    left = []
    matched = 0
    for row in batch:
        theirs = rest.get(row.bounds, [])
        # The same window twice is no match: one of the two is too many.
        if len(theirs) == 1 and same(row, theirs[0]):
            matched += 1
            del rest[row.bounds]
        else:
            left.append(row)
    others = [row for rows in rest.values() for row in rows]
    groups = _overlapping(left, others) if sessions else _equal(left, others)
    return matched, groups


def _equal(batch: Sequence[Row], stream: Sequence[Row]) -> list[Difference]:
    ours, theirs = by_bounds(batch), by_bounds(stream)
    return [
        Difference(tuple(ours.get(bounds, ())), tuple(theirs.get(bounds, ())))
        for bounds in sorted({*ours, *theirs})
    ]


def _overlapping(batch: Sequence[Row], stream: Sequence[Row]) -> list[Difference]:
    """Sweeps over the starts: a row that begins after all before it have ended begins a group."""
    rows = sorted([(row, 0) for row in batch] + [(row, 1) for row in stream], key=_by_time)
    groups: list[Difference] = []
    open_: list[tuple[Row, int]] = []
    reached: int | None = None
    for row, side in rows:
        if reached is not None and row.start > reached:
            groups.append(_grouped(open_))
            open_ = []
            reached = None
        open_.append((row, side))
        reached = max(row.bounds if reached is None else (*row.bounds, reached))
    return [*groups, _grouped(open_)] if open_ else groups


def _by_time(placed: tuple[Row, int]) -> tuple[int, int, int]:
    row, side = placed
    return row.start, row.end, side


def _grouped(rows: Sequence[tuple[Row, int]]) -> Difference:
    batch, stream = (tuple(row for row, side in rows if side == own) for own in (0, 1))
    return Difference(batch, stream)

"""Windows as of each row from two parts each, for states that can't be subtracted.

Time is cut into blocks as long as a window, so a window holds exactly one boundary of blocks. It
holds what has come in the row's block so far, and what lasts of the block before. Both are running
aggregates, forward and backward, however long the window is. What lasts is taken from the window's
first row, which is the next one after the last row that the window has left behind.

Blocks of windows that divide each other are nested, so these windows share a sort in each
direction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, WindowSpec
from pyspark.sql import functions as F
from pyspark.sql.window import Window as Over

from backfill.aggregates.bound import Bound, Part
from backfill.columns import TIME
from backfill.operators.grids import floor_to
from backfill.operators.sliding import with_states

# Prefixes of a window's length: the block that a row is in, as a number that grows with time, and
# as one that falls: Spark always sorts upward by the columns that partition a window.
_BLOCK, _BACKWARD = "_block", "_backward"
# Prefixes of a window's length and a state: what has come in the block so far; what lasts of it
# from the row on.
_BEGUN, _LASTING = "_begun", "_lasting"
# What lasts from the next row on; from the key's first row on; from the window's first row on.
_NEXT, _FIRST, _TAIL = "_next", "_first", "_tail"

# How many rows have come in a block so far.
_ROWS = "_rows"

#: For each window's length, µs, the aggregates to compute over it.
Windows = Mapping[int, Sequence[Bound]]


@dataclass(frozen=True)
class Order:
    """How rows are grouped and ordered.

    Attributes:
        group: columns; rows with equal values in them belong together, and are in one task.
        place: columns that order them, TIME first.
        before: windows end before the row's place, and do not include it.
    """

    group: tuple[str, ...]
    place: tuple[str, ...]
    before: bool

    def so_far(self, outer: Sequence[str] = (), inner: Sequence[str] = ()) -> WindowSpec:
        """The rows of the outer blocks that are part of windows ending at the row.

        Where windows end before its place, this holds for the first row of a place: see `spread`.

        Args:
            outer: columns of blocks.
            inner: columns of blocks nested in these; rows are sorted by them, too.
        """
        rows = Over.partitionBy(*self.group, *outer).orderBy(*inner, *self.place)
        if self.before:
            return rows.rowsBetween(Over.unboundedPreceding, -1)
        return rows.rangeBetween(Over.unboundedPreceding, Over.currentRow)

    def spread(
        self, rows: DataFrame, names: Iterable[str], blocks: Sequence[str] = ()
    ) -> DataFrame:
        """Gives all rows of a place what `so_far` gives its first row."""
        if not self.before:
            return rows
        peers = Over.partitionBy(*self.group, *blocks, *self.place)
        return rows.withColumns({name: F.first(name).over(peers) for name in names})


def with_lasting(rows: DataFrame, windows: Windows, order: Order, counted: Column) -> DataFrame:
    """Adds what lasts of a row's block from the row on, for each window."""
    for chain in _chains(windows):
        blocks = [f"{_BACKWARD}{span}" for span in chain]
        rows = rows.withColumns(
            {name: -_block(span) for name, span in zip(blocks, chain, strict=True)}
        )
        for depth, span in enumerate(chain, 1):
            back = Over.partitionBy(*order.group, *blocks[:depth])
            back = back.orderBy(*blocks[depth:], F.col(TIME).desc())
            back = back.rangeBetween(Over.unboundedPreceding, Over.currentRow)
            rows = with_states(rows, f"{_LASTING}{span}", _over(windows[span], counted, back))
    return rows


def of_next(windows: Windows, order: Order, *, keeps_order: bool) -> dict[str, Column]:
    """The next row's time, and what lasts from it on: columns over the rows in order.

    `keeps_order`: a frame that is ordered by TIME alone sees rows of equal times in this order. If
    it does not, the next row is one of the next time, for all rows of a time.
    """
    if not windows:
        return {}
    names = [TIME, *(name for span in windows for name in _names(_LASTING, span, windows[span]))]
    rows = Over.partitionBy(*order.group)
    if keeps_order:
        in_order = rows.orderBy(*order.place)
        return {f"{_NEXT}{name}": F.lead(name).over(in_order) for name in names}
    later = rows.orderBy(TIME).rangeBetween(1, Over.unboundedFollowing)
    return {f"{_NEXT}{name}": F.first(name).over(later) for name in names}


def at_start(windows: Windows, order: Order, left: Mapping[int, WindowSpec]) -> dict[str, Column]:
    """The time of each window's first row, and what lasts from it on: columns over rows by time.

    Args:
        windows: as for `of_next`, which came before.
        order: as for `of_next`.
        left: for each window, the rows that it has left behind.
    """
    all_so_far = Over.partitionBy(*order.group).orderBy(TIME)
    all_so_far = all_so_far.rangeBetween(Over.unboundedPreceding, Over.currentRow)
    columns: dict[str, Column] = {}
    for span, own in windows.items():
        names = _names(_LASTING, span, own)
        columns |= {f"{_TAIL}{span}{TIME}": F.last(f"{_NEXT}{TIME}").over(left[span])}
        for tail, name in zip(_names(_TAIL, span, own), names, strict=True):
            columns[tail] = F.last(f"{_NEXT}{name}").over(left[span])
        # If a window has left nothing behind, its first row is that of the key.
        columns |= {f"{_FIRST}{name}": F.first(name).over(all_so_far) for name in (TIME, *names)}
    return columns


def with_begun(rows: DataFrame, windows: Windows, order: Order, counted: Column) -> DataFrame:
    """Adds what has come in a row's block so far, for each window."""
    for chain in _chains(windows):
        blocks = [f"{_BLOCK}{span}" for span in chain]
        rows = rows.withColumns(
            {name: _block(span) for name, span in zip(blocks, chain, strict=True)}
        )
        names = []
        for depth, span in enumerate(chain, 1):
            frame = order.so_far(blocks[:depth], blocks[depth:])
            states = _over(windows[span], counted, frame)
            if order.before:
                states[_ROWS] = F.count(F.lit(1)).over(frame)
            rows = with_states(rows, f"{_BEGUN}{span}", states)
            names += [f"{_BEGUN}{span}{state}" for state in states]
        rows = order.spread(rows, names, blocks)
    return rows


def joined(span: int, own: Sequence[Bound], events: Column, order: Order) -> Part:
    """The states of a window, merged from its two parts; `events`: how many events it has."""
    names = (TIME, *_names(_LASTING, span, own))
    tail_names = (f"{_TAIL}{span}{TIME}", *_names(_TAIL, span, own))
    none_left = F.col(f"{_TAIL}{span}{TIME}").isNull()
    start, *tails = (
        F.when(none_left, F.col(f"{_FIRST}{name}")).otherwise(F.col(tail))
        for name, tail in zip(names, tail_names, strict=True)
    )
    # The first row may be in the row's own block.
    lasts = (floor_to(start, span, 0) < _block(span)).cast("int")
    begun = F.col(f"{_BEGUN}{span}{_ROWS}") if order.before else F.lit(1)
    parts = [
        Part(number, dict(zip(_states(own), states, strict=True)))
        for number, states in ((lasts, tails), (begun, map(F.col, _names(_BEGUN, span, own))))
    ]
    both: dict[str, Column] = {}
    for binding in own:
        both |= binding.combine(*parts)
    return Part(events, both)


def _chains(spans: Iterable[int]) -> list[list[int]]:
    """Groups of spans that divide each other, longer spans first."""
    chains: list[list[int]] = []
    for span in sorted(spans, reverse=True):
        chain = next((candidate for candidate in chains if candidate[-1] % span == 0), None)
        if chain is None:
            chains.append([span])
        else:
            chain.append(span)
    return chains


def _block(span: int) -> Column:
    return floor_to(F.col(TIME), span, 0)


def _over(own: Sequence[Bound], counted: Column, frame: WindowSpec) -> dict[str, Column]:
    states: dict[str, Column] = {}
    for binding in own:
        states |= binding.over(counted, frame)
    return states


def _states(own: Sequence[Bound]) -> list[str]:
    return [name for binding in own for name in binding.states()]


def _names(part: str, span: int, own: Sequence[Bound]) -> list[str]:
    return [f"{part}{span}{state}" for state in _states(own)]

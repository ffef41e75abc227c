"""Keeps differences pickled and compressed, because there may be a million of them.

A difference takes two to three kilobytes as an object, and about a hundred bytes packed.
"""

from __future__ import annotations

import pickle
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import chain, islice
from typing import Any, overload

from backfill.reconciliation.explaining.case import Explanation
from backfill.reconciliation.explaining.matching import Difference

#: How many are packed together: a merge has a block of each of its inputs in memory.
_BLOCK = 100


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


#: The causes of a difference, and whether they are proved.
Kind = tuple[tuple[str, ...], bool]


class Packed(Sequence[Explained]):
    """An immutable sequence of differences; only some are unpacked at a time.

    Args:
        found: the differences, which are taken one after the other.

    Attributes:
        kinds: how many there are of each kind; counting them again would unpack all.
    """

    def __init__(self, differences: Iterable[Explained]) -> None:
        self._blocks: list[bytes] = []
        self._count = 0
        self.kinds: Counter[Kind] = Counter()
        rest = iter(differences)
        while block := list(islice(rest, _BLOCK)):
            # The fastest level: a better one saves a tenth, and takes twice as long.
            self._blocks.append(zlib.compress(pickle.dumps(block), 1))
            self._count += len(block)
            self.kinds.update(map(kind, block))

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Explained]:
        return chain.from_iterable(map(_unpacked, self._blocks))

    @overload
    def __getitem__(self, index: int) -> Explained: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Explained]: ...
    def __getitem__(self, index: int | slice) -> Explained | Sequence[Explained]:
        places = range(self._count)[index]
        if isinstance(places, int):
            return _unpacked(self._blocks[places // _BLOCK])[places % _BLOCK]
        blocks = {place // _BLOCK for place in places}
        known = {block: _unpacked(self._blocks[block]) for block in blocks}
        return [known[place // _BLOCK][place % _BLOCK] for place in places]


def kind(difference: Explained) -> Kind:
    """The kind of a difference."""
    return difference.explanation.causes, difference.explanation.proved


def in_order_of(difference: Explained) -> str:
    """The sort key of a difference."""
    return repr(difference.key)


def merged(runs: Sequence[Sequence[Explained]]) -> Sequence[Explained]:
    """All differences in order of their keys, packed if there are several runs.

    Args:
        runs: each in order of the keys.
    """
    return runs[0] if len(runs) == 1 else Packed(merge(*runs, key=in_order_of))


def _unpacked(block: bytes) -> list[Explained]:
    differences: list[Explained] = pickle.loads(zlib.decompress(block))
    return differences

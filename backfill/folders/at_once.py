"""Several requests at a time: each waits for an answer from a disk or an object store."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_T = TypeVar("_T")
_R = TypeVar("_R")
_REQUESTS = 16


def at_once(function: Callable[[_T], _R], items: Iterable[_T]) -> list[_R]:
    """A function's result for each item, in order."""
    with ThreadPoolExecutor(_REQUESTS) as pool:
        return list(pool.map(function, items))

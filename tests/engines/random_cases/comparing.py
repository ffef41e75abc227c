"""Where the replay and an engine differ, in words."""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from typing import Any

from tests.engines.recordings import Recording

#: How many rows of a long list to show before and after the first one that differs.
_BEFORE, _AFTER = 2, 12


def first_difference(what: str, replayed: Iterable[Any], recorded: Iterable[Any]) -> str | None:
    """Both lists around the first row that differs; None if they are the same."""
    actual, wanted = list(replayed), list(recorded)
    if actual == wanted:
        return None
    pairs = enumerate(zip(actual, wanted, strict=False))
    at = next((place for place, (one, other) in pairs if one != other), None)
    if at is None:
        at = min(len(actual), len(wanted))
    lines = [
        f"{what} differs from row {at}, of {len(actual)} by the replay, {len(wanted)} recorded"
    ]
    for name, rows in (("replay", actual), ("engine", wanted)):
        numbered = enumerate(rows[: at + _AFTER])
        lines += [
            f"  {name} {place}{'*' if place == at else ''}: {row}"
            for place, row in numbered
            if place >= at - _BEFORE
        ]
    return "\n".join(lines)


def together(*differences: str | None) -> str | None:
    """All the differences."""
    return "\n".join(difference for difference in differences if difference is not None) or None


def differing(engine: str, recordings: Sequence[Recording]) -> Iterator[tuple[Recording, str]]:
    """The cases on which the replay differs, or fails, and how."""
    difference = import_module(f"tests.engines.random_cases.{engine}").difference
    for recording in recordings:
        if recording.failed is not None:
            continue
        try:
            problem = difference(recording)
        except Exception:
            problem = traceback.format_exc()
        if problem is not None:
            yield recording, problem


def smallest(found: Iterable[tuple[Recording, str]]) -> str | None:
    """The case with the fewest events, and how it differs; None if there is no case."""
    recording, difference = min(found, key=lambda case: len(case[0].input()), default=(None, None))
    if recording is None:
        return None
    return f"{recording.name}: {json.dumps(recording.settings)}\n{difference}"

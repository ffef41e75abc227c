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
    found, wanted = list(replayed), list(recorded)
    if found == wanted:
        return None
    pairs = enumerate(zip(found, wanted, strict=False))
    at = next((place for place, (one, other) in pairs if one != other), None)
    if at is None:
        at = min(len(found), len(wanted))
    lines = [f"{what} differs from row {at}, of {len(found)} by the replay, {len(wanted)} recorded"]
    for name, rows in (("replay", found), ("engine", wanted)):
        told = enumerate(rows[: at + _AFTER])
        lines += [
            f"  {name} {place}{'*' if place == at else ''}: {row}"
            for place, row in told
            if place >= at - _BEFORE
        ]
    return "\n".join(lines)


def together(*differences: str | None) -> str | None:
    """All the differences."""
    return "\n".join(each for each in differences if each is not None) or None


def differing(engine: str, recordings: Sequence[Recording]) -> Iterator[tuple[Recording, str]]:
    """The cases on which the replay differs, or fails, and how."""
    difference = import_module(f"tests.engines.random_cases.{engine}").difference
    for recording in recordings:
        if recording.failed is not None:
            continue
        try:
            found = difference(recording)
        except Exception:
            found = traceback.format_exc()
        if found is not None:
            yield recording, found


def smallest(found: Iterable[tuple[Recording, str]]) -> str | None:
    """The case with the fewest events, and how it differs; None if there is no case."""
    recording, difference = min(found, key=lambda each: len(each[0].input()), default=(None, None))
    if recording is None:
        return None
    return f"{recording.name}: {json.dumps(recording.settings)}\n{difference}"

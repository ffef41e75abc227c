"""The outcomes of each run's checks, kept next to the tables for the data docs."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from backfill.quality.checks import Validation

_FOLDER = "_quality"
#: Where the data docs stand, below the folder of the tables.
PAGES = f"{_FOLDER}/docs"


def keep(root: Path, run_id: str, validations: Iterable[Validation]) -> None:
    """Writes the outcomes of a run's checks; whole or not at all."""
    at = dt.datetime.now(dt.timezone.utc).isoformat()
    kept = [
        {"table": each.table, "run_id": run_id, "at": at, "document": each.document}
        for each in validations
    ]
    folder = root / _FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / f"{run_id}.json", kept)


def kept(root: Path) -> list[dict[str, Any]]:
    """The outcomes of the checks of all runs, in order of time."""
    found: list[dict[str, Any]] = []
    for path in sorted((root / _FOLDER).glob("*.json")):
        found += json.loads(path.read_text())
    return sorted(found, key=lambda each: str(each["at"]))


def erase_examples(root: Path, texts: Sequence[str]) -> int:
    """Empties the examples of checks that show all of these texts, and deletes pages with them.

    Args:
        root: the folder of the tables.
        texts: such as the values of a key.

    Returns:
        In how many checks.
    """
    written = (json.dumps(each, ensure_ascii=False)[1:-1] for each in texts)
    patterns = [re.compile(word_pattern(each)) for each in written]
    erased = 0
    for path in sorted((root / _FOLDER).glob("*.json")):
        validations = json.loads(path.read_text())
        results = [each for kept in validations for each in kept["document"]["results"]]
        shown = [each for each in results if _shows(each["result"], patterns)]
        for each in shown:
            each["result"] = _without_lists(each["result"])
        if shown:
            _write(path, validations)
            erased += len(shown)
    if erased:
        shutil.rmtree(root / PAGES, ignore_errors=True)
    return erased


def word_pattern(text: str) -> str:
    """A pattern, of Python and of Java, for a text that is not a part of a longer word."""
    return rf"(?<!\w){re.escape(text)}(?!\w)"


def _shows(result: Any, patterns: Sequence[re.Pattern[str]]) -> bool:
    text = json.dumps(result, ensure_ascii=False)
    return all(each.search(text) for each in patterns)


def _without_lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_lists(each) for name, each in value.items()}
    return [] if isinstance(value, list) else value


def _write(path: Path, kept: Sequence[Any]) -> None:
    """Whole or not at all."""
    half = path.with_name(f".{path.stem}.{os.getpid()}")
    half.write_text(json.dumps(kept))
    half.replace(path)

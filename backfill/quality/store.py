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


def erase_examples(root: Path, texts: Sequence[str]) -> None:
    """Erases what checks show of rows with all of these texts, and the pages, if they show some.

    Args:
        root: the folder of the tables.
        texts: such as the values of a key. One without a letter or a digit is nowhere found.
    """
    found = [word_pattern(each) for each in texts]
    patterns = [re.compile(each) for each in found if each is not None]
    if not patterns or len(patterns) < len(found):
        return
    for path in sorted((root / _FOLDER).glob("*.json")):
        validations = json.loads(path.read_text())
        results = [each for one in validations for each in one["document"]["results"]]
        shown = [each for each in results if _shows(each, patterns)]
        for each in shown:
            each["result"] = _erased(each["result"], patterns)
            each["exception_info"] = _erased(each.get("exception_info"), patterns)
        if shown:
            shutil.rmtree(root / PAGES, ignore_errors=True)
            _write(path, validations)


def word_pattern(text: str) -> str | None:
    """A pattern for a text that is not a part of a longer word, a number or an address.

    Also as JSON has it. Of Python, and of Java after `(?U)`; None for a text without a letter or a
    digit, which may be anywhere.
    """
    if not re.search(r"\w", text):
        return None
    forms = {text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}
    return rf"(?<![\w.@-])(?:{'|'.join(map(re.escape, sorted(forms)))})(?![\w.@-])"


def _shows(result: Any, patterns: Sequence[re.Pattern[str]]) -> bool:
    shown = json.dumps([result["result"], result.get("exception_info")], ensure_ascii=False)
    return all(each.search(shown) for each in patterns)


def _erased(value: Any, patterns: Sequence[re.Pattern[str]]) -> Any:
    """Without lists, which are of examples, and without values that show one of the texts."""
    if isinstance(value, dict):
        return {name: _erased(each, patterns) for name, each in value.items()}
    if isinstance(value, list):
        return []
    return None if any(each.search(str(value)) for each in patterns) else value


def _write(path: Path, validations: Sequence[Any]) -> None:
    """Whole or not at all."""
    half = path.with_name(f".{path.stem}.{os.getpid()}")
    half.write_text(json.dumps(validations))
    half.replace(path)

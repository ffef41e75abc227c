"""The outcomes of each run's checks, kept next to the tables for the data docs."""

from __future__ import annotations

import datetime as dt
import json
import re
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from backfill.folders import Folder
from backfill.quality.checks import Validation
from backfill.quality.results import plain

_FOLDER = "_quality"
#: The parts of a result that can show values other than numbers of rows.
_SHOWING = ("result", "exception_info")
_COUNT = re.compile("_count$|_percent(_|$)")
#: Where the data docs are, below the folder of the tables or another on this machine.
PAGES = f"{_FOLDER}/docs"


def keep(root: Folder, run_id: str, validations: Iterable[Validation]) -> None:
    """Writes the outcomes of a run's checks; whole or not at all."""
    at = dt.datetime.now(dt.timezone.utc).isoformat()
    kept = [
        {"table": validation.table, "run_id": run_id, "at": at, "document": validation.document}
        for validation in validations
    ]
    _write(root / _FOLDER, f"{run_id}.json", kept)


def kept(root: Folder) -> list[dict[str, Any]]:
    """The outcomes of the checks of all runs, in order of time."""
    validations: list[dict[str, Any]] = []
    folder = root / _FOLDER
    for name in _documents(folder):
        validations += json.loads(folder.read(name))
    return sorted(validations, key=lambda validation: str(validation["at"]))


def erase_examples(root: Folder, pages: Path, values: Sequence[Any]) -> None:
    """Erases what checks show of rows with all of these values; if there was any, also the pages.

    Args:
        root: the folder of the tables.
        pages: where the pages are.
        values: such as those of a key. A value whose text has no letter or digit is never found.
    """
    words = [word_pattern(text_of(value)) for value in values]
    patterns = [re.compile(word) for word in words if word is not None]
    if not patterns or len(patterns) < len(words):
        return
    folder = root / _FOLDER
    for name in _documents(folder):
        validations = json.loads(folder.read(name))
        results = [result for one in validations for result in one["document"]["results"]]
        shown = [result for result in results if _shows(result, patterns)]
        for result in shown:
            for part in _SHOWING:
                result[part] = _erased(result.get(part), patterns)
        if shown:
            shutil.rmtree(pages, ignore_errors=True)
            _write(folder, name, validations)


def text_of(value: Any) -> str:
    """A value's text, as the outcomes of checks have it."""
    return value if isinstance(value, str) else json.dumps(plain(value)).strip('"')


def word_pattern(text: str) -> str | None:
    """A pattern for a text that is not part of a longer word, a number or an address.

    It also finds the text as JSON writes it. The pattern works in Python, in Java after `(?U)` and,
    having no lookaround, in Rust. None for a text without a letter or digit, which may be anywhere.
    """
    if not re.search(r"\w", text):
        return None
    forms = {text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}
    words = "|".join(map(re.escape, sorted(forms)))
    before, after = r"(?:(?:^|\W)[.@-]|[^\w.@-]|^)", r"(?:[.@-](?:\W|$)|[^\w.@-]|$)"
    return f"{before}(?:{words}){after}"


def _shows(result: Any, patterns: Sequence[re.Pattern[str]]) -> bool:
    parts = [_without_counts(result.get(part)) for part in _SHOWING]
    text = json.dumps(parts, ensure_ascii=False)
    return all(pattern.search(text) for pattern in patterns)


def _without_counts(value: Any) -> Any:
    return (
        {k: v for k, v in value.items() if not _COUNT.search(k)}
        if isinstance(value, dict)
        else value
    )


def _erased(value: Any, patterns: Sequence[re.Pattern[str]]) -> Any:
    """The value without lists, which hold examples, and without values that show a text."""
    if isinstance(value, dict):
        return {k: v if _COUNT.search(k) else _erased(v, patterns) for k, v in value.items()}
    if isinstance(value, list):
        return []
    return None if any(pattern.search(str(value)) for pattern in patterns) else value


def _documents(folder: Folder) -> list[str]:
    return [name for name in folder.names() if name.endswith(".json") and name[:1] != "."]


def _write(folder: Folder, name: str, validations: Sequence[Any]) -> None:
    folder.write(name, json.dumps(validations).encode())

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
        {"table": each.table, "run_id": run_id, "at": at, "document": each.document}
        for each in validations
    ]
    _write(root / _FOLDER, f"{run_id}.json", kept)


def kept(root: Folder) -> list[dict[str, Any]]:
    """The outcomes of the checks of all runs, in order of time."""
    found: list[dict[str, Any]] = []
    folder = root / _FOLDER
    for name in _documents(folder):
        found += json.loads(folder.read(name))
    return sorted(found, key=lambda each: str(each["at"]))


def erase_examples(root: Folder, pages: Path, values: Sequence[Any]) -> None:
    """Erases what checks show of rows with all of these values; if there was any, also the pages.

    Args:
        root: the folder of the tables.
        pages: where the pages are.
        values: such as those of a key. A value whose text has no letter or digit is never found.
    """
    found = [word_pattern(text_of(each)) for each in values]
    patterns = [re.compile(each) for each in found if each is not None]
    if not patterns or len(patterns) < len(found):
        return
    folder = root / _FOLDER
    for name in _documents(folder):
        validations = json.loads(folder.read(name))
        results = [each for one in validations for each in one["document"]["results"]]
        shown = [each for each in results if _shows(each, patterns)]
        for each in shown:
            for part in _SHOWING:
                each[part] = _erased(each.get(part), patterns)
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
    parts = [_without_counts(result.get(each)) for each in _SHOWING]
    text = json.dumps(parts, ensure_ascii=False)
    return all(each.search(text) for each in patterns)


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
    return None if any(each.search(str(value)) for each in patterns) else value


def _documents(folder: Folder) -> list[str]:
    return [each for each in folder.names() if each.endswith(".json") and each[:1] != "."]


def _write(folder: Folder, name: str, validations: Sequence[Any]) -> None:
    folder.write(name, json.dumps(validations).encode())

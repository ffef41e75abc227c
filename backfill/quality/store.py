"""The outcomes of each run's checks, kept next to the tables for the data docs."""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Iterable
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
    half = folder / f".{run_id}.{os.getpid()}"
    half.write_text(json.dumps(kept))
    half.replace(folder / f"{run_id}.json")


def kept(root: Path) -> list[dict[str, Any]]:
    """The outcomes of the checks of all runs, in order of time."""
    found: list[dict[str, Any]] = []
    for path in sorted((root / _FOLDER).glob("*.json")):
        found += json.loads(path.read_text())
    return sorted(found, key=lambda each: str(each["at"]))

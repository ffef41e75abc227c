"""Small files of rows."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


def write_rows(
    path: Path, rows: Iterable[Mapping[str, Any]], schema: pa.Schema | None = None
) -> Path:
    """Writes rows as Parquet, CSV or JSON lines, by the ending; makes the folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = list(rows)
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(kept, schema=schema), path)
    elif path.suffix == ".csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(kept[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(kept)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in kept))
    return path

"""Copies of Parquet files in which each row has its number in the file."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from backfill.runtimes.row_numbers import numbered_copies

BEGAN = dt.datetime(2500, 1, 1)


def test_rows_are_numbered_over_row_groups_and_batches(tmp_path: Path) -> None:
    table = pa.table(
        {
            "n": pa.array([None if n % 7 == 0 else n for n in range(70_000)]),
            "window": [{"start": BEGAN + dt.timedelta(microseconds=n)} for n in range(70_000)],
        }
    )
    inside = tmp_path / "date=2026-01-01" / "é b"
    inside.mkdir(parents=True)
    for old in (False, True):
        name = f"{old}.parquet"
        pq.write_table(
            table, inside / name, row_group_size=999, use_deprecated_int96_timestamps=old
        )
        empty = tmp_path / f"empty-{name}"
        pq.write_table(table.slice(0, 0), empty, use_deprecated_int96_timestamps=old)
        files = [str(inside / name), str(empty)]
        copies = Path(numbered_copies(files, str(tmp_path), "number"))
        copy = pq.ParquetFile(copies / "date=2026-01-01" / "é b" / name).read()
        assert copy["number"].to_pylist() == list(range(70_000))
        assert copy.drop_columns(["number"]).to_pylist() == table.to_pylist()
        none = pq.ParquetFile(copies / empty.name).read()
        assert (none.num_rows, none.column_names) == (0, ["n", "window", "number"])

"""`backfill run`: the main job."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backfill.cli.options import JobFile, Json, Remote, Settings, Verbose, spark_session
from backfill.cli.output import iso_utc, print_json, print_line, print_table, tell

if TYPE_CHECKING:
    from backfill.run import RunResult


def run(
    job: JobFile,
    as_json: Json = False,
    verbose: Verbose = False,
    spark: Settings = None,
    remote: Remote = None,
) -> None:
    """Compute all windows of the job and publish them."""
    from backfill.job import Job

    loaded = Job.load(job)
    result = loaded.run(spark_session(spark, remote), progress=tell)
    if as_json:
        print_json(_document(result, loaded.spec.tables))
    else:
        _print(result, loaded.spec.tables)


def _document(result: RunResult, tables: Path) -> dict[str, Any]:
    return {
        "ok": True,
        "run_id": result.run_id,
        "read": result.read,
        "accepted": result.accepted,
        "duplicates": result.duplicates,
        "quarantined": result.quarantined,
        "windows": {
            name: {**asdict(window), "table": str(tables / name)}
            for name, window in result.windows.items()
        },
        "horizon": iso_utc(result.horizon_us),
        "seconds": round(result.seconds, 3),
    }


def _print(result: RunResult, tables: Path) -> None:
    counts = {
        "read": result.read,
        "accepted": result.accepted,
        "duplicates": result.duplicates,
        "quarantined": sum(result.quarantined.values()),
    }
    counts |= {f"  {reason}": rows for reason, rows in result.quarantined.items()}
    digits = max(len(f"{number:,}") for number in counts.values())
    for name, number in counts.items():
        print_line(f"{name:<20}{number:>{digits},}")
    print_line()
    rows = [
        (
            name,
            f"{window.rows:,}",
            f"{window.events:,}",
            _short(tables / name),
        )
        for name, window in result.windows.items()
    ]
    print_table(("window", "rows", "events", "table"), rows, right=("rows", "events"))
    print_line(f"\nDone in {result.seconds:.1f} s.")


def _short(path: Path) -> str:
    """The path from here, where that is shorter."""
    return min(os.path.relpath(path), str(path), key=len)

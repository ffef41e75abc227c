"""`backfill history`: the runs of a job; needs no Spark session."""

from __future__ import annotations

import datetime as dt
from typing import Any
from zoneinfo import ZoneInfo

from backfill.cli.options import JobFile, Json, Verbose
from backfill.cli.output import cell, print_json, print_line, print_table

_UNKNOWN = "-"
_COUNTS = ("rows", "read", "late", "duplicates", "quarantined", "changed")


def history(job: JobFile, as_json: Json = False, verbose: Verbose = False) -> None:
    """List the runs that published data, newest first."""
    from backfill.job import Job

    loaded = Job.load(job)
    runs = loaded.history()
    if as_json:
        print_json({"ok": True, "runs": runs})
        return
    zone = ZoneInfo(loaded.spec.timezone)
    if not runs:
        print_line(f"Nothing is published yet. Run: backfill run {job}")
        return
    columns = ("when", "who", "run", "part of", "what", "range", "versions", *_COUNTS)
    rows = [_texts(run, list(loaded.spec.windows), zone) for run in runs]
    print_table(columns, rows, right=_COUNTS)
    for run in runs:
        if run["published_anyway"]:
            print_line(f"{run['run_id']} failed checks: {cell(run['published_anyway'], zone)}")
    print_line(f"\n{len(runs)} run{'' if len(runs) == 1 else 's'}, times in {loaded.spec.timezone}")


def _texts(run: dict[str, Any], windows: list[str], zone: dt.tzinfo) -> list[str]:
    tables = run["tables"]
    # The windows' rows and changes are added up; the quarantine has its own column.
    totals = {
        count: _total([tables[name][count] for name in windows if name in tables])
        for count in ("rows", "changed")
    }
    return [
        cell(run["time"].replace(microsecond=0), zone),
        run["user"] or _UNKNOWN,
        run["run_id"],
        run["chunk_of"] or _UNKNOWN,
        run["kind"] or _UNKNOWN,
        f"{run['from']} to {run['to']}" if run["from"] and run["to"] else _UNKNOWN,
        ", ".join(f"{name} {table['version']}" for name, table in tables.items()),
        *(_number({**run, **totals}[count]) for count in _COUNTS),
    ]


def _total(numbers: list[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


def _number(value: int | None) -> str:
    return _UNKNOWN if value is None else f"{value:,}"

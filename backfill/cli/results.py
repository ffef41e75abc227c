"""What a run did, as JSON and for people."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from backfill.cli.checks import as_documents, print_failed
from backfill.cli.output import iso_utc, print_line, print_table

if TYPE_CHECKING:
    from backfill.execution.run_result import Failure, RunResult
    from backfill.quality.checks import Outcome
    from backfill.spec import JobSpec


def as_document(result: RunResult, spec: JobSpec) -> dict[str, Any]:
    """The JSON document."""
    return {
        "ok": not result.failures,
        "run_id": result.run_id,
        "read": result.read,
        "accepted": result.accepted,
        "duplicates": result.duplicates,
        "quarantined": result.quarantined,
        "windows": {
            name: {**asdict(window), "table": spec.table_name(name)}
            for name, window in result.windows.items()
        },
        "horizon": None if result.horizon_us is None else iso_utc(result.horizon_us),
        "seconds": round(result.seconds, 3),
        "runs": [chunk.run_id for chunk in result.chunks],
        "failures": [
            {
                "from": str(failure.dates[0]),
                "to": str(failure.dates[1]),
                "error": str(failure.error),
                "checks": as_documents(checks_of(failure)),
            }
            for failure in result.failures
        ],
        "skipped": [
            {"from": str(skipped.dates[0]), "to": str(skipped.dates[1]), "why": skipped.why}
            for skipped in result.skipped
        ],
        "checks": as_documents(result.checks),
    }


def print_result(result: RunResult, spec: JobSpec) -> None:
    """Prints the counts, and a table of the windows."""
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
    for skipped in result.skipped:
        print_line(f"Skipped [{skipped.dates[0]}, {skipped.dates[1]}): {skipped.why}.")
    rows = [
        (name, f"{window.rows:,}", f"{window.events:,}", _short(spec.table_name(name)))
        for name, window in result.windows.items()
    ]
    for name, window in result.windows.items():
        if window.dropped is not None:
            sessions, events = window.dropped.sessions, window.dropped.events
            print_line(f"{name}: {sessions:,} sessions of {events:,} events were too short.\n")
    if rows:
        print_table(("window", "rows", "events", "table"), rows, right=("rows", "events"))
    if any(not outcome.success for outcome in result.checks):
        print_line("\nPublished although some checks failed:\n")
        print_failed(result.checks)
    print_line(f"\nDone in {result.seconds:.1f} s.")


def checks_of(failure: Failure) -> Sequence[Outcome]:
    """The outcomes of the checks of a range that failed."""
    return getattr(failure.error, "outcomes", ())


def _short(table: str) -> str:
    """The table's path, relative to here if that is shorter; a name in a catalog as it is."""
    return min(os.path.relpath(table), table, key=len) if os.path.isabs(table) else table

"""`backfill changes`: what runs changed."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import typer

from backfill.cli.options import JobFile, Json, Remote, Runtime, Settings, Verbose, job_session
from backfill.cli.output import cell, print_json, print_line, print_table

# How many of an id's 32 characters are shown: enough to tell the sessions on a screen apart.
_ID_SHOWN = 8


def changes(
    job: JobFile,
    window: Annotated[
        str, typer.Argument(metavar="WINDOW", help="The window's name in the job file.")
    ],
    since: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="Show the changes of this run and all later runs."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="The maximum number of changes.")] = 20,
    as_json: Json = False,
    verbose: Verbose = False,
    spark: Settings = None,
    remote: Remote = None,
    runtime: Runtime = None,
) -> None:
    """Show which windows the last run inserted, updated, deleted, merged or split."""
    from backfill.job import Job
    from backfill.ledger.changes import first_changes

    loaded = Job.load(job)
    frame = loaded.changes(
        window,
        since,
        job_session(loaded, spark, remote, runtime),
    )
    rows, counts = first_changes(frame, limit)
    more = sum(counts.values()) > limit
    if as_json:
        print_json({"ok": True, "window": window, "changes": rows, "counts": counts, "more": more})
        return
    zone = ZoneInfo(loaded.spec.timezone)
    if rows:
        print_table(_columns(rows), [_texts(row, _columns(rows), zone) for row in rows])
        print_line()
    counted = ", ".join(f"{number:,} {kind}" for kind, number in counts.items() if number)
    shown = f"{counted or 'Nothing changed'}; times in {loaded.spec.timezone}"
    print_line(f"{shown}; there are more (--limit {limit})" if more else shown)


def _columns(rows: list[dict[str, Any]]) -> list[str]:
    """The kind of change, the key, and the columns that either version has."""
    sides = (row[side] for row in rows for side in ("old", "new") if row[side] is not None)
    values = dict.fromkeys(name for side in sides for name in side)
    return ["change", *rows[0]["key"], *values]


def _texts(row: Mapping[str, Any], columns: list[str], zone: dt.tzinfo) -> list[str]:
    """One text for each column; the old and the new value where they differ."""
    old, new = row["old"] or {}, row["new"] or {}

    def text(name: str, value: Any) -> str:
        return value[:_ID_SHOWN] if name == "session_id" else cell(value, zone)

    def shown_cell(name: str) -> str:
        if name in row["key"]:
            return cell(row["key"][name], zone)
        if name in row["changed"]:
            sides = (text(name, side[name]) if name in side else "" for side in (old, new))
            return " -> ".join(sides)
        side = new or old
        return text(name, side[name]) if name in side else ""

    return [row["change"], *map(shown_cell, columns[1:])]

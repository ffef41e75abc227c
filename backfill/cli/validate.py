"""`backfill validate`: check what is published."""

from __future__ import annotations

from typing import Annotated

import typer

from backfill.cli.checks import as_documents, print_failed
from backfill.cli.options import JobFile, Json, Remote, Runtime, Settings, Verbose, job_session
from backfill.cli.output import print_json, print_line, tell
from backfill.cli.selection import From, To


def validate(
    job: JobFile,
    window: Annotated[
        str | None, typer.Argument(metavar="[WINDOW]", help="Check only this window's table.")
    ] = None,
    start: From = None,
    end: To = None,
    as_json: Json = False,
    verbose: Verbose = False,
    spark: Settings = None,
    remote: Remote = None,
    runtime: Runtime = None,
) -> None:
    """Check the published windows and the events that they were computed from."""
    from backfill.job import Job

    loaded = Job.load(job)
    outcomes = loaded.validate(
        window,
        job_session(loaded, spark, remote, runtime, checked=True),
        start=start,
        end=end,
        progress=tell,
    )
    failed = [outcome for outcome in outcomes if outcome.stops]
    if as_json:
        print_json({"ok": not failed, "checks": as_documents(outcomes)})
    else:
        print_failed(outcomes)
        good = sum(outcome.success for outcome in outcomes)
        print_line(f"{good} of {len(outcomes)} checks succeeded.")
    if failed:
        raise typer.Exit(1)

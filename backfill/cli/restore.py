"""`backfill restore`: go back to what a run published; needs no Spark session."""

from __future__ import annotations

from typing import Annotated

import typer

from backfill.cli.options import JobFile, Json, Verbose
from backfill.cli.output import print_json, print_line, print_table, tell


def restore(
    job: JobFile,
    run: Annotated[
        str, typer.Option(metavar="RUN", help="The run to go back to; see: backfill history.")
    ],
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Restore the tables to what a run published.

    The record of counted inputs is restored too: later inputs are new again for the next run.
    """
    from dataclasses import asdict

    from backfill.job import Job

    done = Job.load(job).restore(run)
    if as_json:
        print_json({"ok": True, "run": run, **asdict(done)})
        return
    rows = [(name, f"{table.restored}", f"{table.version}") for name, table in done.tables.items()]
    numbers = ("back to version", "now version")
    print_table(("table", *numbers), rows, right=numbers)
    print_line(f"\nDone, as run {done.run_id}.")
    if done.untouched:
        tell(f"The run published nothing to {', '.join(done.untouched)}: left unchanged.")
    for path in done.forgotten:
        tell(
            f"{path} is no longer an input of the job. To merge it again: "
            f"backfill recompute {job} --late {path}"
        )

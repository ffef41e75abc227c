"""`backfill recompute`: merge the events that arrived since the last run."""

from __future__ import annotations

from typing import Annotated

import typer

from backfill.cli.options import (
    Anyway,
    JobFile,
    Json,
    Remote,
    Runtime,
    Settings,
    Verbose,
    job_session,
)
from backfill.cli.output import print_json, print_line, tell
from backfill.cli.results import as_document, print_result


def recompute(
    job: JobFile,
    late: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="A file or folder of late events, which becomes an input of the job.",
        ),
    ] = None,
    publish_anyway: Anyway = None,
    as_json: Json = False,
    verbose: Verbose = False,
    spark: Settings = None,
    remote: Remote = None,
    runtime: Runtime = None,
) -> None:
    """Merge the events that arrived since the last run into the published windows."""
    from backfill.job import Job

    loaded = Job.load(job)
    result = loaded.recompute(
        job_session(loaded, spark, remote, runtime, late=late, checked=True),
        late=late,
        publish_anyway=publish_anyway,
        progress=tell,
    )
    if result is None:
        if as_json:
            print_json({"ok": True, "run_id": None})
        else:
            print_line("No new events since the last run.")
    elif as_json:
        print_json(as_document(result, loaded.spec))
    else:
        print_result(result, loaded.spec)

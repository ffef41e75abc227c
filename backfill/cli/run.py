"""`backfill run`: the main job."""

from __future__ import annotations

import typer

from backfill.cli.checks import print_failed
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
from backfill.cli.results import as_document, checks_of, print_result
from backfill.cli.selection import Chunk, From, Missing, One, To, selected


def run(
    job: JobFile,
    start: From = None,
    end: To = None,
    date: One = None,
    missing: Missing = False,
    chunk: Chunk = None,
    publish_anyway: Anyway = None,
    as_json: Json = False,
    verbose: Verbose = False,
    spark: Settings = None,
    remote: Remote = None,
    runtime: Runtime = None,
) -> None:
    """Compute the job's windows and publish them, for all dates or a range of dates."""
    from backfill.job import Job

    loaded = Job.load(job)
    selection = selected(start, end, date, missing, chunk)
    result = loaded.run(
        job_session(loaded, spark, remote, runtime, checked=True),
        **selection,
        publish_anyway=publish_anyway,
        progress=tell,
    )
    if as_json:
        print_json(as_document(result, loaded.spec))
    else:
        print_result(result, loaded.spec)
    if result.failures:
        for failure in result.failures:
            low, high = failure.dates
            if not as_json:
                print_line(f"Failed: [{low}, {high}): {failure.error}")
                print_failed(checks_of(failure))
            tell(f"To retry: backfill run {job} --from {low} --to {high}")
        raise typer.Exit(1)

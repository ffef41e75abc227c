"""`backfill clean`: remove what killed runs left behind, and compact small files."""

from __future__ import annotations

from dataclasses import asdict

from backfill.cli.options import (
    JobFile,
    Json,
    OlderThan,
    Remote,
    Runtime,
    Settings,
    Verbose,
    job_session,
)
from backfill.cli.output import print_json, print_line, print_table


def clean(
    job: JobFile,
    older_than: OlderThan = "24h",
    as_json: Json = False,
    verbose: Verbose = False,
    spark: Settings = None,
    remote: Remote = None,
    runtime: Runtime = None,
) -> None:
    """Remove the files that killed runs left behind, and compact small files.

    Published versions stay readable.
    """
    from backfill.job import Job

    loaded = Job.load(job)
    done = loaded.clean(
        older_than,
        job_session(loaded, spark, remote, runtime),
    )
    if as_json:
        tables = {
            name: {**asdict(cleaned.removed), "compacted": cleaned.compacted}
            for name, cleaned in done.items()
        }
        print_json({"ok": True, "tables": tables})
        return
    numbers = ("killed runs", "files", "records", "bytes")
    rows = [
        (
            name,
            *(
                f"{count:,}"
                for count in (
                    cleaned.removed.staged,
                    cleaned.removed.files,
                    cleaned.removed.records,
                    cleaned.removed.size,
                )
            ),
            "" if cleaned.compacted is None else f"in version {cleaned.compacted}",
        )
        for name, cleaned in done.items()
    ]
    print_table(("table", *numbers, "compacted"), rows, right=numbers)
    print_line("\nRemoved files older than " + older_than + " that belong to no version.")

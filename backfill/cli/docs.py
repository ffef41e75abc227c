"""`backfill docs`: pages with the outcomes of the checks; needs no Spark session."""

from __future__ import annotations

from backfill.cli.options import JobFile, Json, Verbose
from backfill.cli.output import print_json, print_line


def docs(job: JobFile, as_json: Json = False, verbose: Verbose = False) -> None:
    """Build HTML pages with the history of all checks; they open offline."""
    from backfill.job import Job

    index = Job.load(job).docs()
    if as_json:
        print_json({"ok": True, "index": str(index)})
    else:
        print_line(str(index))

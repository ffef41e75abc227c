"""`backfill expire`: drop the windows that are past the job's retention."""

from __future__ import annotations

from dataclasses import asdict

from backfill.cli.options import JobFile, Json, Remote, Runtime, Settings, Verbose, job_session
from backfill.cli.output import iso_utc, print_json, print_line, print_table


def expire(
    job: JobFile,
    as_json: Json = False,
    verbose: Verbose = False,
    spark: Settings = None,
    remote: Remote = None,
    runtime: Runtime = None,
) -> None:
    """Drop the windows that are older than the job's retention.

    A window's age is counted from its end to the latest event.
    """
    from backfill.job import Job

    loaded = Job.load(job)
    done = loaded.expire(job_session(loaded, spark, remote, runtime))
    if as_json:
        tables = {
            name: {**asdict(expired), "before": iso_utc(expired.before)}
            for name, expired in done.items()
        }
        print_json({"ok": True, "tables": tables})
        return
    rows = [
        (
            name,
            iso_utc(expired.before),
            f"{expired.rows:,}",
            "nothing to drop" if expired.version is None else f"in version {expired.version}",
        )
        for name, expired in done.items()
    ]
    print_table(
        ("table", "ended before", "windows dropped", "published"), rows, right=("windows dropped",)
    )
    if not done:
        print_line("Nothing has been published yet.")

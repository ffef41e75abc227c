"""`backfill forget`: delete the rows of one key."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

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
from backfill.cli.output import print_json, print_line, print_table, tell


def forget(
    job: JobFile,
    key: Annotated[
        list[str],
        typer.Option(metavar="VALUE", help="The key; give it once per key column, in order."),
    ],
    older_than: OlderThan = "24h",
    as_json: Json = False,
    verbose: Verbose = False,
    spark: Settings = None,
    remote: Remote = None,
    runtime: Runtime = None,
) -> None:
    """Delete a key's rows from the published tables and the quarantine, and what failed runs left.

    The source is not changed.
    """
    from backfill.execution.erase import among_values, holders
    from backfill.job import Job

    loaded = Job.load(job)
    session = job_session(loaded, spark, remote, runtime)
    done = loaded.forget(key, session, older_than=older_than, progress=tell)
    known = {*holders(loaded.spec), *among_values(loaded.spec)}
    unchanged = [name for name in loaded.spec.windows if name not in known]
    if as_json:
        tables = {name: asdict(erased) for name, erased in done.items()}
        advice = {"older_versions": loaded.store.way_to_delete}
        print_json({"ok": True, "tables": tables, "unchanged": unchanged, **advice})
        return
    if not done:
        print_line("Nothing has been published yet.")
        return
    rows = [
        (
            name,
            f"{erased.rows:,}",
            "nothing to delete" if erased.version is None else f"in version {erased.version}",
            f"{erased.removed.staged + erased.removed.files:,}",
            "" if erased.older is None else "{} to {}".format(*erased.older),
        )
        for name, erased in done.items()
    ]
    numbers = ("rows deleted or changed", "left by failed runs")
    columns = ("table", numbers[0], "published", numbers[1], "versions that may hold the key")
    print_table(columns, rows, right=numbers)
    if unchanged:
        print_line(f"\nUnchanged, without the key's columns: {', '.join(unchanged)}")
    print_line(
        f"\nLeftovers of failed runs from the last {older_than} are kept. Older versions can still "
        f"be restored, and bring the key back. {loaded.store.way_to_delete}\n"
        "The source is unchanged: delete the key there, too, before the next run of its dates."
    )

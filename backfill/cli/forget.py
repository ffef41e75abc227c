"""`backfill forget`: delete the rows of one key."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from backfill.cli.options import JobFile, Json, Remote, Settings, Verbose, spark_session
from backfill.cli.output import print_json, print_line, print_table, tell


def forget(
    job: JobFile,
    key: Annotated[
        list[str],
        typer.Option(metavar="VALUE", help="The key; give it once per key column, in order."),
    ],
    as_json: Json = False,
    verbose: Verbose = False,
    spark: Settings = None,
    remote: Remote = None,
) -> None:
    """Delete a key from the published tables, the quarantine and what failed runs left.

    The source is not changed. No run should be under way.
    """
    from backfill.job import Job

    loaded = Job.load(job)
    done = loaded.forget(key, spark_session(spark, remote), progress=tell)
    if as_json:
        tables = {name: asdict(each) for name, each in done.items()}
        print_json({"ok": True, "tables": tables, "older_files": loaded.store.way_to_delete})
        return
    if not done:
        print_line("Nothing has been published yet.")
        return
    rows = [
        (
            name,
            f"{each.rows:,}",
            "nothing to delete" if each.version is None else f"in version {each.version}",
            ", ".join(each.unpublished),
            "" if each.older is None else "{} to {}".format(*each.older),
        )
        for name, each in done.items()
    ]
    columns = ("table", "rows deleted", "published", "failed runs deleted", "can still hold it")
    print_table(columns, rows, right=("rows deleted",))
    others = [name for name in loaded.spec.windows if name not in done]
    if others:
        print_line(f"\nUnchanged, without the key's columns: {', '.join(others)}")
    print_line(
        f"\nOlder versions can still hold the key, and restore brings them back. "
        f"{loaded.store.way_to_delete}\nThe source is unchanged: delete the key there, too, or "
        "the next run of its dates brings it back."
    )

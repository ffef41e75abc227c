"""`backfill prepare`: make later commands start faster."""

from __future__ import annotations

from backfill.cli.options import Json, Verbose
from backfill.cli.output import print_json, print_line, tell


def prepare(as_json: Json = False, verbose: Verbose = False) -> None:
    """Make commands start faster on this machine: archive the classes that Spark loads.

    It takes a minute or more and 180 MB in the Python environment, once for each version of
    Spark and Java.
    """
    from backfill.jvm import java
    from backfill.jvm.class_archive import archive_for, make_archive

    home = java.needed()
    archive = archive_for(home)
    there = archive.exists()
    if not there:
        tell("running jobs over sample events")
        make_archive(home)
    if as_json:
        print_json({"ok": True, "path": str(archive), "bytes": archive.stat().st_size})
    elif there:
        print_line(f"Nothing to do: {archive} exists.")
    else:
        print_line(f"Wrote {archive}, {archive.stat().st_size >> 20} MB. Spark starts with it.")

"""`backfill stream`: run the same job as Structured Streaming queries."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from backfill.cli.options import JobFile, Json, Remote, Settings, Verbose, spark_session
from backfill.cli.output import iso_utc, print_json, print_table, tell


def stream(
    job: JobFile,
    to: Annotated[
        Path, typer.Option(metavar="PATH", help="The folder for the output and the checkpoints.")
    ],
    files_per_batch: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="The maximum number of files in a micro-batch; by default all files."
        ),
    ] = None,
    watermark_delay: Annotated[
        str | None,
        typer.Option(
            metavar="SPAN", help="Overrides stream.watermark_delay of the job file, such as 10s."
        ),
    ] = None,
    as_json: Json = False,
    verbose: Verbose = False,
    spark: Settings = None,
    remote: Remote = None,
) -> None:
    """Run the job as Spark Structured Streaming queries until the source is drained.

    The next call continues from the checkpoints.
    """
    from backfill.job import Job

    loaded = Job.load(job)
    done = loaded.stream(
        spark_session(spark, remote, loaded.paths()),
        to=to,
        files_per_batch=files_per_batch,
        watermark_delay=watermark_delay,
        progress=tell,
    )
    watermarks = {
        name: None if streamed.watermark_us is None else iso_utc(streamed.watermark_us)
        for name, streamed in done.items()
    }
    if as_json:
        windows = {
            name: {
                "read": streamed.read,
                "unusable": streamed.unusable,
                "rows": streamed.rows,
                "batches": streamed.batches,
                "watermark": watermarks[name],
                "path": str(to.absolute() / name),
            }
            for name, streamed in done.items()
        }
        print_json({"ok": True, "windows": windows})
        return
    numbers = ("read", "unusable", "rows", "batches")
    rows = [
        (
            name,
            *(f"{asdict(streamed)[number]:,}" for number in numbers),
            watermarks[name] or "no batch",
            str(to / name),
        )
        for name, streamed in done.items()
    ]
    print_table(("window", *numbers, "watermark", "output"), rows, right=numbers)

"""`backfill pull`: copy the new records of a Kafka topic."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from backfill.cli.options import JobFile, Json, Verbose
from backfill.cli.output import print_json, print_line, print_table, tell


def pull(
    job: JobFile,
    topic: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Another topic of the same brokers, such as the streaming operator's output.",
        ),
    ] = None,
    to: Annotated[
        str | None, typer.Option(metavar="PATH", help="The folder for the records of --topic.")
    ] = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Copy the records that came to the job's Kafka topic since the last time into its folder."""
    from backfill.job import Job

    done = Job.load(job).pull(topic=topic, to=to, progress=tell)
    if as_json:
        facts = {"ok": not done.lost, "topic": done.topic, "path": done.path}
        print_json(facts, partitions=map(asdict, done.partitions))
    else:
        numbers = ("partition", "from offset", "to offset", "records", "lost")
        rows = [
            (
                str(partition.partition),
                *map(str, (partition.first, partition.next, partition.records, partition.lost)),
            )
            for partition in done.partitions
        ]
        print_table(numbers, rows, right=numbers)
        print_line(f"Copied {done.records:,} records of {done.topic} into {done.path}.")
        if done.lost:
            print_line(
                f"Kafka had deleted {done.lost:,} offsets before they were copied: their events "
                "are missing. Copy more often, or let the topic keep its records for longer."
            )
    if done.lost:
        raise typer.Exit(1)

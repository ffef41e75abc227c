"""`backfill generate`: events to try things on."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from backfill.cli.options import Json, Remote, Settings, Verbose, spark_session
from backfill.cli.output import print_json, print_line
from backfill.errors import TableError


def generate(
    path: Annotated[Path, typer.Argument(help="The folder to make.")],
    events: Annotated[int, typer.Option(min=1, help="How many; 20_000_000 may be written so.")],
    days: Annotated[int, typer.Option(min=1, help="Over how many days, from 2026-01-01.")],
    keys: Annotated[int, typer.Option(min=1, help="Of how many users.")],
    late: Annotated[float, typer.Option(min=0, max=1, help="Share that arrives late.")] = 0.0,
    duplicates: Annotated[
        float, typer.Option(min=0, max=1, help="Share that is delivered twice.")
    ] = 0.0,
    hot_key: Annotated[
        float, typer.Option(min=0, max=1, help="Share that one more user has.")
    ] = 0.0,
    seed: Annotated[int, typer.Option(help="Another seed, other events.")] = 1,
    as_json: Json = False,
    verbose: Verbose = False,
    spark: Settings = None,
    remote: Remote = None,
) -> None:
    """Write events to try things on.

    A web shop's clicks as Parquet; the same for the same arguments.
    """
    # Seen here too, so that nobody waits for Spark to be told.
    if path.exists():
        raise TableError("exists already", field=str(path), way_out="Choose another, or remove it")
    from backfill import generate as generator

    written = generator.generate(
        spark_session(spark, remote),
        str(path.absolute()),
        events=events,
        days=days,
        keys=keys,
        late=late,
        duplicates=duplicates,
        hot_key=hot_key,
        seed=seed,
    )
    if as_json:
        print_json({"ok": True, **asdict(written)})
    else:
        print_line(
            f"Wrote {written.rows:,} rows ({written.events:,} events, {written.late:,} received "
            f"late) to {path}, {written.days} files."
        )

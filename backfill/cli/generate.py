"""`backfill generate`: sample events to try things on."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from backfill.cli.options import Json, Remote, Settings, Verbose, spark_session
from backfill.cli.output import print_json, print_line
from backfill.errors import TableError


def generate(
    path: Annotated[Path, typer.Argument(help="The folder to create.")],
    events: Annotated[
        int, typer.Option(min=1, help="The number of events; may be written as 20_000_000.")
    ],
    days: Annotated[
        int, typer.Option(min=1, max=36_500, help="The number of days, from 2026-01-01.")
    ],
    keys: Annotated[int, typer.Option(min=1, help="The number of users.")],
    late: Annotated[
        float, typer.Option(min=0, max=1, help="The share of events that arrive late.")
    ] = 0.0,
    duplicates: Annotated[
        float, typer.Option(min=0, max=1, help="The share of events that are delivered twice.")
    ] = 0.0,
    hot_key: Annotated[
        float,
        typer.Option(min=0, max=1, help="The share of events that belong to one additional user."),
    ] = 0.0,
    seed: Annotated[int, typer.Option(help="The seed of the random generator.")] = 1,
    as_json: Json = False,
    verbose: Verbose = False,
    spark: Settings = None,
    remote: Remote = None,
) -> None:
    """Write sample events: the clicks of a web shop, as Parquet.

    The same arguments give the same events.
    """
    # Checked before Spark starts, so that the error comes at once.
    if path.exists():
        way_out = "Choose another path or remove it"
        raise TableError("already exists", field=str(path), way_out=way_out)
    try:
        path.mkdir(parents=True)
        path.rmdir()
    except OSError as error:
        raise TableError(
            f"can't be made: {error.strerror}", field=str(path), way_out="Choose another path"
        ) from error
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

"""Options that select dates."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from backfill.errors import JobFileError
from backfill.time.durations import DAY_US, fixed

From = Annotated[
    str | None, typer.Option("--from", metavar="DATE", help="The first date to process.")
]
To = Annotated[
    str | None,
    typer.Option("--to", metavar="DATE", help="The date after the last one (exclusive)."),
]
One = Annotated[
    str | None,
    typer.Option("--date", metavar="DATE", help="A single date, instead of --from and --to."),
]
Missing = Annotated[
    bool, typer.Option("--missing", help="Only dates that have events and were never computed.")
]
Chunk = Annotated[
    str | None,
    typer.Option(
        "--chunk", metavar="DAYS", help="Split the range into runs of this length, such as 7d."
    ),
]


def selected(
    start: str | None, end: str | None, date: str | None, missing: bool, chunk: str | None
) -> dict[str, Any]:
    """The arguments of `Job.run` and `Job.plan` for these options.

    Raises:
        JobFileError: a chunk that is not a whole number of days.
        WindowError: a chunk that is not a duration.
    """
    days = None
    if chunk is not None:
        length = fixed(chunk, field="--chunk")
        if length.us <= 0 or length.us % DAY_US:
            raise JobFileError(
                "must be whole days", field="--chunk", value=chunk, way_out="Write it like 7d"
            )
        days = length.us // DAY_US
    return {"start": start, "end": end, "date": date, "missing": missing, "chunk": days}

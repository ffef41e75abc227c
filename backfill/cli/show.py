"""`backfill show`: look windows up in a published table; needs no Spark session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal
from zoneinfo import ZoneInfo

import typer

from backfill.cli.options import JobFile, Json, Verbose
from backfill.cli.output import cell, print_json, print_line, print_table
from backfill.errors import JobFileError, TableError, did_you_mean
from backfill.time.instants import instant_us

if TYPE_CHECKING:
    import pyarrow as pa

    from backfill.published.lookups import Lookup
    from backfill.store import Bounds

_QUARANTINE, _REASON = "quarantine", "reason"


def show(
    job: JobFile,
    window: Annotated[
        str,
        typer.Argument(metavar="WINDOW", help="The window's name in the job file, or quarantine."),
    ],
    key: Annotated[
        list[str] | None,
        typer.Option(
            metavar="VALUE",
            help="Only this key; give it once per key column, in order. Only this reason, for the "
            "quarantine.",
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option("--from", metavar="T", help="Only windows that end after this date or time."),
    ] = None,
    end: Annotated[
        str | None,
        typer.Option("--to", metavar="T", help="Only windows that start before this date or time."),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(metavar="T", help="Only windows that hold this time."),
    ] = None,
    joined_by: Annotated[
        str | None,
        typer.Option(
            metavar="T", help="Only sessions that an event at this time would join or merge."
        ),
    ] = None,
    top: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Sort by this column, largest values first."),
    ] = None,
    run: Annotated[
        str | None,
        typer.Option(
            metavar="RUN", help="Show the rows that this run wrote and its checks held back."
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="The maximum number of windows.")] = 20,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Look up published windows by key and time, or what is in the quarantine.

    Dates and times are in the job's zone.
    """
    from backfill.published.lookups import Lookup, key_values
    from backfill.spec import JobSpec
    from backfill.store import look_up

    spec = JobSpec.load(job)
    tables = [*spec.windows, _QUARANTINE]
    if window not in tables:
        way_out = did_you_mean(window, tables)
        raise JobFileError("no such window in the job", value=window, way_out=way_out)
    store = spec.store()
    table = Lookup(spec, store, window) if window in spec.windows else None
    zone = ZoneInfo(spec.timezone)
    start_us = None if start is None else instant_us(start, zone, option="--from")
    end_us = None if end is None else instant_us(end, zone, option="--to")
    if start_us is not None and end_us is not None and start_us >= end_us:
        raise JobFileError(
            "must be later than --from", field="--to", value=end, way_out="Ranges are [from, to)"
        )
    bounds = _bounds(table, zone, at, joined_by)
    if run is None and store.open(window) is None:
        raise TableError(
            "nothing is published yet", field=window, way_out=f"Run: backfill run {job}"
        )
    matches = look_up(
        store.dataset(window, run),
        key=key_values(key or None, (_REASON,) if table is None else table.key),
        start_us=start_us,
        end_us=end_us,
        end_inclusive=table is not None and table.end_inclusive,
        **bounds,
        limit=limit + 1,
        order_by=_order(window, top),
    )
    rows: list[dict[str, Any]] = matches.slice(0, limit).to_pylist()
    more = matches.num_rows > limit
    if as_json:
        print_json({"ok": True, "window": window, "rows": rows, "more": more})
        return
    texts = ([cell(value, zone) for value in row.values()] for row in rows)
    print_table(matches.column_names, texts, right=_numbers(matches))
    what = "row" if table is None else "window"
    shown = f"\n{len(rows)} {what}{'' if len(rows) == 1 else 's'}, times in {spec.timezone}"
    print_line(f"{shown}; there are more (--limit {limit})" if more else shown)


def _numbers(table: pa.Table) -> list[str]:
    import pyarrow.types as kinds

    tests = (kinds.is_integer, kinds.is_floating, kinds.is_decimal)
    return [field.name for field in table.schema if any(test(field.type) for test in tests)]


def _bounds(
    table: Lookup | None, zone: ZoneInfo, at: str | None, joined_by: str | None
) -> dict[str, Bounds]:
    """Bounds for the start and end of the windows that `--at` or `--joined-by` asks for."""
    given = {"--at": at, "--joined-by": joined_by}
    asked = [(option, text) for option, text in given.items() if text is not None]
    if not asked:
        return {}
    option, text = asked[0]
    if table is None:
        raise JobFileError(
            "applies to windows only", field=option, value=text, way_out="Leave it out"
        )
    if len(asked) > 1:
        raise JobFileError(
            "can't be combined with --joined-by",
            field=option,
            value=text,
            way_out="Leave out one of the two",
        )
    instant = instant_us(text, zone, option=option)
    return table.holding(instant, instant) if at is not None else table.joined_by(instant)


def _order(
    window: str, top: str | None
) -> list[tuple[str, Literal["ascending", "descending"]]] | None:
    if top is not None:
        return [(top, "descending")]
    return [(_REASON, "ascending")] if window == _QUARANTINE else None

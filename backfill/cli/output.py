"""What goes to stdout and stderr: JSON for programs, tables and lines for people."""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal

from backfill.printable import not_finite, printable
from backfill.time.epoch import moment_of

_WIDEST_CELL = 40


def print_json(document: Mapping[str, Any], **lists: Iterable[Any]) -> None:
    """Prints one document on stdout, in ASCII, so that no terminal or pipe can spoil it.

    Args:
        document: has at least one field.
        lists: further fields, at its end; they may be long, and are written item by item.
    """
    print(_json(document)[:-1], end="")
    for name, items in lists.items():
        print(f", {_json(name)}: [", end="")
        for place, item in enumerate(items):
            print(", " if place else "", _json(item), sep="", end="")
        print("]", end="")
    print("}")


def _json(value: Any) -> str:
    return json.dumps(_plain(value), allow_nan=False)


def tell(message: str) -> None:
    """Prints progress, a warning or an error on stderr."""
    for line in message.splitlines():
        print(_encodable(printable(line), sys.stderr.encoding), file=sys.stderr, flush=True)


def print_line(line: str = "") -> None:
    """Prints a line for people on stdout."""
    print(_encodable(line, sys.stdout.encoding))


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, right: Collection[str] = ()
) -> None:
    """Prints a table for people on stdout.

    Whatever the cells hold, they can't control the terminal or be read as markup.

    Args:
        columns: the names of the columns.
        rows: one text for each column.
        right: the columns to align to the right.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    def text(value: str) -> Text:
        return Text(_encodable(printable(value), sys.stdout.encoding))

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name in columns:
        justify: Literal["left", "right"] = "right" if name in right else "left"
        table.add_column(text(name), justify=justify, overflow="fold")
    for row in rows:
        table.add_row(*map(text, row))
    # A file or a pipe has no width; rich finds a terminal's.
    width = None if sys.stdout.isatty() else 10_000
    Console(file=sys.stdout, width=width, highlight=False).print(table)


def cell(value: Any, zone: dt.tzinfo) -> str:
    """A value as one short, harmless line."""
    match value:
        case None:
            text = "NULL"
        case bool():
            text = str(value).lower()
        case float():
            text = format(value, ".12g")
        case dt.datetime(tzinfo=None):
            text = value.isoformat(sep=" ")
        case dt.datetime():
            try:
                local = value.astimezone(zone).isoformat(sep=" ")
            except OverflowError:
                # In the zone it is not in the years 1 to 9999.
                local = value.isoformat(sep=" ")
            text = local.removesuffix("+00:00") if str(zone) == "UTC" else local
        case bytes():
            text = "0x" + value[:_WIDEST_CELL].hex()
        case list() | tuple():
            # Cut before it is formatted: a list can have millions of values.
            inside = [cell(element, zone) for element in value[:_WIDEST_CELL]]
            text = f"[{', '.join(inside)}]"
        case dict():
            text = json.dumps(_plain(value), ensure_ascii=False)
        case _:
            text = str(value)[: 2 * _WIDEST_CELL]
    return _shortened(printable(text))


def iso_utc(us: int) -> str:
    """Microseconds since the epoch as ISO 8601 in UTC, with six decimals."""
    return _iso(moment_of(us))


def _iso(moment: dt.datetime) -> str:
    if moment.tzinfo is None:
        return moment.isoformat(timespec="microseconds")
    utc = moment.astimezone(dt.timezone.utc).replace(tzinfo=None)
    return utc.isoformat(timespec="microseconds") + "Z"


def _plain(value: Any) -> Any:
    """The value in JSON's types: decimals and non-finite numbers as text, bytes in base64."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else not_finite(value)
        case dt.datetime():
            return _iso(value)
        case bytes():
            return base64.b64encode(value).decode("ascii")
        case Mapping():
            return {str(key): _plain(each) for key, each in value.items()}
        case list() | tuple():
            return [_plain(element) for element in value]
        case _:
            return str(value)


def _shortened(text: str) -> str:
    return text if len(text) <= _WIDEST_CELL else text[: _WIDEST_CELL - 1] + "…"


def _encodable(text: str, encoding: str | None) -> str:
    """The text without characters the stream can't write (LANG=C, or half a surrogate pair)."""
    codec = encoding or "utf-8"
    return text.encode(codec, "backslashreplace").decode(codec)

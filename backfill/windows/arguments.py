"""Arguments of window definitions: set on frozen classes, and validated."""

from __future__ import annotations

import datetime as dt
from typing import TypeVar

from backfill.errors import WindowError, did_you_mean
from backfill.repeatable import CHANGES, INSTEAD, changing_function
from backfill.time.durations import Duration, Fixed, fixed

D = TypeVar("D", Fixed, Duration)


def set_fields(window: object, **values: object) -> None:
    """Sets fields of a frozen instance that is being made."""
    for name, value in values.items():
        object.__setattr__(window, name, value)


def positive(value: D, *, field: str) -> D:
    """The duration, if it is more than zero."""
    if (value.us if isinstance(value, Fixed) else value.count) <= 0:
        raise WindowError(
            "must be greater than zero",
            field=field,
            value=str(value),
            way_out="Use a value such as 30m",
        )
    return value


def whole_events(value: object, *, field: str) -> int:
    """The number of events, if it is a whole number from 1 on."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise WindowError(
            "must be a whole number of events, at least 1",
            field=field,
            value=value,
            way_out="Use a value such as 100",
        )
    return value


def flag(value: object, *, field: str) -> bool:
    """The value, if it is true or false."""
    if not isinstance(value, bool):
        raise WindowError(
            "must be true or false", field=field, value=value, way_out="Use true or false"
        )
    return value


def events_or_span(value: object, *, field: str) -> int | Fixed:
    """The number of events, or the fixed duration."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return value
    if isinstance(value, Fixed | dt.timedelta | str) and not str(value).lstrip("-").isdigit():
        return positive(fixed(value, field=field), field=field)
    raise WindowError(
        "must be a whole number of events, at least 1, or a duration",
        field=field,
        value=value,
        way_out="Use a value such as 100, or 1h",
    )


def choice(value: object, choices: tuple[str, ...], *, field: str) -> str:
    """The value, if it is one of these."""
    if value not in choices:
        raise WindowError(
            f"must be {' or '.join(choices)}",
            field=field,
            value=value,
            way_out=did_you_mean(str(value), choices),
        )
    return str(value)


def predicate_text(value: object, *, field: str, example: str) -> str | None:
    """The predicate in Spark SQL, if it has text; None where there is none."""
    if isinstance(value, str) and (name := changing_function(value)):
        raise WindowError(CHANGES.format(name), field=field, value=value, way_out=INSTEAD)
    if value is None or (isinstance(value, str) and value.strip()):
        return value
    raise WindowError(
        "must be a predicate in Spark SQL",
        field=field,
        value=value,
        way_out=f"Write a comparison, such as {example}",
    )

"""Types of values in a job file's settings: names, columns, spans of time."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PlainValidator,
    StringConstraints,
)

from backfill.errors import JobFileError, did_you_mean
from backfill.time.durations import Duration, Fixed, duration, fixed


class Part(BaseModel):
    """A mapping in the file; unknown keys are errors."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        arbitrary_types_allowed=True,
        # A setting may hold a password.
        hide_input_in_errors=True,
    )


def listed(value: object) -> object:
    """A single name as a list of one."""
    return [value] if isinstance(value, str) else value


def one_of(what: str, allowed: tuple[str, ...]) -> AfterValidator:
    """Text that must be one of these."""

    def check(value: str) -> str:
        if value not in allowed:
            way_out = did_you_mean(value, allowed)
            raise JobFileError(f"no such {what}", value=value, way_out=way_out)
        return value

    return AfterValidator(check)


def _each_once(value: tuple[str, ...]) -> tuple[str, ...]:
    for place, name in enumerate(value):
        if name in value[:place]:
            raise JobFileError("is listed twice", value=name)
    return value


def _calendar_or_fixed(value: object) -> Duration:
    return duration(number(value), field="")


def _fixed(value: object) -> Fixed:
    return fixed(number(value), field="")


def positive(value: Fixed) -> Fixed:
    """The span, which must be more than zero."""
    if value.us <= 0:
        raise JobFileError("must be greater than zero", value=str(value))
    return value


def not_negative(value: Fixed) -> Fixed:
    """The span, which must be zero or more."""
    if value.us < 0:
        raise JobFileError("must not be negative", value=str(value))
    return value


def _flag(value: object) -> bool:
    if value not in ("true", "false", True, False):
        raise JobFileError("must be true or false", value=value, way_out="Use true or false")
    return value in ("true", True)


def number(value: object) -> object:
    """A bare number as a number, so that the error can say what is missing."""
    if isinstance(value, str) and re.fullmatch(r"-?\d+(\.\d+)?", value):
        return float(value) if "." in value else int(value)
    return value


Text = Annotated[str, StringConstraints(min_length=1)]
Columns = Annotated[tuple[Text, ...], BeforeValidator(listed), AfterValidator(_each_once)]
Span = Annotated[Duration, PlainValidator(_calendar_or_fixed)]
Flag = Annotated[bool, PlainValidator(_flag)]
FixedSpan = Annotated[Fixed, PlainValidator(_fixed)]
Number = Annotated[Any, PlainValidator(number)]

"""Whether arguments fit an expectation and, if not, why, in one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from backfill.errors import JobFileError, did_you_mean
from backfill.quality import gx

# Every expectation has these; they are set by the caller, or not at all.
_NOT_GIVEN = frozenset(
    {
        "batch_id",
        "catch_exceptions",
        "description",
        "id",
        "meta",
        "notes",
        "rendered_content",
        "result_format",
        "severity",
        "windows",
    }
)
_WORDS = {
    "type_error.bool": "true or false",
    "value_error.strictbool": "true or false",
    "type_error.float": "a number",
    "type_error.integer": "a whole number",
    "type_error.str": "text",
    "type_error.list": "a list",
    "type_error.sequence": "a list",
    "type_error.set": "a list",
    "value_error.date": "a date",
    "value_error.datetime": "a time",
}


def check_arguments(expectation: Any, arguments: Mapping[str, Any]) -> None:
    """Checks the arguments of an expectation.

    Args:
        expectation: the expectation's class.
        arguments: by name.

    Raises:
        JobFileError: if one is unknown, missing, or of a wrong type; the field is its name.
    """
    from great_expectations.compatibility import pydantic

    allowed = set(expectation.__fields__) - _NOT_GIVEN
    for name, value in arguments.items():
        if name not in allowed:
            raise JobFileError(
                "there is no such argument",
                field=str(name),
                way_out=did_you_mean(str(name), allowed),
            )
        if isinstance(value, Mapping) and "$PARAMETER" in value:
            raise JobFileError("a suite's parameter has no value here", field=name, value=value)
    try:
        with gx.quiet():
            expectation(**arguments)
    except pydantic.ValidationError as error:
        raise _argument_error(error.errors(), arguments, expectation.expectation_type) from error


def _argument_error(
    errors: Sequence[Any], arguments: Mapping[str, Any], expectation: str
) -> JobFileError:
    """The error of the first argument; that of all arguments together follows from it."""
    name = str(errors[0]["loc"][0])
    about = [error for error in errors if error["loc"][0] == name]
    first = about[0]
    if name == "__root__":
        return JobFileError(first["msg"], field=expectation)
    if name not in arguments:
        return JobFileError("is missing", field=name)
    context = first.get("ctx", {})
    if "way_out" in context:  # one of our own errors
        return JobFileError(
            context["problem"], field=name, value=arguments[name], way_out=context["way_out"]
        )
    return JobFileError(_problem(about), field=name, value=arguments[name])


def _problem(errors: Sequence[Any]) -> str:
    """What an argument should be; each alternative of its type has failed in its own way."""
    for error in errors:
        if error["type"].startswith("value_error") and error["type"] not in _WORDS:
            return str(error["msg"])
    words = dict.fromkeys(_WORDS[error["type"]] for error in errors if error["type"] in _WORDS)
    *others, last = words or [errors[0]["msg"]]
    return f"must be {', '.join(others)} or {last}" if others else f"must be {last}"

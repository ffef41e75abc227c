"""What Great Expectations found, in words and in JSON's types."""

from __future__ import annotations

import base64
import datetime as dt
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from backfill.jvm.launch import telling_line
from backfill.printable import not_finite, printable
from backfill.quality.checks import EXAMPLES, QUERY, Check, Outcome, Severity
from backfill.quality.utc import in_utc

#: Great Expectations' words for how severe a failure is.
LEVELS: Mapping[Severity, str] = {"error": "critical", "warn": "warning"}

# Where a query's rows are among the details.
_ROWS = "unexpected_rows"
# The last line of a trace from a Python worker, which is in the middle of what Spark says.
_PYTHON_ERROR = re.compile(r"^Traceback .*?^(\w[\w.]*(?:Error|Exception)\b[^\n]*)", re.M | re.S)


def printable_result(result: Any) -> Any:
    """The result with printable values, and without the stack trace of an exception."""
    result.success = bool(result.success)  # numpy's own bool is not JSON
    result.result = plain(result.result)
    if _ROWS in result.result.get("details", {}):
        result.result["details"][_ROWS] = result.result["details"][_ROWS][:EXAMPLES]
    problem = _problem(result.exception_info)
    result.exception_info = {
        "raised_exception": problem is not None,
        "exception_message": problem,
        "exception_traceback": problem,  # the trace itself names paths of this machine
    }
    return result


def statistics(successes: Sequence[bool]) -> dict[str, Any]:
    """The number of checks, and how many passed."""
    good, every = sum(successes), len(successes)
    return {
        "evaluated_expectations": every,
        "successful_expectations": good,
        "unsuccessful_expectations": every - good,
        "success_percent": 100 * good / every if every else None,
    }


def outcome(table: str, check: Check, document: Mapping[str, Any]) -> Outcome:
    """The outcome of a check.

    Args:
        table: what was checked.
        check: the check.
        document: Great Expectations' result in JSON's types.
    """
    result = document["result"]
    return Outcome(
        table=table,
        check=check,
        success=document["success"],
        observed=result.get("observed_value", result.get("unexpected_percent")),
        unexpected=result.get(
            "observed_value" if check.expectation == QUERY else "unexpected_count"
        ),
        examples=tuple(_examples(check, result)),
        problem=document["exception_info"]["exception_message"],
    )


def _examples(check: Check, result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    if check.expectation == QUERY:
        return list(result.get("details", {}).get(_ROWS, ()))
    rows = result.get("partial_unexpected_index_list") or []
    # Without a key, pandas gives places in the frame, which tell nothing.
    if not rows or not isinstance(rows[0], Mapping):
        rows = result.get("partial_unexpected_list") or []
    name = str(check.arguments.get("column", "value"))
    return [row if isinstance(row, Mapping) else {name: row} for row in rows[:EXAMPLES]]


def _raised(info: Mapping[str, Any]) -> str | None:
    """The exception: one for all, or one for each metric that the expectation needs."""
    for exception in [info] if "raised_exception" in info else info.values():
        if exception["raised_exception"]:
            return str(exception["exception_message"])
    return None


def _problem(info: Mapping[str, Any]) -> str | None:
    raised = _raised(info)
    if raised is None:
        return None
    python = _PYTHON_ERROR.search(raised)
    return printable(python[1] if python else telling_line(raised) or raised)


def plain(value: Any) -> Any:
    """The value in JSON's types, with nothing lost on the way."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():  # numpy's own among them
            return float(value) if math.isfinite(value) else not_finite(value)
        case dt.datetime():
            if value != value:  # pandas' missing time
                return None
            return in_utc(value).isoformat(timespec="microseconds") + "Z"
        case bytes() | bytearray():
            return base64.b64encode(value).decode("ascii")
        case np.generic():
            return plain(value.item())
        case tuple() if hasattr(value, "asDict"):  # a struct of Spark's
            return plain(value.asDict())
        case Mapping():
            return {str(name): plain(each) for name, each in value.items()}
        case list() | tuple() | set() | np.ndarray():
            return [plain(element) for element in value]
        case _:
            return str(value)

"""A user's own expectations: by name in the job file, or in a suite of Great Expectations."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from backfill.errors import JobFileError, did_you_mean
from backfill.quality import gx
from backfill.quality.arguments import check_arguments
from backfill.quality.checks import QUERY, Check, Severity

_NAMED = ("column", "column_A", "column_B", "column_list", "column_set", "key")
_LONGEST = 100
# How a result is reported, which a suite can't set here; older ones do.
_REPORTING = frozenset({"catch_exceptions", "include_config", "result_format"})
_NO_SPARK = "Great Expectations can't evaluate it on Spark's frames"
_REFUSED = {
    "expect_column_values_to_be_dateutil_parseable": _NO_SPARK,
    "expect_query_results_to_match_comparison": "there are no other data sources to query here",
    "expect_table_row_count_to_equal_other_table": "there is no other table here",
}


def own_check(name: str, arguments: Mapping[str, Any], severity: Severity) -> Check:
    """A check from an expectation's name and arguments.

    Its own name is made from what is given here, so it stays the same from run to run, and two
    expectations that differ in an argument have different names.

    Args:
        name: Great Expectations' name in snake case, or one of ours.
        arguments: by name.
        severity: what a failure means.

    Raises:
        JobFileError: for an unknown name or argument, a wrong type, or an expectation that can't be
            met here.
    """
    expectation = _expectation(name)
    if name in _REFUSED:
        raise JobFileError(_REFUSED[name], field=name)
    _check_spark(name, expectation)
    given = dict(arguments)
    about = given.pop("description", None)
    if name == QUERY and "{batch}" not in str(given.get("unexpected_rows_query", "{batch}")):
        problem = "must select from {batch}, the table that is checked"
        raise JobFileError(problem, field="unexpected_rows_query")
    check_arguments(expectation, given)
    return Check(
        name=_name(name, given),
        expectation=name,
        arguments=given,
        severity=severity,
        about=str(about or ""),
    )


def suite_checks(path: str | Path, severity: Severity) -> list[Check]:
    """The checks of an expectation suite.

    Args:
        path: the path of the JSON that Great Expectations wrote, 1.x or 0.18.
        severity: what a failure means unless the suite says that it is less than critical.

    Raises:
        JobFileError: for no such file, a file that is no suite, or what `own_check` refuses.
    """
    place = str(path)
    suite = _read(place)
    expectations = suite.get("expectations") if isinstance(suite, dict) else None
    if not isinstance(expectations, list):
        raise JobFileError("not an expectation suite: it has no list `expectations`", field=place)
    checks = []
    for number, expectation in enumerate(expectations):
        try:
            checks.append(_from_suite(expectation, severity))
        except JobFileError as error:
            raise error.within(f"{place}: expectations[{number}]") from error
    return checks


def _read(place: str) -> Any:
    try:
        return json.loads(Path(place).read_text(encoding="utf-8"))
    except OSError as error:
        raise JobFileError(f"can't be read: {error.strerror}", field=place) from error
    except ValueError as error:
        raise JobFileError(f"not JSON: {error}", field=place) from error


def _from_suite(expectation: Any, severity: Severity) -> Check:
    if not isinstance(expectation, dict):
        raise JobFileError("not an expectation", value=expectation)
    name = expectation.get("type", expectation.get("expectation_type"))  # the latter before 1.0
    arguments = expectation.get("kwargs", {})
    if not isinstance(name, str) or not isinstance(arguments, dict):
        raise JobFileError("not an expectation: it needs `type` and `kwargs`")
    given = {key: value for key, value in arguments.items() if key not in _REPORTING}
    if expectation.get("description"):
        given["description"] = expectation["description"]
    lesser = expectation.get("severity", "critical") != "critical"
    return own_check(name, given, "warn" if lesser else severity)


def _expectation(name: str) -> Any:
    gx.load()
    from great_expectations.expectations.registry import (
        get_expectation_impl,
        list_registered_expectation_implementations,
    )

    names = list_registered_expectation_implementations()
    if name in names:
        return get_expectation_impl(name)
    way_out = did_you_mean(_snake_case(name), names)
    if way_out.startswith("Allowed"):  # some sixty
        way_out = "Use one of Great Expectations', such as expect_column_values_to_be_between"
    raise JobFileError("there is no such expectation", field=name, way_out=way_out)


def _snake_case(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def _check_spark(name: str, expectation: Any) -> None:
    """Refuses expectations that say that they work on other sources only."""
    metadata = expectation.schema()["properties"]["metadata"]["properties"]
    sources = metadata.get("supported_data_sources", {}).get("const")
    if sources and "Spark" not in sources:
        raise JobFileError(_NO_SPARK, field=name)


def _name(expectation: str, arguments: Mapping[str, Any]) -> str:
    """`expect_column_values_to_be_between(events, min_value=1)`."""
    columns = [arguments[name] for name in _NAMED if name in arguments]
    parts = [", ".join(column) if isinstance(column, list) else str(column) for column in columns]
    parts += [f"{name}={value}" for name, value in arguments.items() if name not in _NAMED]
    whole = f"{expectation}({', '.join(parts)})"
    if len(whole) <= _LONGEST:
        return whole
    digest = hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{whole[:_LONGEST]}… {digest})"

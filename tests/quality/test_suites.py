"""A user's own expectations: what is accepted, and how the rest is reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from backfill.errors import JobFileError
from backfill.quality.suites import own_check, suite_checks

pytestmark = pytest.mark.one_lane

BETWEEN = "expect_column_values_to_be_between"


def test_an_expectation_of_great_expectations() -> None:
    check = own_check(BETWEEN, {"column": "events", "min_value": 1}, "warn")
    assert check.name == f"{BETWEEN}(events, min_value=1)"
    assert (check.expectation, check.severity, check.builtin) == (BETWEEN, "warn", False)
    assert check.arguments == {"column": "events", "min_value": 1}


def test_names_tell_expectations_apart() -> None:
    names = {
        own_check(
            "expect_column_values_to_be_in_set",
            {"column": "a", "value_set": list(range(values))},
            "error",
        ).name
        for values in (50, 51)
    }
    assert len(names) == 2
    assert max(map(len, names)) < 120


def test_ours_by_name() -> None:
    check = own_check("expect_sessions_to_be_apart", {"key": ["user"], "gap": "30m"}, "error")
    assert check.name == "expect_sessions_to_be_apart(user, gap=30m)"


def test_a_description_is_for_people() -> None:
    given = {"column": "a", "description": "every session has its user"}
    check = own_check("expect_column_values_to_not_be_null", given, "error")
    assert check.about == "every session has its user"
    assert check.arguments == {"column": "a"}


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        (
            "expect_colum_values_to_be_betwen",
            {},
            "expect_colum_values_to_be_betwen: there is no such expectation. "
            f"Did you mean '{BETWEEN}'?",
        ),
        (
            "ExpectColumnValuesToBeBetween",
            {},
            "ExpectColumnValuesToBeBetween: there is no such expectation. "
            f"Did you mean '{BETWEEN}'?",
        ),
        (
            BETWEEN,
            {"column": "a", "min_valu": 1},
            "min_valu: there is no such argument. Did you mean 'min_value'?",
        ),
        (BETWEEN, {"min_value": 1}, "column: is missing"),
        (
            BETWEEN,
            {"column": "a", "min_value": "x"},
            "min_value: must be a number, a date or a time (got 'x')",
        ),
        (BETWEEN, {"column": 3, "min_value": 1}, "column: must be text (got 3)"),
        (BETWEEN, {"column": "a"}, f"{BETWEEN}: min_value and max_value cannot both be None"),
        (
            BETWEEN,
            {"column": "a", "min_value": 1, "mostly": 2},
            "mostly: ensure this value is less than or equal to 1.0 (got 2)",
        ),
        (
            "expect_column_values_to_be_in_set",
            {"column": "a", "value_set": "abc"},
            "value_set: must be a list (got 'abc')",
        ),
        (
            "expect_table_row_count_to_equal",
            {"value": {"$PARAMETER": "rows"}},
            "value: a suite's parameter has no value here (got {'$PARAMETER': 'rows'})",
        ),
        (
            "expect_sessions_to_be_apart",
            {"gap": "1 day"},
            "gap: can't be a calendar span (got '1 day'). "
            "Write 24h or 7d for spans of fixed length",
        ),
        (
            "expect_table_row_count_to_equal_other_table",
            {"other_table_name": "b"},
            "expect_table_row_count_to_equal_other_table: there is no other table here",
        ),
        (
            "expect_column_values_to_match_like_pattern",
            {"column": "a", "like_pattern": "%"},
            "expect_column_values_to_match_like_pattern: "
            "Great Expectations can't evaluate it on Spark's frames",
        ),
        (
            "unexpected_rows_expectation",
            {"unexpected_rows_query": "select 1"},
            "unexpected_rows_query: must select from {batch}, the table that is checked",
        ),
    ],
)
def test_refused_in_one_line(name: str, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(JobFileError) as caught:
        own_check(name, arguments, "error")
    assert str(caught.value) == message
    assert caught.value.field == message.split(":")[0]


def suite(tmp_path: Path, content: Any) -> Path:
    path = tmp_path / "suite.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_a_suite_as_great_expectations_writes_it(tmp_path: Path) -> None:
    import great_expectations as ge
    from great_expectations import expectations as gxe

    written = ge.ExpectationSuite(
        name="mine",
        expectations=[
            gxe.ExpectColumnValuesToBeBetween(column="events", min_value=1, max_value=9),
            gxe.ExpectColumnValuesToNotBeNull(column="user", severity="warning"),
        ],
    )
    checks = suite_checks(suite(tmp_path, written.to_json_dict()), "error")
    assert [(check.expectation, check.severity) for check in checks] == [
        (BETWEEN, "error"),
        ("expect_column_values_to_not_be_null", "warn"),
    ]
    assert checks[0].arguments == {"column": "events", "min_value": 1.0, "max_value": 9.0}


def test_a_suite_of_before_1_0(tmp_path: Path) -> None:
    old = {
        "expectation_suite_name": "mine",
        "ge_cloud_id": None,
        "data_asset_type": None,
        "evaluation_parameters": {},
        "expectations": [
            {
                "expectation_type": BETWEEN,
                "kwargs": {"column": "events", "min_value": 1, "result_format": "BASIC"},
                "meta": {},
            }
        ],
        "meta": {"great_expectations_version": "0.18.21"},
    }
    [check] = suite_checks(suite(tmp_path, old), "warn")
    assert (check.expectation, check.severity) == (BETWEEN, "warn")
    assert check.arguments == {"column": "events", "min_value": 1}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not JSON: Expecting property name"),
        ([], "not an expectation suite: it has no list `expectations`"),
        ({"expectations": {}}, "not an expectation suite: it has no list `expectations`"),
        ({"expectations": [{"kwargs": {}}]}, "expectations[0]: not an expectation: it needs"),
        (
            {"expectations": [{"type": "expect_table_row_count_to_equa", "kwargs": {}}]},
            "expectations[0].expect_table_row_count_to_equa: there is no such expectation. "
            "Did you mean 'expect_table_row_count_to_equal'?",
        ),
        (
            {"expectations": [{"type": BETWEEN, "kwargs": {"colum": "a"}}]},
            "expectations[0].colum: there is no such argument. Did you mean 'column'?",
        ),
    ],
)
def test_a_suite_that_is_none(tmp_path: Path, content: Any, message: str) -> None:
    path = suite(tmp_path, content)
    with pytest.raises(JobFileError) as caught:
        suite_checks(path, "error")
    assert str(caught.value).startswith(f"{path}: {message}")
    assert "\n" not in str(caught.value)


def test_a_suite_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(JobFileError, match="can't be read: No such file or directory"):
        suite_checks(tmp_path / "none.json", "error")

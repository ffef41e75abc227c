"""Values as people and programs see them, and times as people type them."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from backfill.cli.checks import print_failed
from backfill.cli.output import cell, iso_utc, print_json, print_line, print_table
from backfill.errors import JobFileError
from backfill.quality.builtin import BUILTINS
from backfill.quality.checks import Outcome
from backfill.quality.judging import as_check
from backfill.time.instants import instant_us

pytestmark = pytest.mark.one_lane

UTC = dt.timezone.utc
OSLO = ZoneInfo("Europe/Oslo")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "NULL"),
        ("", ""),
        (True, "true"),
        (0.1 + 0.2, "0.3"),
        (float("nan"), "nan"),
        (Decimal("1.10"), "1.10"),
        (12345, "12345"),
        (b"\x00\xff", "0x00ff"),
        (["a", None, 1], "[a, NULL, 1]"),
        ({"a": [1, float("inf")]}, '{"a": [1, "Infinity"]}'),
        ("a\nb\x1b[0m\u2028\x00", r"a\nb\x1b[0m\u2028\x00"),
        ("größe", "größe"),
        ("x" * 41, "x" * 39 + "…"),
        (list(range(1000)), "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, …"),
        (dt.datetime(2026, 7, 1, 12, tzinfo=UTC), "2026-07-01 14:00:00+02:00"),
        # In Oslo this is in the year 10000.
        (dt.datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC), "9999-12-31 23:59:59+00:00"),
        ([dt.datetime(9999, 12, 31, 23, tzinfo=UTC)], "[9999-12-31 23:00:00+00:00]"),
        (dt.date(2026, 7, 1), "2026-07-01"),
    ],
)
def test_cells(value: Any, expected: str) -> None:
    assert cell(value, OSLO) == expected


def test_json_is_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    moment = dt.datetime(2026, 7, 1, 12, tzinfo=OSLO)
    values = [float("nan"), -float("inf"), Decimal("1.10"), b"\xff", moment, "\ud800ø\x1b", (1,)]
    print_json({"ok": True, "values": values})
    out = capsys.readouterr().out
    assert out.isascii()
    assert json.loads(out)["values"] == [
        "NaN",
        "-Infinity",
        "1.10",
        "/w==",
        "2026-07-01T10:00:00.000000Z",
        "\ud800ø\x1b",
        [1],
    ]


def test_half_a_surrogate_pair_can_be_printed(capsys: pytest.CaptureFixture[str]) -> None:
    print_line("a\ud800")
    print_table(["a\ud800"], [["[bold]b\ud800"]])
    assert capsys.readouterr().out.count("\\ud800") == 3


def test_times_have_six_decimals() -> None:
    assert iso_utc(-1) == "1969-12-31T23:59:59.999999Z"
    assert iso_utc(0) == "1970-01-01T00:00:00.000000Z"


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("2026-07-01", "2026-06-30T22:00:00"),
        ("2026-07-01T12:00", "2026-07-01T10:00:00"),
        ("2026-07-01 12:00:00.5", "2026-07-01T10:00:00.500000"),
        ("2026-07-01T12:00Z", "2026-07-01T12:00:00"),
        ("2026-07-01T12:00-05:00", "2026-07-01T17:00:00"),
        ("2026-10-25T02:30", "2026-10-25T00:30:00"),
        ("2026-03-29T02:30", "2026-03-29T01:30:00"),
        ("1969-12-31", "1969-12-30T23:00:00"),
    ],
)
def test_times_as_typed(text: str, utc: str) -> None:
    moment = dt.datetime.fromisoformat(utc.ljust(26, "0") if "." in utc else utc)
    expected = (moment - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)
    assert instant_us(text, OSLO, option="--from") == expected


@pytest.mark.parametrize("text", ["", "now", "2026", "20260701", "2026-W05", "2026-07-01T99:00"])
def test_no_times(text: str) -> None:
    with pytest.raises(JobFileError, match="--from: not a date or a time"):
        instant_us(text, OSLO, option="--from")


def test_a_span_of_time_that_a_check_found_is_told_as_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    check = as_check(BUILTINS["freshness"])
    late = 260_639_853_699
    outcome = Outcome(
        table="events", check=check, success=False, observed=late, unexpected=None, examples=()
    )
    print_failed([outcome])
    assert "3 days, 0:23:59.853699" in capsys.readouterr().out

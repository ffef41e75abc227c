"""Expressions that give something else for the same event in another run."""

from __future__ import annotations

import pytest

from backfill import aggregates as agg
from backfill.errors import AggregateError
from backfill.repeatable import changing_function

pytestmark = pytest.mark.one_lane


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("amount * RAND() > 1", "RAND"),
        ("concat(uuid ( ), 'x')", "uuid"),
        ("at < current_timestamp", "current_timestamp"),
        ("current_date() = day", "current_date"),
        ("unix_timestamp() - 1", "unix_timestamp"),
        ("'it''s' || input_file_name()", "input_file_name"),
        ("a -- rand()\n+ now()", "now"),
        ("a /* don't */ + rand() /* don't */", "rand"),
        (r"p = r'\' and rand() < 1 and q = 'x'", "rand"),
        ("system.builtin.rand() < 1", "rand"),
    ],
)
def test_found(text: str, name: str) -> None:
    assert changing_function(text) == name


@pytest.mark.parametrize(
    "text",
    [
        "page = 'rand()'",
        'page = "now()"',
        r"page = 'it\'s uuid()'",
        "`current_date` = day",
        "t.current_date = day",
        "current_date.year = 1",
        "unix_timestamp(at) + my_rand(2) + brand(3)",
        "a -- rand()",
        "a -- isn't\n|| 'now()'",
        "a /* uuid() */ + uuid",
    ],
)
def test_not_found(text: str) -> None:
    assert changing_function(text) is None


def test_what_is_refused() -> None:
    with pytest.raises(AggregateError, match=r"calls rand, by which .* \(got 'rand\(\)'\)"):
        agg.parse("sum(rand())")
    with pytest.raises(AggregateError, match="calls uuid"):
        agg.first("uuid()")

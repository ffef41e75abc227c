"""A table's numbers judged by the built-in checks, and its rows by the user's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame

from backfill.quality.builtin import Builtin
from backfill.quality.checks import Check, Validation
from backfill.quality.numbers import compared
from backfill.time.durations import Fixed


def judged(
    table: str,
    run_id: str,
    builtin: Sequence[Check],
    metrics: Mapping[str, float],
    own: Sequence[Check],
    rows: DataFrame | pd.DataFrame | None,
    key: Sequence[str],
) -> list[Validation]:
    """Validates the numbers of the built-in checks, and the rows by the user's own.

    Args:
        table: what is checked.
        run_id: the run that checks it.
        builtin: expectations of the numbers, as `as_check` makes them.
        metrics: the numbers, by the checks' names.
        own: the user's expectations.
        rows: the rows that these see; None if there are no such expectations.
        key: the columns of the key, shown with rows that fail.
    """
    validations = []
    if builtin:
        validations.append(compared(builtin, metrics, table=table, run_id=run_id))
    if own:
        # Imported only where it is needed, because that takes seconds.
        from backfill.quality.evaluate import evaluate

        validations.append(evaluate(rows, own, table=table, run_id=run_id, key=key))
    return validations


def as_check(builtin: Builtin) -> Check:
    """A built-in check as an expectation of its number."""
    limit: Any = builtin.limit.us if isinstance(builtin.limit, Fixed) else builtin.limit
    # These numbers count what breaks the limit already, so they have to be zero.
    if limit is None or builtin.name == "history":
        limit = 0
    # As if for a column with this number alone, so that the data docs can show it.
    bound = "min" if builtin.least else "max"
    return Check(
        name=builtin.name,
        expectation=f"expect_column_{bound}_to_be_between",
        arguments={"column": builtin.name, f"{bound}_value": limit},
        severity=builtin.severity,
        builtin=True,
        about=builtin.about,
    )

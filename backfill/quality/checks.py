"""What is expected of a table, and what was found; plain values, without Great Expectations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Severity = Literal["error", "warn"]

#: The number of unexpected rows that are shown.
EXAMPLES = 5
#: The expectation that a query in SQL finds no rows; it has a description of its own.
QUERY = "unexpected_rows_expectation"


@dataclass(frozen=True, kw_only=True)
class Check:
    """One expectation.

    Attributes:
        name: stable, and unique among the checks of a table.
        expectation: Great Expectations' name, `expect_column_values_to_be_between`.
        arguments: by name, as the job file has them.
        severity: whether a failure stops the run, or is only reported.
        builtin: whether backfill added it by itself.
        about: what a failure means, one line for people.
    """

    name: str
    expectation: str
    arguments: Mapping[str, Any]
    severity: Severity
    builtin: bool = False
    about: str = ""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The outcome of one check.

    Attributes:
        table: `events`, a window's name, or `reconciliation`.
        check: the check.
        success: whether the table is as expected.
        observed: the value that was found, or the percentage of unexpected rows; of JSON's types.
        unexpected: how many rows are not as expected, where that is counted.
        examples: up to five of these rows, with the key where it is known; of JSON's types.
        problem: why the check could not be made, one line; or None.
    """

    table: str
    check: Check
    success: bool
    observed: Any
    unexpected: int | None
    examples: tuple[Mapping[str, Any], ...]
    problem: str | None = None

    @property
    def stops(self) -> bool:
        """Whether it is a failure, and not just a warning."""
        return not self.success and self.check.severity == "error"


@dataclass(frozen=True, kw_only=True)
class Validation:
    """The outcomes of all checks of one table.

    Attributes:
        table: `events`, a window's name, or `reconciliation`.
        run_id: the run.
        outcomes: in the order of the checks.
        document: Great Expectations' own validation result as JSON, for the data docs.
    """

    table: str
    run_id: str
    outcomes: tuple[Outcome, ...]
    document: dict[str, Any]

    @property
    def failed(self) -> tuple[Outcome, ...]:
        """The errors among the outcomes: what stops a commit."""
        return tuple(outcome for outcome in self.outcomes if outcome.stops)

    @property
    def warned(self) -> tuple[Outcome, ...]:
        """The warnings among the outcomes."""
        return tuple(
            outcome for outcome in self.outcomes if not outcome.success and not outcome.stops
        )

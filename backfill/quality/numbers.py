"""The numbers of the built-in checks, compared with their limits.

Each is a single comparison, for which Great Expectations need not be loaded: that takes two seconds
of a processor. The outcome has the form of its results, so the data docs show both alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from backfill.quality.checks import Check, Outcome, Validation
from backfill.quality.results import LEVELS, statistics


def compared(
    checks: Sequence[Check], metrics: Mapping[str, float], *, table: str, run_id: str
) -> Validation:
    """Compares each number with its limit.

    Args:
        checks: as `judging.as_check` makes them.
        metrics: the numbers, by the checks' names.
        table: what is checked.
        run_id: the run.
    """
    outcomes = tuple(
        Outcome(
            table=table,
            check=check,
            success=_holds(check, metrics[check.name]),
            observed=metrics[check.name],
            unexpected=None,
            examples=(),
        )
        for check in checks
    )
    document = {
        "success": all(outcome.success for outcome in outcomes),
        "results": [_result(place, outcome) for place, outcome in enumerate(outcomes)],
        "suite_name": table,
        "suite_parameters": {},
        "statistics": statistics([outcome.success for outcome in outcomes]),
        "meta": {"run_id": run_id, "batch_spec": {"data_asset_name": table}},
        "id": None,
    }
    return Validation(table=table, run_id=run_id, outcomes=outcomes, document=document)


def _holds(check: Check, value: float) -> bool:
    least, most = (check.arguments.get(f"{bound}_value") for bound in ("min", "max"))
    return (least is None or value >= least) and (most is None or value <= most)


def _result(place: int, outcome: Outcome) -> dict[str, Any]:
    check = outcome.check
    limits = {name: float(value) for name, value in check.arguments.items() if name != "column"}
    return {
        "success": outcome.success,
        "expectation_config": {
            "type": check.expectation,
            "kwargs": {
                "batch_id": f"backfill-{outcome.table}",
                "column": check.arguments["column"],
                **limits,
            },
            "meta": {"place": place, "check": check.name},
            "description": check.about,
            "severity": LEVELS[check.severity],
        },
        "result": {"observed_value": outcome.observed},
        "meta": {},
        "exception_info": {
            "raised_exception": False,
            "exception_message": None,
            "exception_traceback": None,
        },
    }

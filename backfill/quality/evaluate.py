"""Checks of a frame, made by Great Expectations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from backfill.quality import gx
from backfill.quality.checks import Check, Outcome, Validation

_EXAMPLES = 5
# The first pass only counts: what succeeds needs no examples.
_COUNTS = {"result_format": "BASIC", "partial_unexpected_count": 0}


def evaluate(
    frame: Any, checks: Sequence[Check], *, table: str, run_id: str, key: Sequence[str] = ()
) -> Validation:
    """Checks a frame.

    Args:
        frame: of pandas or Spark.
        checks: what is expected of it.
        table: what it is: `events`, a window's name, or `reconciliation`.
        run_id: the run.
        key: columns that tell rows apart, to be shown with the examples.
    """
    with gx.context() as context:
        import great_expectations as ge

        sources = context.data_sources
        kind = "pandas" if type(frame).__module__.startswith("pandas") else "spark"
        source = (
            sources.add_pandas(table)
            if kind == "pandas"
            else sources.add_spark(table, persist=False)
        )
        definition = source.add_dataframe_asset(table).add_batch_definition_whole_dataframe(table)
        batch = definition.get_batch({"dataframe": frame})
        suite = ge.ExpectationSuite(
            name=table, expectations=[_configuration(i, c) for i, c in enumerate(checks)]
        )
        names = [each for each in key if each in frame.columns]
        result_format: dict[str, Any] = {
            "result_format": "SUMMARY",
            "partial_unexpected_count": _EXAMPLES,
            "return_unexpected_index_query": False,
        }
        if names:
            result_format["unexpected_index_column_names"] = names
        result = batch.validate(suite, result_format=result_format)
        result.results.sort(key=lambda each: each.expectation_config.meta["backfill"]["place"])
        document = result.to_json_dict()
    outcomes = tuple(
        _outcome(table, check, each)
        for check, each in zip(checks, document["results"], strict=True)
    )
    return Validation(table=table, run_id=run_id, outcomes=outcomes, document=document)


def _configuration(place: int, check: Check) -> dict[str, Any]:
    return {
        "type": check.expectation,
        "kwargs": dict(check.arguments),
        "meta": {"backfill": {"place": place, "check": check.name, "severity": check.severity}},
        "severity": "critical" if check.severity == "error" else "warning",
        **({"description": check.about} if check.about else {}),
    }


def _outcome(table: str, check: Check, found: Mapping[str, Any]) -> Outcome:
    result = found["result"]
    rows = result.get("partial_unexpected_index_list") or []
    if not all(isinstance(each, dict) for each in rows) or not rows:
        values = result.get("partial_unexpected_list") or []
        rows = [
            each if isinstance(each, dict) else {str(check.arguments.get("column")): each}
            for each in values
        ]
    return Outcome(
        table=table,
        check=check,
        success=bool(found["success"]),
        observed=result.get("observed_value", result.get("unexpected_percent")),
        unexpected=result.get("unexpected_count"),
        examples=tuple(rows[:_EXAMPLES]),
        problem=_problem(found["exception_info"]),
    )


def _problem(info: Mapping[str, Any]) -> str | None:
    each = info if "raised_exception" in info else next(iter(info.values()))
    if not each["raised_exception"]:
        return None
    return str(each["exception_message"]).strip().splitlines()[0]

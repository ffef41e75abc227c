"""Checks of a frame, made by Great Expectations."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from pyspark.sql import DataFrame

from backfill.quality import gx
from backfill.quality.checks import EXAMPLES, QUERY, Check, Validation
from backfill.quality.results import LEVELS, outcome, printable_result, statistics
from backfill.quality.utc import in_utc, with_times_of_utc
from backfill.session_conf import session_conf

# A check that succeeds needs no examples, and looking for them reads the frame again.
_COUNTS = {"result_format": "BASIC", "partial_unexpected_count": 0}
# No smaller format has the rows that a query found.
_COMPLETE = {"result_format": "COMPLETE"}
# What Great Expectations calls the frame for a query, and leaves behind.
_VIEW = "tmp_view"
# These look at the columns' types, and at no row; ours handles times itself.
_AS_IT_IS = frozenset(
    {
        "expect_column_type_to_be",
        "expect_column_values_to_be_in_type_list",
        "expect_column_values_to_be_of_type",
        "expect_sessions_to_be_apart",
    }
)


def evaluate(
    frame: Any, checks: Sequence[Check], *, table: str, run_id: str, key: Sequence[str] = ()
) -> Validation:
    """Checks a frame.

    On Spark, checks cost passes over the frame, of two jobs each. Aggregates of columns and counts
    of rows take one together. Checks of each value take that and one more for each column and row
    condition, however many checks it has; checks of several columns in each row take two.
    `expect_column_values_to_be_unique` and `expect_compound_columns_to_be_unique` sort twice, for
    their two counts; `expect_sessions_to_be_apart` sorts once. A check that fails is made again for
    its examples. Passes read what the frame is made from, so a frame that is expensive to compute
    is best persisted, or written first.

    Times are seen in UTC, whatever the zone of the session and of this process.

    Args:
        frame: a frame of pandas, or of Spark, classic or Connect.
        checks: what is expected of it.
        table: what it is: `events`, a window's name, or `reconciliation`.
        run_id: the run.
        key: columns that tell rows apart, to be shown with the examples.

    Returns:
        An outcome for each check, in order; a check that could not be made says why.
    """
    raw_results: dict[int, Any] = {}
    places = dict(enumerate(checks))
    with gx.context() as context, _session_in_utc(frame):
        for part, rows in _parts(frame, places):
            batch = _batch(context, rows, table)
            raw_results |= _results(batch, part, _COUNTS)
            failed = {k: v for k, v in part.items() if not raw_results[k].success}
            of_rows = {
                k: v for k, v in failed.items() if raw_results[k].result.get("unexpected_count")
            }
            queries = {k: v for k, v in failed.items() if v.expectation == QUERY}
            raw_results |= _results(batch, of_rows, _with_examples(frame, key))
            raw_results |= _results(batch, queries, _COMPLETE)
        if isinstance(frame, DataFrame) and any(check.expectation == QUERY for check in checks):
            frame.sparkSession.catalog.dropTempView(_VIEW)
        results = [printable_result(raw_results[place]) for place in places]
        document = _document(results, table, run_id)
    return Validation(
        table=table,
        run_id=run_id,
        outcomes=tuple(
            outcome(table, check, result)
            for check, result in zip(checks, document["results"], strict=True)
        ),
        document=document,
    )


def _parts(frame: Any, checks: Mapping[int, Check]) -> Iterator[tuple[dict[int, Check], Any]]:
    """The checks, grouped by the frame that they are made on."""
    as_it_is = {place: check for place, check in checks.items() if check.expectation in _AS_IT_IS}
    others = {place: check for place, check in checks.items() if place not in as_it_is}
    if as_it_is:
        yield as_it_is, frame
    if others:
        yield others, with_times_of_utc(frame) if isinstance(frame, DataFrame) else frame


def _session_in_utc(frame: Any) -> AbstractContextManager[None]:
    if not isinstance(frame, DataFrame):
        return nullcontext()
    return session_conf(frame.sparkSession, {"spark.sql.session.timeZone": "UTC"})


def _batch(context: Any, frame: Any, table: str) -> Any:
    if isinstance(frame, DataFrame):
        source = context.data_sources.add_or_update_spark("backfill", persist=False)
    else:
        source = context.data_sources.add_or_update_pandas("backfill")
    asset = source.add_dataframe_asset(table)
    return asset.add_batch_definition_whole_dataframe(table).get_batch({"dataframe": frame})


def _with_examples(frame: Any, key: Sequence[str]) -> dict[str, Any]:
    names = [name for name in key if name in frame.columns]
    return {
        "result_format": "SUMMARY",
        "partial_unexpected_count": EXAMPLES,
        "return_unexpected_index_query": False,
        **({"unexpected_index_column_names": names} if names else {}),
    }


def _results(
    batch: Any, checks: Mapping[int, Check], result_format: Mapping[str, Any]
) -> dict[int, Any]:
    """Great Expectations' result of each check, by the check's place."""
    from great_expectations.core import ExpectationSuite
    from great_expectations.core.expectation_validation_result import ExpectationValidationResult
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration

    if not checks:
        return {}
    configured = [
        ExpectationConfiguration(**_configuration(place, check)) for place, check in checks.items()
    ]
    spark = isinstance(batch.data.dataframe, DataFrame)
    try:
        suite = ExpectationSuite(
            name=batch.data_asset.name,
            expectations=[_expectation(configuration, spark) for configuration in configured],
        )
        results = batch.validate(suite, result_format=dict(result_format)).results
    except Exception as error:  # of any kind: an expectation's own, Spark's, pydantic's
        if len(checks) > 1:  # one that raises takes the others with it
            alone = ({place: check} for place, check in checks.items())
            return {k: v for part in alone for k, v in _results(batch, part, result_format).items()}
        problem = {"raised_exception": True, "exception_message": str(error) or repr(error)}
        results = [
            ExpectationValidationResult(
                success=False, expectation_config=configured[0], result={}, exception_info=problem
            )
        ]
    # In the order in which they could be evaluated.
    return {result.expectation_config.meta["place"]: result for result in results}


def _configuration(place: int, check: Check) -> dict[str, Any]:
    return {
        "type": check.expectation,
        "kwargs": dict(check.arguments),
        "meta": {"place": place, "check": check.name},
        "severity": LEVELS[check.severity],
        **({"description": check.about} if check.about else {}),
    }


def _expectation(configuration: Any, spark: bool) -> Any:
    """The expectation, with its moments in the form in which those of the frame are seen."""
    from great_expectations.expectations.expectation import (
        ColumnMapExpectation,
        ColumnPairMapExpectation,
        MulticolumnMapExpectation,
    )

    expectation = configuration.to_domain_obj()
    # Spark compares instants, and a moment without a zone is one of this process's zone. What Spark
    # has aggregated is compared in Python, where it has no zone.
    of_rows = ColumnMapExpectation | ColumnPairMapExpectation | MulticolumnMapExpectation
    zone = dt.timezone.utc if spark and isinstance(expectation, of_rows) else None
    for name, value in expectation:
        setattr(expectation, name, _moments(value, zone))
    return expectation


def _moments(value: Any, zone: dt.timezone | None) -> Any:
    if isinstance(value, dt.datetime):
        return in_utc(value).replace(tzinfo=zone)
    return [_moments(element, zone) for element in value] if isinstance(value, list) else value


def _document(results: list[Any], table: str, run_id: str) -> dict[str, Any]:
    from great_expectations.core.expectation_validation_result import (
        ExpectationSuiteValidationResult,
    )

    successes = [bool(result.success) for result in results]
    whole: Any = ExpectationSuiteValidationResult(
        success=all(successes),
        results=results,
        suite_name=table,
        statistics=statistics(successes),
        meta={"run_id": run_id, "batch_spec": {"data_asset_name": table}},
    )
    document: dict[str, Any] = whole.to_json_dict()
    return document

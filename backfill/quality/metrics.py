"""Metrics that Great Expectations does not have; `expectations` compares them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
from great_expectations.core.metric_domain_types import MetricDomainTypes
from great_expectations.execution_engine.pandas_execution_engine import PandasExecutionEngine
from great_expectations.execution_engine.sparkdf_execution_engine import SparkDFExecutionEngine
from great_expectations.expectations.metrics.column_aggregate_metric_provider import (
    ColumnAggregateMetricProvider,
    column_aggregate_partial,
    column_aggregate_value,
)
from great_expectations.expectations.metrics.metric_provider import metric_value
from great_expectations.expectations.metrics.table_metric_provider import TableMetricProvider
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import DecimalType, IntegralType

from backfill.columns import column as exactly
from backfill.errors import ColumnError, did_you_mean
from backfill.events.times import instant
from backfill.quality.utc import with_times_of_utc
from backfill.time.durations import fixed
from backfill.time.epoch import micros_of

TOO_NEAR = "sessions.too_near"
EVENTS_SUM = "column.events_sum"
# Added to a session's own columns in an example: the end that it is too near to.
PREVIOUS_END = "previous_end"


class SessionsTooNear(TableMetricProvider):
    """The number of sessions, how many follow another of their key too closely, and examples.

    On Spark it takes one job with a sort, and one more for the examples where there are any.
    """

    metric_name = TOO_NEAR
    value_keys = ("gap", "key", "start", "end", "gap_inclusive", "result_format")

    @metric_value(engine=SparkDFExecutionEngine)
    def _spark(
        cls,
        execution_engine: SparkDFExecutionEngine,
        metric_domain_kwargs: dict[str, Any],
        metric_value_kwargs: dict[str, Any],
        **_: Any,
    ) -> dict[str, Any]:
        asked = metric_value_kwargs
        frame = _frame(execution_engine, metric_domain_kwargs, asked)
        rows = _with_previous_end(frame, asked)
        near = _is_near(rows, asked)
        counts = rows.agg(F.count(F.lit(1)), F.count_if(near)).collect()[0]
        limit = _examples(asked)
        examples = []
        if counts[1] and limit:
            order = [exactly(asked["start"]), exactly(asked["end"])]
            examples = with_times_of_utc(rows.where(near).orderBy(*order).limit(limit)).collect()
        return {
            "rows": counts[0],
            "near": counts[1],
            "examples": [row.asDict() for row in examples],
        }

    @metric_value(engine=PandasExecutionEngine)
    def _pandas(
        cls,
        execution_engine: PandasExecutionEngine,
        metric_domain_kwargs: dict[str, Any],
        metric_value_kwargs: dict[str, Any],
        **_: Any,
    ) -> dict[str, Any]:
        asked = metric_value_kwargs
        frame = _frame(execution_engine, metric_domain_kwargs, asked)
        near = list(_near_rows(frame[_columns(asked)].itertuples(index=False, name=None), asked))
        examples = [
            dict(zip([*_columns(asked), PREVIOUS_END], row, strict=True))
            for row in near[: _examples(asked)]
        ]
        return {"rows": len(frame), "near": len(near), "examples": examples}


class EventsSum(ColumnAggregateMetricProvider):
    """The exact sum of a column of whole numbers, as text, never as a float."""

    metric_name = EVENTS_SUM

    @column_aggregate_partial(engine=SparkDFExecutionEngine)
    def _spark(cls, column: Column, _table: DataFrame, _column_name: str, **_: Any) -> Column:
        type_ = _table.schema[_column_name].dataType
        if not isinstance(type_, IntegralType) and not (
            isinstance(type_, DecimalType) and type_.scale == 0
        ):
            raise _no_counts(_column_name, type_.simpleString())
        total = F.sum(exactly(_column_name).cast("decimal(38,0)"))
        return F.coalesce(total, F.lit(0)).cast("string")

    @column_aggregate_value(engine=PandasExecutionEngine)
    def _pandas(cls, column: pd.Series[Any], **_: Any) -> str:
        total = 0
        for value in column.dropna():
            if not isinstance(value, int | float | Decimal | np.number) or int(value) != value:
                raise _no_counts(str(column.name), type(value).__name__)
            total += int(value)
        return str(total)


def _no_counts(name: str, kind: str) -> ColumnError:
    return ColumnError(f"{kind} can't be a count of events", field=name)


def _frame(
    engine: SparkDFExecutionEngine | PandasExecutionEngine,
    domain: dict[str, Any],
    asked: Mapping[str, Any],
) -> Any:
    frame = engine.get_compute_domain(domain_kwargs=domain, domain_type=MetricDomainTypes.TABLE)[0]
    for name in _columns(asked):
        if name not in frame.columns:
            way_out = did_you_mean(name, map(str, frame.columns))
            raise ColumnError("there is no such column", field=name, way_out=way_out)
    return frame


def _columns(asked: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys([*asked["key"], asked["start"], asked["end"]]))


def _examples(asked: Mapping[str, Any]) -> int:
    return int(asked["result_format"]["partial_unexpected_count"])


def _gap_us(gap: int | str) -> int:
    return gap if isinstance(gap, int) else fixed(gap, field="gap").us


def _with_previous_end(frame: DataFrame, asked: Mapping[str, Any]) -> DataFrame:
    """The sessions, each with the latest end of the earlier sessions of its key."""
    start, end = exactly(asked["start"]), exactly(asked["end"])
    before = (
        Window.partitionBy(*map(exactly, asked["key"]))
        .orderBy(start, end)
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    kept = frame.where(start.isNotNull() & end.isNotNull()).select(*map(exactly, _columns(asked)))
    return kept.withColumn(PREVIOUS_END, F.max(end).over(before))


def _is_near(rows: DataFrame, asked: Mapping[str, Any]) -> Column:
    distance = _micros(rows, asked["start"]) - _micros(rows, PREVIOUS_END)
    gap = F.lit(_gap_us(asked["gap"])).cast("bigint")
    return distance <= gap if asked["gap_inclusive"] else distance < gap


def _micros(frame: DataFrame, name: str) -> Column:
    type_ = frame.schema[name].dataType
    if isinstance(type_, IntegralType):
        return exactly(name).cast("bigint")
    return instant(exactly(name), type_, name, "UTC")


def _near_rows(
    rows: Iterable[tuple[Any, ...]], asked: Mapping[str, Any]
) -> Iterator[tuple[Any, ...]]:
    """The rows that are too near, in order of start, each with the latest end before it."""
    names = _columns(asked)
    start, end = names.index(asked["start"]), names.index(asked["end"])
    key = [names.index(name) for name in asked["key"]]
    whole = [row for row in rows if not pd.isna(row[start]) and not pd.isna(row[end])]
    gap = _gap_us(asked["gap"])
    latest: dict[tuple[Any, ...], Any] = {}
    for row in sorted(whole, key=lambda row: (_us(row[start]), _us(row[end]))):
        group = tuple(None if pd.isna(row[index]) else row[index] for index in key)
        before = latest.get(group)
        if before is not None:
            distance = _us(row[start]) - _us(before)
            if distance < gap or (distance == gap and asked["gap_inclusive"]):
                yield (*row, before)
        if before is None or _us(row[end]) > _us(before):
            latest[group] = row[end]


def _us(value: Any) -> int:
    """Microseconds since the epoch; a time without a zone is in UTC."""
    if not isinstance(value, dt.datetime):
        return int(value)
    if isinstance(value, pd.Timestamp):
        value = value.to_pydatetime(warn=False)
    return micros_of(value)

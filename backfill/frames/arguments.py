"""Checks of what is passed to functions over DataFrames, before anything is done with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import get_args

from pyspark.sql import DataFrame

from backfill.aggregates import Aggregate, parse
from backfill.errors import AggregateError, ColumnError, WindowError
from backfill.frames.metric import Metric
from backfill.windows import AnyWindow


def check_frame(frame: object, *, field: str = "events") -> None:
    """Raises a ColumnError if it is not a DataFrame of Spark's."""
    if not isinstance(frame, DataFrame):
        raise ColumnError(
            "must be a DataFrame of Spark",
            field=field,
            value=type(frame).__name__,
            way_out="spark.createDataFrame(...) makes one, also from pandas or Arrow",
        )


def check_window(window: object, *kinds: type, example: str) -> None:
    """Raises a WindowError if it is not a window of these kinds, or of any.

    Args:
        window: what was given.
        kinds: the allowed kinds; none for all.
        example: a valid window, for the message.
    """
    if not isinstance(window, kinds or get_args(AnyWindow)):
        raise WindowError(
            "must be a window", field="window", value=str(window), way_out=f"Such as {example}"
        )


def check_metrics(metrics: object) -> None:
    """Raises an AggregateError if it is not a list of metrics."""
    if not isinstance(metrics, Sequence) or not all(
        isinstance(metric, Metric) for metric in metrics
    ):
        raise AggregateError(
            "must be a list of metrics",
            field="metrics",
            value=str(metrics),
            way_out="Such as [Metric('spent', sum('amount'), by=['user'], windows=['1h'], "
            "step='5m')]",
        )


def given_aggregates(aggregates: Mapping[str, Aggregate | str]) -> dict[str, Aggregate]:
    """The aggregates by name; each of them may be written as in a job file.

    Raises:
        AggregateError: if they are not given by name, or one is something else.
    """
    if not isinstance(aggregates, Mapping):
        raise AggregateError(
            "must be aggregates by the names of their columns",
            field="aggregates",
            value=str(aggregates),
            way_out="Such as {'events': count()}",
        )
    parsed = {}
    for name, aggregate in aggregates.items():
        made = parse(aggregate) if isinstance(aggregate, str) else aggregate
        if not isinstance(made, Aggregate) or not isinstance(name, str):
            raise AggregateError(
                "must be an aggregate by the name of its column",
                field=f"aggregates.{name}",
                value=str(aggregate),
                way_out="Such as {'events': count()}, or {'events': 'count'}",
            )
        parsed[name] = made
    return parsed

"""The values that the rules of a session look at, evaluated once for each event."""

from __future__ import annotations

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill.columns import column, sortable
from backfill.errors import ColumnError, WindowError, did_you_mean
from backfill.operators.session_rules import ENDS, STARTS, VALUE
from backfill.printable import spark_reason
from backfill.runtimes.differences import floats_need_spark
from backfill.windows import SessionWindow


def rule_inputs(events: DataFrame, window: SessionWindow) -> list[Column]:
    """The columns of an event that the rules of a window use, in the order that breaks ties.

    Args:
        events: with their own columns.
        window: a session.

    Raises:
        ColumnError: if a column of `new_when` is missing, or its values cannot be ordered.
        WindowError: if a predicate does not fit the events, or is not boolean.
    """
    inputs = [
        _comparable(events, name).alias(f"{VALUE}{i}") for i, name in enumerate(window.new_when)
    ]
    for field, text, name in (
        ("start_when", window.start_when, STARTS),
        ("end_when", window.end_when, ENDS),
    ):
        if text is not None:
            inputs.append(predicate(events, field, text).alias(name))
    return inputs


def _comparable(events: DataFrame, name: str) -> Column:
    if name not in events.columns:
        raise ColumnError(
            "there is no such column",
            field="new_when",
            value=name,
            way_out=did_you_mean(name, (other for other in events.columns if other[:1] != "_")),
        )
    type = events.schema[name].dataType
    if not sortable(type):
        raise ColumnError(
            f"column {name!r} is {type.simpleString()}, whose values cannot be ordered",
            field="new_when",
            way_out="Select a part of it into a column of its own",
        )
    floats_need_spark(events, name, "new_when")
    return column(name)


def predicate(events: DataFrame, field: str, text: str) -> Column:
    """A predicate in Spark SQL over events; NULL counts as false.

    Args:
        events: with their own columns.
        field: what the predicate is called in errors.
        text: the predicate.

    Raises:
        WindowError: if it does not fit the events, or is not boolean.
    """
    try:
        type = events.select(F.expr(text)).schema[0].dataType
    except AnalysisException as error:
        names = ", ".join(name for name in events.columns if not name.startswith("_"))
        raise WindowError(
            f"does not fit the events: {spark_reason(error)}",
            field=field,
            value=text,
            way_out=f"The events' columns are {names}",
        ) from error
    if not isinstance(type, T.BooleanType):
        raise WindowError(
            f"is not a predicate but {type.simpleString()}",
            field=field,
            value=text,
            way_out="Write a comparison, such as page = '/login'",
        )
    return F.coalesce(F.expr(text), F.lit(False))

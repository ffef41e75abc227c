"""Aggregates as text; separate from other settings, since a command's help needs no Spark."""

from __future__ import annotations

from typing import Annotated

from pydantic import PlainValidator

from backfill.aggregates import Aggregate, parse
from backfill.errors import AggregateError


def _aggregate(value: object) -> Aggregate:
    if not isinstance(value, str):
        raise AggregateError("must be text, such as sum(amount)")
    try:
        return parse(value)
    except AggregateError:
        if value.count("(") > value.count(")"):
            # In {revenue: quantile(ms, 0.5)}, YAML ends the value at the comma.
            hint = "Put it in quotes: between { and } a comma ends a value"
            raise AggregateError("is cut off", value=value, way_out=hint) from None
        raise


AggregateText = Annotated[Aggregate, PlainValidator(_aggregate)]

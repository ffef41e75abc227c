"""Aggregates for a replay: over plain fields, which Spark has evaluated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from backfill.aggregates.base import Aggregate, to_column


@dataclass(frozen=True)
class Field:
    """An aggregate over fields that Spark has evaluated.

    Attributes:
        python: the name of its form in Python.
        expression: the field that is aggregated; None: the event itself.
        where: a field that is true for events that count; None: all do.
    """

    python: str
    expression: str | None
    where: str | None


def fields_of(aggregates: Mapping[str, Aggregate]) -> tuple[dict[str, Field], dict[str, Column]]:
    """Aggregates that have a form in Python, over plain fields, and these fields as columns."""
    fields: dict[str, Field] = {}
    columns: dict[str, Column] = {}
    for number, (name, aggregate) in enumerate(aggregates.items()):
        value = where = None
        if aggregate.python is None:
            continue
        if aggregate.expression is not None:
            value = f"x{number}"
            columns[value] = to_column(aggregate.expression)
        if aggregate.where is not None:
            where = f"w{number}"
            columns[where] = F.coalesce(to_column(aggregate.where), F.lit(False))
        fields[name] = Field(aggregate.python, value, where)
    return fields, columns

"""Rows with a column for everything: key, window, aggregates, and what puts rows in order."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill.errors import ColumnError
from backfill.reconciliation.output.decoders.base import Decoding, Wanted, find, window_bounds
from backfill.reconciliation.output.decoders.values import (
    Read,
    conversion_needs_spark,
    converted,
    failing,
)
from backfill.reconciliation.output.files import Steps, Value, Written
from backfill.reconciliation.output.options import StreamOptions
from backfill.reconciliation.same_time import interchangeable
from backfill.runtimes.differences import needs_spark

_ADDS, _TAKES_BACK = ("+I", "+U"), ("-U", "-D")
#: Whether a row takes a pane back.
_BACK = "is_retraction"


def decode_columns(written: Written, options: StreamOptions, wanted: Wanted) -> Decoding:
    """The decoding of rows of columns.

    Raises:
        ColumnError: a column is missing or has a type that cannot serve.
    """
    values, zone, steps = written.values, wanted.zone, Steps(written.frame)
    once = steps.once
    key = [
        converted(find(values, name), type_, name, zone, steps)
        for name, type_ in zip(wanted.key.names, wanted.key.types, strict=True)
    ]
    results = {
        name: converted(find(values, name), type_, name, zone, steps)
        for name, type_ in wanted.aggregates.items()
    }
    start, end = window_bounds(values, wanted, once)
    order = {
        name: _sorting(values[name], name, zone, steps)
        for name in ordering(written, options, wanted)
    }
    retracts = options.form.retracts and "op" in values
    op = find(values, "op").column if retracts else F.lit("+I")
    # Nothing says which of the rows of a time is taken back.
    single = interchangeable(wanted.window)
    allowed = _ADDS[:1] if single else (*_ADDS, *_TAKES_BACK)
    known = F.coalesce(op.isin(*allowed), F.lit(False))
    gone, problems = F.coalesce(op.isin(*_TAKES_BACK), F.lit(False)), []
    if options.retracting:
        back = converted(find(values, _BACK), T.BooleanType(), _BACK, zone, steps)
        gone = F.coalesce(back.value, F.lit(False))
        problems = [back.problem, failing(back.value.isNull(), f"{_BACK} is NULL")]
    return Decoding(
        frame=steps.frame,
        key=[read.value for read in key],
        start=start.value,
        end=end.value,
        values={name: read.value for name, read in results.items()},
        gone=gone,
        order=F.struct(*(read.value.alias(name) for name, read in order.items()), *written.place),
        evidence=lambda row: F.concat_ws(
            ", ",
            row.getField("_file"),
            *(F.concat_ws(" ", F.lit(name), row.getField(name)) for name in order),
        ),
        problems=[
            failing(~known, "op is not +I" if single else "op is not +I, -U, +U or -D"),
            *problems,
            *(read.problem for read in [*key, start, end, *results.values(), *order.values()]),
        ],
    )


def ordering(written: Written, options: StreamOptions, wanted: Wanted) -> list[str]:
    """The columns by which the rows of a window are put in order, before file and row.

    Raises:
        ColumnError: there is none, and the rows need one.
    """
    values = written.values
    taken = {*wanted.key.names, *wanted.aggregates}
    if "order" in values and "order" not in taken and not options.form.complete:
        return ["order"]
    names = [name for name in options.form.order if name in values and name not in taken]
    for name in options.form.needs:
        find(values, name)
    if "pane_index" in names and not (options.deltas or options.repeats or options.retracting):
        raise ColumnError(
            "windows have panes, but it is unknown whether a pane repeats the one before it",
            field="pane_index",
            way_out="Set panes: accumulating, discarding or retracting",
        )
    repeats = options.repeats or options.retracting or (options.form.retracts and "op" in values)
    if written.kind == "delta" and repeats and not names:
        raise ColumnError(
            "rows repeat, but a Delta table does not keep their order",
            field="order",
            way_out="Name the column that holds the order, with columns: theirs=order",
        )
    return names


def _sorting(given: Value, name: str, zone: str, steps: Steps) -> Read:
    """The value of a column that sorts rows; text is read as a number."""
    if isinstance(given.type, T.StringType):
        read = converted(given, T.DecimalType(38, 0), name, zone, steps)
    else:
        conversion_needs_spark(steps.frame, given, T.LongType(), name)
        if isinstance(given.type, T.FloatType | T.DoubleType):
            needs_spark(steps.frame, "floating-point numbers put rows in order", field=name)
        read = Read(given.column, F.lit(None).cast("string"))
    missing: Column = failing(read.value.isNull(), f"{name} is NULL or not a whole number")
    return Read(read.value, missing)

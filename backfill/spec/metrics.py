"""The job file's `metrics:`: rolling metrics; each grouping is a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, PlainValidator, ValidationInfo, model_validator

from backfill.aggregates import Aggregate
from backfill.aggregates.last_seen import in_frames
from backfill.errors import AggregateError, BackfillError, JobFileError
from backfill.frames.metric import Metric, grouped_name
from backfill.spec import names
from backfill.spec.aggregate_text import AggregateText
from backfill.spec.parts import Flag, Part, Text, number
from backfill.windows import MetricSlices, RollingWindow


def _numbers(value: object) -> object:
    """Bare numbers as numbers, so that the error can say what is missing."""
    return [number(element) for element in value] if isinstance(value, list) else number(value)


_Given = Annotated[Any, PlainValidator(_numbers)]


class MetricTable(Part):
    """One entry of `metrics`: the parameters of `Metric`, which checks them, and `keep_slices`.

    With `keep_slices` the events of each step are published too, as a table of states: a run of
    some dates then reads these rather than the events of the windows' whole length.
    """

    by: Annotated[Any, PlainValidator(lambda value: value)]
    value: AggregateText
    windows: _Given
    step: _Given
    offset: _Given = "0s"
    where: Text | None = None
    keep_slices: Flag = False

    @model_validator(mode="after")
    def _a_metric(self, info: ValidationInfo[Any]) -> MetricTable:
        metric = self.metric("metric")
        info.context.engine.check(_window(metric, metric.by[0]))
        if self.keep_slices and not in_frames(metric.aggregate.sliding()):
            raise AggregateError(
                "can't be merged from slices",
                field="keep_slices",
                value=str(metric.aggregate),
                way_out="Leave keep_slices out; counts, sums, means, extremes, first, last and "
                "distinct counts can be merged",
            )
        return self

    def metric(self, name: str) -> Metric:
        """The metric of this name."""
        return Metric(
            name,
            self.value,
            by=self.by,
            windows=self.windows,
            step=self.step,
            offset=self.offset,
            where=self.where,
        )


def metric_tables(
    settings: Mapping[str, MetricTable],
) -> dict[str, tuple[RollingWindow, dict[str, Aggregate]]]:
    """The tables of the metrics: their windows, each with the aggregate by its column.

    A metric with one grouping has a table of its own name. With several, each grouping has a table
    named after it: `cards_by_account_country`. A table of slices comes after it: `cards_slices`.

    Raises:
        JobFileError: a table or a column can't have its name.
    """
    tables: dict[str, tuple[RollingWindow, dict[str, Aggregate]]] = {}
    for name, metric in settings.items():
        try:
            for table, window, aggregates in _tables(name, metric):
                if table.lower() in map(str.lower, tables):
                    raise twice(table)
                tables[table] = window, aggregates
        except BackfillError as error:
            raise error.within(name) from None
    return tables


def _tables(
    name: str, settings: MetricTable
) -> Iterator[tuple[str, RollingWindow, dict[str, Aggregate]]]:
    metric = settings.metric(name)
    for by in metric.by:
        wanted = grouped_name(metric, by)
        try:
            table = names.check_window(wanted)
            columns = [names.check_aggregate(f"{name}_{window}", by) for window in metric.windows]
            if settings.keep_slices:
                names.check_aggregate(name, by)
        except JobFileError as error:
            way_out = error.way_out
            if wanted != name:
                way_out = "Make this grouping a separate metric: the table is named after it"
            raise JobFileError(error.problem, value=wanted, way_out=way_out) from None
        names.check_key(by)
        yield table, _window(metric, by), dict.fromkeys(columns, metric.aggregate)
        if settings.keep_slices:
            yield f"{table}_slices", _slices(metric, by, table), {name: metric.aggregate}


def _window(metric: Metric, by: tuple[str, ...]) -> RollingWindow:
    return RollingWindow(by=by, windows=metric.windows, step=metric.step, offset=metric.offset)


def _slices(metric: Metric, by: tuple[str, ...], table: str) -> MetricSlices:
    step = metric.step
    return MetricSlices(by=by, windows=(step,), step=step, offset=metric.offset, metric=table)


def twice(table: str, kind: str = "metric") -> JobFileError:
    """The error for a second table of this name."""
    return JobFileError(
        "two tables would have this name",
        value=table,
        way_out=f"Rename the {kind}, or the other table",
    )


def _checked(value: dict[str, MetricTable], info: ValidationInfo[Any]) -> dict[str, MetricTable]:
    tables = metric_tables(value)
    windows = [name.lower() for name in info.data.get("windows", ())]
    for table in tables:
        if table.lower() in windows:
            raise twice(table)
    return value


Metrics = Annotated[dict[Text, MetricTable], AfterValidator(_checked)]

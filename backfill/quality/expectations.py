"""Expectations that Great Expectations does not have, for any of its suites.

Importing this registers them: `expect_sessions_to_be_apart` and `expect_events_to_be_conserved`
can then be named in suites and job files. They work on the Spark and the pandas engine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from great_expectations.compatibility import pydantic
from great_expectations.execution_engine.execution_engine import ExecutionEngine
from great_expectations.expectations.expectation import (
    BatchExpectation,
    ColumnAggregateExpectation,
    render_suite_parameter_string,
)
from great_expectations.render.components import (
    LegacyRendererType,
    RenderedStringTemplateContent,
)
from great_expectations.render.renderer.renderer import renderer
from great_expectations.render.renderer_configuration import (
    RendererConfiguration,
    RendererValueType,
)

from backfill.quality.metrics import EVENTS_SUM, TOO_NEAR
from backfill.time.durations import Fixed, fixed

# A sentence with names in it, and what they stand for.
_Write = Callable[[dict[str, Any]], tuple[str, dict[str, Any]]]


class ExpectSessionsToBeApart(BatchExpectation):
    """Expect the sessions of each key to be further apart than the gap.

    A session is too near if it starts within the gap after the latest end of the sessions of its
    key that start before it, or overlaps one. Rows whose key is NULL form one key; rows without a
    start or an end are skipped. Times are compared as whole microseconds.

    Args:
        gap: a duration such as `30m`, or microseconds.
        key: the columns of the key; empty for a single group.
        start: the column of the starts, timestamps or microseconds.
        end: the column of the ends. If an end is the last event plus the gap, as in Spark and
            Flink, `gap` is 0.
        gap_inclusive: sessions exactly one gap apart should have been one.
    """

    gap: pydantic.StrictInt | pydantic.StrictStr
    key: list[pydantic.StrictStr] = pydantic.Field(default_factory=list)
    start: pydantic.StrictStr = "window_start"
    end: pydantic.StrictStr = "window_end"
    gap_inclusive: pydantic.StrictBool = True

    metric_dependencies: ClassVar[tuple[str, ...]] = (TOO_NEAR,)
    success_keys: ClassVar[tuple[str, ...]] = ("gap", "key", "start", "end", "gap_inclusive")
    args_keys: ClassVar[tuple[str, ...]] = ("gap", "key")

    @pydantic.validator("gap")
    def _is_duration(cls, gap: int | str) -> int | str:
        if isinstance(gap, str):
            fixed(gap, field="gap")
        return gap

    @classmethod
    def _prescriptive_template(
        cls, renderer_configuration: RendererConfiguration[Any]
    ) -> RendererConfiguration[Any]:
        return _atomic(renderer_configuration, *_apart(renderer_configuration.kwargs))

    @classmethod
    @renderer(renderer_type=LegacyRendererType.PRESCRIPTIVE)
    @render_suite_parameter_string
    def _prescriptive_renderer(
        cls,
        configuration: Any = None,
        result: Any = None,
        runtime_configuration: dict[str, Any] | None = None,
    ) -> list[RenderedStringTemplateContent]:
        return _sentence(configuration, result, runtime_configuration, _apart)

    def _validate(
        self,
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any] | None = None,
        execution_engine: ExecutionEngine[Any] | None = None,
    ) -> dict[str, Any]:
        measured = metrics[TOO_NEAR]
        rows, near = measured["rows"], measured["near"]
        return {
            "success": near == 0,
            "result": {
                "element_count": rows,
                "unexpected_count": near,
                "unexpected_percent": 100 * near / rows if rows else 0.0,
                "partial_unexpected_list": measured["examples"],
            },
        }


class ExpectEventsToBeConserved(ColumnAggregateExpectation):
    """Expect a column of counts to sum to the number of events, exactly.

    Args:
        column: the counts, whole numbers; a NULL counts nothing.
        events: what they should sum to; or a suite parameter that gives it at run time.
    """

    events: pydantic.StrictInt | dict[str, Any]

    metric_dependencies: ClassVar[tuple[str, ...]] = (EVENTS_SUM,)
    success_keys: ClassVar[tuple[str, ...]] = ("events",)
    args_keys: ClassVar[tuple[str, ...]] = ("column", "events")

    @classmethod
    def _prescriptive_template(
        cls, renderer_configuration: RendererConfiguration[Any]
    ) -> RendererConfiguration[Any]:
        return _atomic(renderer_configuration, *_conserved(renderer_configuration.kwargs))

    @classmethod
    @renderer(renderer_type=LegacyRendererType.PRESCRIPTIVE)
    @render_suite_parameter_string
    def _prescriptive_renderer(
        cls,
        configuration: Any = None,
        result: Any = None,
        runtime_configuration: dict[str, Any] | None = None,
    ) -> list[RenderedStringTemplateContent]:
        return _sentence(configuration, result, runtime_configuration, _conserved)

    def _validate(
        self,
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any] | None = None,
        execution_engine: ExecutionEngine[Any] | None = None,
    ) -> dict[str, Any]:
        observed = int(metrics[EVENTS_SUM])
        expected = self._get_success_kwargs()["events"]
        return {"success": observed == expected, "result": {"observed_value": observed}}


def _apart(arguments: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The expectation as a sentence, and the values that are put in it."""
    gap = arguments["gap"]
    params = {
        "start": arguments.get("start", "window_start"),
        "end": arguments.get("end", "window_end"),
        "gap": str(Fixed(gap)) if isinstance(gap, int) else gap,
        "key": ", ".join(arguments.get("key", ())) or "(all rows)",
    }
    amount = "more than" if arguments.get("gap_inclusive", True) else "at least"
    return f"$start must be {amount} $gap after the latest $end before it, for each $key.", params


def _conserved(arguments: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    params = {"column": arguments["column"], "events": arguments["events"]}
    return "$column must sum to exactly $events, the number of events.", params


def _atomic(
    rendered: RendererConfiguration[Any], sentence: str, params: dict[str, Any]
) -> RendererConfiguration[Any]:
    for name, value in params.items():
        rendered.add_param(name=name, param_type=RendererValueType.STRING, value=str(value))
    rendered.template_str = sentence
    return rendered


def _sentence(
    configuration: Any, result: Any, runtime_configuration: dict[str, Any] | None, write: _Write
) -> list[RenderedStringTemplateContent]:
    given: RendererConfiguration[Any] = RendererConfiguration(
        configuration=configuration, result=result, runtime_configuration=runtime_configuration
    )
    sentence, params = write(given.kwargs)
    styling = (runtime_configuration or {}).get("styling", {})
    template = {"template": sentence, "params": params, "styling": styling}
    return [
        RenderedStringTemplateContent(
            content_block_type="string_template", string_template=template
        )
    ]

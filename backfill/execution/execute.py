"""Executes the stages of a plan, one after the other."""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from operator import add

from backfill.errors import BackfillError
from backfill.events import spark_errors
from backfill.execution.catalog_entries import check_entries, register
from backfill.execution.change import Computed
from backfill.execution.full import compute_full
from backfill.execution.late import compute_late
from backfill.execution.publish import publish
from backfill.execution.ranges import compute_range
from backfill.execution.run_result import Failure, RunResult, Skipped, WindowResult
from backfill.execution.staging import Staging
from backfill.planning.context import Context
from backfill.planning.stages import FullStage, MergeStage, Plan, RangeStage
from backfill.time.dates import Dates

#: A stage that computes windows.
Computing = FullStage | RangeStage | MergeStage


def execute(context: Context, plan: Plan, *, anyway: str | None = None) -> RunResult:
    """Executes the stages of a run; a range that fails does not stop the others.

    Args:
        context: the context that the plan was made from.
        plan: what to do.
        anyway: the reason to publish even if checks fail.

    Raises:
        BackfillError: the only stage failed; or a table can't be published to; or the catalog in
            which the tables are registered fails, before anything is done or after everything is
            published.
    """
    check_entries(context.spec, context.spark)
    for state in context.tables.values():
        if state.table is not None:
            state.table.check_writable()
    result = _execute(context, plan, anyway)
    register(context)
    return result


def _execute(context: Context, plan: Plan, anyway: str | None) -> RunResult:
    began = time.monotonic()
    ranges = [range_stage for range_stage in plan.stages if isinstance(range_stage, RangeStage)]
    for stage in plan.stages:
        # A plan with one of these has no other stage.
        if isinstance(stage, FullStage | MergeStage):
            return run_stage(context, stage, anyway=anyway)
    group = f"chunks-{secrets.token_hex(4)}" if len(ranges) > 1 else None
    results: list[RunResult] = []
    failures: list[Failure] = []
    skipped = [Skipped(dates, "no input") for dates in plan.without_input.ranges]
    total = sum(stage.events for stage in ranges if stage.done is None)
    seen = 0
    for number, part in enumerate(ranges, 1):
        if part.done is not None:
            skipped.append(Skipped(part.dates, f"committed by run {part.done}"))
            continue
        if len(ranges) > 1:
            rate = _rate(number, len(ranges), part, seen, total, time.monotonic() - began)
            context.progress(rate)
        facts = {"stage": part.key, "chunk_of": group, "chunk": len(results) + 1 if group else None}
        try:
            if results or failures:
                context = context.after_commits()
            results.append(run_stage(context, part, facts=facts, anyway=anyway))
        except BackfillError as error:
            if len(ranges) == 1:
                raise
            context.progress(f"[{part.dates[0]}, {part.dates[1]}) failed: {error}")
            failures.append(Failure(part.dates, error))
        seen += part.events
    return _joined(results, failures, skipped, time.monotonic() - began)


def run_stage(
    context: Context,
    stage: Computing,
    *,
    facts: Mapping[str, object] | None = None,
    anyway: str | None = None,
) -> RunResult:
    """Computes one stage, and publishes it at its end: table by table, each whole or not at all.

    Args:
        context: the context as it is now.
        stage: what to do.
        facts: for `history`.
        anyway: the reason to publish even if checks fail.

    Raises:
        BackfillError: the stage failed; unless it says otherwise, nothing of it is published.
    """
    began = time.monotonic()
    with Staging(context) as staging, spark_errors(context.source.snapshot):
        return publish(
            context,
            staging,
            _compute(context, staging, stage),
            kind="recompute" if isinstance(stage, MergeStage) else "run",
            began=began,
            facts=facts or {},
            anyway=anyway,
        )


def _compute(context: Context, staging: Staging, stage: Computing) -> Computed:
    if isinstance(stage, FullStage):
        return compute_full(context, staging)
    if isinstance(stage, MergeStage):
        return compute_late(context, staging, stage)
    return compute_range(context, staging, Dates.between(*stage.dates), stage.until)


def _rate(
    number: int, stages: int, stage: RangeStage, seen: int, total: int, seconds: float
) -> str:
    done = f"{number} of {stages}: [{stage.dates[0]}, {stage.dates[1]}), {stage.events:,} events"
    if not seen or not seconds:
        return done
    rate = seen / seconds
    return f"{done}; {rate:,.0f} events/s, {max(0, total - seen) / rate:,.0f} s left"


def _joined(
    results: Sequence[RunResult],
    failures: Iterable[Failure],
    skipped: Iterable[Skipped],
    seconds: float,
) -> RunResult:
    """The results of several runs as one result."""
    quarantined: Counter[str] = Counter()
    windows: dict[str, WindowResult] = {}
    for result in results:
        quarantined.update(result.quarantined)
        for name, window in result.windows.items():
            before = windows.get(name, WindowResult(0, 0, window.version))
            dropped = [one for one in (before.dropped, window.dropped) if one is not None]
            windows[name] = WindowResult(
                before.rows + window.rows,
                before.events + window.events,
                window.version,
                reduce(add, dropped) if dropped else None,
            )
    horizons = [run.horizon_us for run in results if run.horizon_us is not None]
    return RunResult(
        run_id=results[-1].run_id if results else "",
        read=sum(run.read for run in results),
        accepted=sum(run.accepted for run in results),
        duplicates=sum(run.duplicates for run in results),
        quarantined=dict(quarantined.most_common()),
        windows=windows,
        horizon_us=max(horizons, default=None),
        seconds=seconds,
        chunks=tuple(results),
        failures=tuple(failures),
        skipped=tuple(skipped),
        checks=tuple(one for run in results for one in run.checks),
    )

"""Executes the stages of a plan, one run after the other."""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Iterable

from pyspark.sql import SparkSession

from backfill.errors import BackfillError
from backfill.execution.base import Progress
from backfill.execution.full import FullRun
from backfill.execution.ranges import RangeRun
from backfill.execution.results import Failure, RunResult, Skipped, WindowResult
from backfill.planning.planner import Plan, Stage
from backfill.spec import JobSpec
from backfill.store import DeltaStore
from backfill.time.dates import Dates


def execute(
    plan: Plan,
    spec: JobSpec,
    store: DeltaStore,
    spark: SparkSession,
    progress: Progress,
    *,
    anyway: str | None = None,
) -> RunResult:
    """Runs the stages; one that fails does not stop the others.

    Args:
        plan: which stages.
        spec: the job.
        store: its tables.
        spark: the session.
        progress: is told what is done.
        anyway: why to publish even what fails its checks.

    Raises:
        BackfillError: there is one stage only, and it failed.
    """
    began = time.monotonic()
    if plan.selection.everything:
        return FullRun(spec, store, spark, progress, anyway=anyway).execute()
    group = f"chunks-{secrets.token_hex(4)}"
    results: list[RunResult] = []
    failures: list[Failure] = []
    skipped = [Skipped(each, "no input") for each in plan.without_input.ranges]
    total = sum(stage.events for stage in plan.stages if stage.done is None)
    seen = 0
    for number, stage in enumerate(plan.stages, 1):
        assert stage.dates is not None
        if stage.done is not None:
            skipped.append(Skipped(stage.dates, f"committed by run {stage.done}"))
            continue
        if len(plan.stages) > 1:
            progress(_rate(number, len(plan.stages), stage, seen, total, time.monotonic() - began))
        facts = {"stage": stage.key, "chunk_of": group if len(plan.stages) > 1 else None}
        dates = Dates.between(*stage.dates)
        try:
            # Dates without events are no stage; the end that was asked for is the last one's.
            asked = plan.selection.dates if number == len(plan.stages) else None
            run = RangeRun(
                spec,
                store,
                spark,
                progress,
                dates=dates,
                until=(asked or stage.dates)[1],
                facts=facts,
                anyway=anyway,
            )
            results.append(run.execute())
        except BackfillError as error:
            if len(plan.stages) == 1:
                raise
            progress(f"[{stage.dates[0]}, {stage.dates[1]}) failed: {error}")
            failures.append(Failure(stage.dates, error))
        seen += stage.events
    return _joined(results, failures, skipped, time.monotonic() - began)


def _rate(number: int, stages: int, stage: Stage, seen: int, total: int, seconds: float) -> str:
    assert stage.dates is not None
    told = f"{number} of {stages}: [{stage.dates[0]}, {stage.dates[1]}), {stage.events:,} events"
    if not seen or not seconds:
        return told
    rate = seen / seconds
    return f"{told}; {rate:,.0f} events a second, {max(0, total - seen) / rate:,.0f} s left"


def _joined(
    results: list[RunResult],
    failures: Iterable[Failure],
    skipped: Iterable[Skipped],
    seconds: float,
) -> RunResult:
    """Several runs as one."""
    quarantined: Counter[str] = Counter()
    windows: dict[str, WindowResult] = {}
    for result in results:
        quarantined.update(result.quarantined)
        for name, each in result.windows.items():
            before = windows.get(name, WindowResult(0, 0, each.version))
            windows[name] = WindowResult(
                before.rows + each.rows, before.events + each.events, each.version
            )
    horizons = [each.horizon_us for each in results if each.horizon_us is not None]
    return RunResult(
        run_id=results[-1].run_id if results else "",
        read=sum(each.read for each in results),
        accepted=sum(each.accepted for each in results),
        duplicates=sum(each.duplicates for each in results),
        quarantined=dict(quarantined.most_common()),
        windows=windows,
        horizon_us=max(horizons, default=None),
        seconds=seconds,
        chunks=tuple(results),
        failures=tuple(failures),
        skipped=tuple(skipped),
        checks=tuple(one for each in results for one in each.checks),
    )

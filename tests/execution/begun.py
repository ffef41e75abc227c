"""Runs that have begun: they have opened the source and the tables, but computed nothing yet."""

from __future__ import annotations

from collections.abc import Callable

from backfill.execution.execute import execute
from backfill.execution.run_result import RunResult
from backfill.planning.context import open_context
from backfill.planning.late import plan_late
from backfill.planning.planner import plan_everything, plan_selection
from backfill.planning.selection import Selection
from tests.execution.world import World, day

Run = Callable[[], RunResult | None]


def silent(message: str) -> None:
    """Discards a progress message."""


def begun(world: World, low: int, high: int, chunk: int | None = None) -> Run:
    """A run of some dates."""
    context = open_context(world.job.spec, world.job.store, world.spark, silent)
    selection = Selection((day(low), day(high)), chunk=chunk)
    plan = plan_selection(context, selection, explain=False)
    return lambda: execute(context, plan)


def begun_late(world: World) -> Run:
    """A merge of late events."""
    context = open_context(world.job.spec, world.job.store, world.spark, silent)
    plan = plan_late(context, explain=False)
    return lambda: execute(context, plan) if plan.stages else None


def begun_all(world: World) -> Run:
    """A full run."""
    context = open_context(world.job.spec, world.job.store, world.spark, silent)
    plan = plan_everything(Selection())
    return lambda: execute(context, plan)

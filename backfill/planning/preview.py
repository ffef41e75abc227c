"""What a stage would read beyond its range, found out in the same way as by the run itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import functions as F

from backfill.columns import END
from backfill.ledger.state import State
from backfill.planning.context import Context
from backfill.planning.kept_slices import files_outside
from backfill.planning.published_windows import candidates, published
from backfill.planning.range_input import RangeInput, followed, range_inputs, sliced_input
from backfill.planning.replaced_windows import overlaps
from backfill.planning.stages import Beyond, RangeStage
from backfill.planning.time_spans import dates_of_span, touched
from backfill.planning.touched_files import no_longer_open, rewritten
from backfill.rows.compute import Built, Sliced
from backfill.store import DataFile
from backfill.time.dates import NONE, Dates
from backfill.time.spans import inside_span
from backfill.windows import SessionWindow


def previewed(context: Context, stage: RangeStage) -> RangeStage:
    """The stage, with how its events become slices and what it reads beyond its range.

    Raises:
        SourceError: an input can't be read.
    """
    beyond = []
    combining, judged = None, NONE
    for part in range_inputs(context, Dates.between(*stage.dates)):
        chosen, _, sliced, _ = sliced_input(context, part)
        combining = chosen.combining
        judged |= dates_of_span(part.span, context.spec.timezone) - part.dates
        for state in part.states:
            definition = context.definitions[state.name]
            keys = 0
            low: int | None
            high: int | None
            first: int | None
            last: int | None
            low, high = part.read
            if isinstance(definition.window, SessionWindow) and not definition.of_events:
                crossing = followed(chosen, state, sliced, part)
                keys = crossing.steps[0].keys if crossing.steps else 0
                low, high = crossing.low, crossing.high
                edges = [part.span[0], part.span[1] - 1, *(crossing.hull or ())]
                first, last = min(edges), max(edges) + 1
            else:
                first, last = touched(context, part.span, definition)
            built = Built(sliced.frame, definition, sliced.of(definition))
            files = candidates(context, state, built, first, None if last is None else last - 1)
            paths = {file.path for file in files}
            if context.latest_event is not None:
                paths |= no_longer_open(context, state, built, context.latest_event).keys()
            affected = None
            if definition.of_events:
                affected = _affected(context, state, built, part, files)
            beyond.append(
                Beyond(
                    window=state.name,
                    dates=stage.dates,
                    keys=keys,
                    low=low,
                    high=high,
                    rewritten=rewritten(state, paths),
                    affected=affected,
                    slices=_slices(context, state.name, sliced, part),
                )
            )
    return replace(stage, combining=combining, beyond=tuple(beyond), judged=judged)


def first_reaching(context: Context, dates: Dates) -> int | None:
    """The start (µs) of the first session that has an event on one of the dates; None without one.

    Args:
        context: the job's context.
        dates: one range.
    """
    starts = []
    for part in range_inputs(context, dates):
        chosen, _, sliced, _ = sliced_input(context, part)
        for state in part.states:
            definition = context.definitions[state.name]
            if isinstance(definition.window, SessionWindow) and not definition.of_events:
                hull = followed(chosen, state, sliced, part).hull
                starts += [] if hull is None else [hull[0]]
    return min(starts, default=None)


def _slices(
    context: Context, name: str, sliced: Sliced, part: RangeInput
) -> tuple[str, int, int] | None:
    """What is read of a metric's published slices."""
    kept = part.kept.get(name)
    if kept is None:
        return None
    files = files_outside(context, name, kept, sliced, part.span)
    return kept.name, len(files), sum(file.rows for file in files)


def _affected(
    context: Context, state: State, built: Built, part: RangeInput, files: Sequence[DataFile]
) -> int:
    """How many published rows outside the range an event in it can affect."""
    if not files:
        return 0
    outside = ~inside_span(F.col(END), part.span)
    rows = published(context, state, built, files)
    return rows.where(overlaps(built, part.span) & outside).count()

"""What a stage would read beyond its range, found out as the run itself does."""

from __future__ import annotations

from dataclasses import replace

from backfill.compute import Built
from backfill.planning.context import Context
from backfill.planning.published_windows import candidates
from backfill.planning.range_input import followed, range_inputs, sliced_input
from backfill.planning.stages import Beyond, RangeStage
from backfill.planning.time_spans import touched
from backfill.time.dates import Dates
from backfill.windows import SessionWindow


def previewed(context: Context, stage: RangeStage) -> RangeStage:
    """The stage with how its events become slices, and what it reads beyond its range.

    Raises:
        SourceError: an input can't be read.
    """
    beyond = []
    combining = None
    for part in range_inputs(context, Dates.between(*stage.dates)):
        chosen, sliced, _ = sliced_input(context, part)
        combining = chosen.combining
        for state in part.states:
            definition = context.definitions[state.name]
            keys = 0
            low: int | None
            high: int | None
            low, high = part.read
            if isinstance(definition.window, SessionWindow):
                found = followed(chosen, state, sliced, part)
                keys = found.steps[0].keys if found.steps else 0
                low, high = first, last = found.low, found.high
            else:
                first, last = touched(context, part.span, definition)
            built = Built(sliced.frame, definition, sliced)
            files = candidates(context, state, built, first, None if last is None else last - 1)
            rewritten = (
                len(files),
                sum(each.rows for each in files),
                sum(each.size for each in files),
            )
            beyond.append(
                Beyond(
                    window=state.name,
                    dates=stage.dates,
                    keys=keys,
                    low=low,
                    high=high,
                    rewritten=rewritten,
                )
            )
    return replace(stage, combining=combining, beyond=tuple(beyond))

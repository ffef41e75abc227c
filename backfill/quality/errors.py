"""The error that stops a run whose checks fail."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from backfill.errors import BackfillError
from backfill.quality.builtin import EVENTS
from backfill.quality.checks import Outcome


class ChecksFailed(BackfillError):
    """Checks failed with errors, not just warnings; nothing was published.

    Attributes:
        run_id: the id of the run, under which what it wrote is kept.
        outcomes: the outcomes of all checks, including those that passed.
    """

    exit_code = 1

    def __init__(self, job: Path, run_id: str, outcomes: Sequence[Outcome]) -> None:
        self.run_id, self.outcomes = run_id, tuple(outcomes)
        stopping = [outcome for outcome in outcomes if outcome.stops]
        failed = [f"{outcome.table}: {outcome.check.name}" for outcome in stopping]
        # The quarantine shows what is wrong with events.
        tables = dict.fromkeys(
            "quarantine" if outcome.table == EVENTS else outcome.table for outcome in stopping
        )
        super().__init__(
            f"nothing was published because {len(failed)} "
            f"check{'' if len(failed) == 1 else 's'} failed ({'; '.join(failed)})",
            field=f"run {run_id}",
            way_out="To see the rows: "
            + ", ".join(f"backfill show {job} {name} --run {run_id}" for name in tables)
            + "; to publish them anyway: --publish-anyway REASON",
        )

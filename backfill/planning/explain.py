"""What each stage of a plan does, in words: read, compute, replace, check, commit."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from backfill.ledger.state import QUARANTINE
from backfill.planning.stages import ExpireStage, FullStage, MergeStage, RangeStage, Stage
from backfill.quality.builtin import EVENTS, Scope, scopes
from backfill.rows.definition import Definition
from backfill.spec import JobSpec


@dataclass(frozen=True, kw_only=True)
class Explained:
    """One stage in words.

    Attributes:
        kind: full, range, late, expire.
        reads: which events, or which rows of a table.
        computes: the windows' tables that get rows.
        replaces: which of their rows are replaced.
        checks: the checks that must pass before anything is committed, by table.
        commits: the tables, in the order in which they are committed.
    """

    kind: str
    reads: str
    computes: tuple[str, ...]
    replaces: str
    checks: dict[str, tuple[str, ...]]
    commits: tuple[str, ...]


def explained(stage: Stage, spec: JobSpec) -> Explained:
    """A stage in words.

    Args:
        stage: a stage of a plan.
        spec: the job that was planned.
    """
    if isinstance(stage, ExpireStage):
        files = len(stage.whole) + len(stage.mixed)
        return Explained(
            kind="expire",
            reads=f"{len(stage.mixed)} of {files} files, which hold other windows too",
            computes=(),
            replaces="windows that ended before the limit of retention",
            checks={},
            commits=(stage.table,),
        )
    tables = tuple(spec.windows)
    if isinstance(stage, FullStage):
        kind, reads, replaces = "full", "every input", "every window"
    elif isinstance(stage, RangeStage):
        low, high = stage.dates
        kind = "range"
        reads = f"events of [{low}, {high}), and beyond it those of windows across its edges"
        replaces = f"windows that hold or held an event of [{low}, {high})"
        if spec.bots is not None:
            reads += "; for rules for bots, sessions across its edges"
            replaces += ", and windows of dates on which it changes who is a bot"
    else:
        assert isinstance(stage, MergeStage)
        tables = tuple(name for late in stage.late for name in late.tables)
        count = len({path for late in stage.late for path in late.inputs})
        kind, reads = "late", f"{count} inputs that are not counted yet"
        if stage.again:
            reads += f"; {len(stage.again)} inputs again for the quarantine"
            if spec.bots is not None or spec.retention_us is not None:
                reads += ", and all events"
        replaces = "windows that a late event belongs to, joins or moves"
        windows = {name: spec.windows[name] for name in tables}
        again = [
            name
            for name, entry in windows.items()
            if not Definition(entry.window, entry.aggregates).mergeable
        ]
        if again:
            reads += f", and for {', '.join(again)} all events of the windows that these touch"
        if spec.bots is not None:
            reads += "; for rules for bots, the sessions and days of the late events"
            replaces += ", or that have an event that it makes a bot's or no longer a bot's"
    return Explained(
        kind=kind,
        reads=reads,
        computes=tables,
        replaces=replaces,
        checks={
            EVENTS: _checks(spec, EVENTS, [EVENTS]),
            **{name: _checks(spec, name, scopes(spec.windows[name].window)) for name in tables},
        },
        commits=(*tables, QUARANTINE),
    )


def _checks(spec: JobSpec, table: str, kinds: Collection[Scope]) -> tuple[str, ...]:
    own = (check.name for check in spec.checks.own.get(table, ()))
    return (*spec.checks.about(kinds), *own)

"""The gate before publishing: what a run has written is checked before anyone can see it.

The built-in checks compare numbers with limits; the numbers of a table come from one pass over its
new files. A user's own expectations see the rows, and Great Expectations evaluates them.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame

from backfill.columns import column
from backfill.quality import sample
from backfill.quality.builtin import EVENTS, Builtin, scopes
from backfill.quality.checks import EXAMPLES, Check, Outcome, Validation
from backfill.quality.errors import ChecksFailed
from backfill.quality.events import Counted, measure_events
from backfill.quality.history import published_counts, unusual, weekdays_before
from backfill.quality.judging import as_check, judged
from backfill.quality.store import keep
from backfill.quality.window_rules import Look, Measured, WindowRules, measure
from backfill.rows.definition import Definition
from backfill.spec import JobSpec
from backfill.store import Table
from backfill.windows import key_of


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Rows of one window's table that are to be checked.

    Attributes:
        frame: the rows, as the table has them.
        dates: the dates that are judged by the history of their weekday.
        table: the version whose rows are that history; None if there is none.
        without: files of this version that are ignored.
        held: how many events the computed windows hold; None: count those of all rows.
        assigned: how many events the engine assigns to them; None: not known.
        written: how many rows there are, if they are exactly what a run computed. A duplicate row
            would break conservation, and a session is cut where the sort that built it says. So if
            there are many rows, these two are checked only for some keys.
        computed: the rows of keys that a run computed, if the others are copies of what is
            published; None: any row may be computed.
    """

    frame: DataFrame
    dates: Collection[dt.date]
    table: Table | None
    without: Collection[str]
    held: int | None = None
    assigned: int | None = None
    written: int | None = None
    computed: DataFrame | None = None


class Gate:
    """Checks what one run wrote, or what is published."""

    def __init__(self, spec: JobSpec, run_id: str) -> None:
        self.spec, self.run_id = spec, run_id

    def audit(
        self, counted: Counted | None, windows: Mapping[str, Rows], *, anyway: bool = False
    ) -> tuple[Outcome, ...]:
        """Checks events and windows, and stores the outcomes.

        Args:
            counted: the events.
            windows: what was written, by table.
            anyway: failed checks stop nothing.

        Raises:
            ChecksFailed: a check of severity error failed.
        """
        validations = [] if counted is None else self._events(counted)
        rules = {name: self._rules(name) for name in windows}
        measured = measure(
            {
                name: Look(
                    rules=rules[name], rows=rows.frame, beside=self._beside(rows, rules[name])
                )
                for name, rows in windows.items()
                if self._builtin(rules[name])
            }
        )
        for name, rows in windows.items():
            validations += self._window(name, rows, rules[name], measured.get(name))
        keep(self.spec.tables, self.run_id, validations)
        outcomes = tuple(one for validation in validations for one in validation.outcomes)
        failed = [one for validation in validations for one in validation.failed]
        if failed and not anyway:
            raise ChecksFailed(self.spec.path, self.run_id, outcomes)
        return outcomes

    def _events(self, counted: Counted) -> list[Validation]:
        builtin = self.spec.checks.about(["events"])
        # The only check that looks at the events' ids, which costs a pass over the events.
        looked_at = counted if "counted_once" in builtin else replace(counted, id=None)
        metrics = measure_events(looked_at) if builtin else {}
        own = self.spec.checks.own.get(EVENTS, ())
        names = [name for name in counted.events.columns if not name.startswith("_")]
        return judged(
            EVENTS,
            self.run_id,
            _numbers(builtin, metrics),
            metrics,
            own,
            counted.events.select(*map(column, names)) if own else None,
            self.spec.key,
        )

    def _rules(self, name: str) -> WindowRules:
        entry = self.spec.windows[name]
        definition = Definition(entry.window, entry.aggregates)
        spec = self.spec
        key = key_of(entry.window, spec.key)
        return WindowRules(definition, key, spec.engine, spec.timezone, spec.id)

    def _builtin(self, rules: WindowRules) -> dict[str, Builtin]:
        return self.spec.checks.about(scopes(rules.definition.window))

    def _beside(self, rows: Rows, rules: WindowRules) -> DataFrame | None:
        """The rows that are compared with their neighbors; None: all."""
        if rows.computed is not None:
            return rows.computed
        if (rows.written or 0) > sample.FEW and "conservation" in self._builtin(rules):
            return rows.frame.where(sample.sampled([column(name) for name in rules.key]))
        return None

    def _window(
        self, name: str, rows: Rows, rules: WindowRules, measured: Measured | None
    ) -> list[Validation]:
        builtin, metrics = self._builtin(rules), {}
        strange: list[dict[str, object]] = []
        if measured is not None:
            metrics = dict[str, float](measured.broken)
            if rows.assigned is not None:
                held = measured.held if rows.held is None else rows.held
                metrics["conservation"] = abs(held - rows.assigned)
            if "history" in builtin:
                strange = self._unusual(rows, measured, builtin["history"])
                metrics["history"] = len(strange)
        validations = judged(
            name,
            self.run_id,
            _numbers(builtin, metrics),
            metrics,
            self.spec.checks.own.get(name, ()),
            rows.frame,
            rules.key,
        )
        if measured is None:
            return validations
        return [with_examples(validation, rules, measured, strange) for validation in validations]

    def _unusual(self, rows: Rows, measured: Measured, check: Builtin) -> list[dict[str, object]]:
        assert isinstance(check.limit, float)
        counts = dict(measured.dates)
        if rows.table is not None:
            near = {*rows.dates, *weekdays_before(rows.dates)}
            others = published_counts(rows.table, near, rows.without)
            for day, other in others.items():
                here = counts.get(day)
                counts[day] = other if here is None else here + other
        return list(unusual(counts, rows.dates, check.limit))


def with_examples(
    validation: Validation,
    rules: WindowRules,
    measured: Measured,
    strange: Sequence[dict[str, object]],
) -> Validation:
    """The validation, with the number of rows that break a check, and some of them."""
    outcomes = []
    for outcome in validation.outcomes:
        name = outcome.check.name
        if outcome.check.builtin and not outcome.success:
            if name in measured.broken:
                rows = rules.examples(measured, name, EXAMPLES)
                outcome = replace(outcome, unexpected=measured.broken[name], examples=tuple(rows))
            elif name == "history":
                outcome = replace(
                    outcome, unexpected=len(strange), examples=tuple(strange[:EXAMPLES])
                )
        outcomes.append(outcome)
    return replace(validation, outcomes=tuple(outcomes))


def _numbers(builtin: Mapping[str, Builtin], metrics: Mapping[str, float]) -> list[Check]:
    """The checks of the numbers that were measured."""
    return [as_check(check) for name, check in builtin.items() if name in metrics]

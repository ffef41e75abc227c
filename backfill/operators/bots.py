"""Tells which events are those of bots, and by which rule."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window as Over
from pyspark.sql.window import WindowSpec

from backfill.bot_rules import BotRule, Bots
from backfill.columns import REASON, TIME, column, key_name, set_aside
from backfill.engines import Rules
from backfill.operators.calendar import day_number
from backfill.operators.rule_inputs import predicate
from backfill.operators.session import breaks

_HOUR = 3_600_000_000
_USABLE, _DATE, _GAP, _PAUSE = "_usable", "_date", "_gap", "_pause"
_SESSION, _NEW, _RULE, _HOUR_OF, _HOLDS = "_session", "_new", "_rule", "_hour", "_holds"


def with_bots(
    events: DataFrame,
    bots: Bots,
    *,
    key: Sequence[str],
    zone: str,
    rules: Rules,
    id: str | None,
    name: str,
) -> DataFrame:
    """Adds the name of the rule that makes an event a bot's; NULL if there is none.

    Each event is judged once, by its session according to the gap alone: removing a day's events
    changes no other session. Events of a key are sorted, and a task holds the events of one
    session.

    Args:
        events: normalised events. Those with a reason are in no session, and have no rule.
        bots: the rules.
        key: the key's columns.
        zone: the time zone of the days.
        rules: the engine's rules.
        id: rows with equal key, time and id are one event, and count once.
        name: the name of the column to add.

    Raises:
        WindowError: if a predicate does not fit the events, or is not boolean.
    """
    inner = [_USABLE, *(key_name(i) for i in range(len(key)))]
    theirs = set_aside(events.columns)
    placed = events.select(
        *(column(original).alias(theirs[original]) for original in events.columns),
        F.col(REASON).isNull().alias(_USABLE),
        day_number(F.col(TIME), zone).alias(_DATE),
        *(column(key_column).alias(key_name(i)) for i, key_column in enumerate(key)),
        *(
            predicate(events, "where", rule.where).alias(f"{_RULE}{i}")
            for i, rule in enumerate(bots.rules)
            if rule.where is not None
        ),
    )
    id = None if id is None else theirs[id]
    in_order = Over.partitionBy(*inner).orderBy(TIME, *([column(id)] if id is not None else []))
    so_far = in_order.rowsBetween(Over.unboundedPreceding, Over.currentRow)
    before = F.lag(TIME).over(in_order)
    copy = F.lit(False)
    if id is not None:
        same = (F.lag(column(id)).over(in_order) == column(id)) & (before == F.col(TIME))
        copy = F.coalesce(same, F.lit(False))
    rows = placed.withColumns(
        {
            _GAP: breaks(F.col(TIME), before, bots.gap.us, rules),
            _PAUSE: F.col(TIME) - before,
            _NEW: ~copy,
        }
    ).withColumn(_SESSION, F.max(F.when(F.col(_GAP), F.col(TIME))).over(so_far))
    hours = {rule.events for rule in bots.rules if rule.per == "hour"}
    # Copies of events are in partitions of their own, so none comes between other events.
    apart = Over.partitionBy(*inner, _SESSION, _NEW).orderBy(TIME)
    rows = rows.select(
        "*",
        *(
            (F.col(_NEW) & (F.col(TIME) - F.lag(TIME, n).over(apart) < _HOUR)).alias(
                f"{_HOUR_OF}{n}"
            )
            for n in sorted(limit for limit in hours if limit is not None)
        ),
    )
    session = Over.partitionBy(*inner, _SESSION)
    holds = {f"{_HOLDS}{i}": _holds(rule, i, session) for i, rule in enumerate(bots.rules)}
    rows = rows.withColumns(holds).withColumn(_RULE, _first(range(len(holds))))
    by_day = [i for i, rule in enumerate(bots.rules) if rule.remove == "day"]
    if by_day:
        day = Over.partitionBy(*inner, _DATE)
        rows = rows.withColumn(_RULE, F.least(_RULE, F.min(_first(by_day)).over(day)))
    named = F.get(F.array(*(F.lit(rule.name) for rule in bots.rules)), F.col(_RULE))
    return rows.select(
        *(column(theirs[original]).alias(original) for original in events.columns),
        F.when(F.col(_USABLE), named).alias(name),
    )


def _first(which: Sequence[int]) -> Column:
    """The first of these rules, by number, that holds for an event's session; NULL: none does."""
    return F.coalesce(*(F.when(F.col(f"{_HOLDS}{i}"), F.lit(i)) for i in which))


def _holds(rule: BotRule, index: int, session: WindowSpec) -> Column:
    """Whether all conditions of a rule hold for the session of an event."""
    tests = []
    if rule.events is not None and rule.per == "session":
        tests.append(F.sum(F.col(_NEW).cast("long")).over(session) > rule.events)
    if rule.events is not None and rule.per == "hour":
        tests.append(F.bool_or(f"{_HOUR_OF}{rule.events}").over(session))
    if rule.no_pause_longer_than is not None:
        pause = F.when(~F.col(_GAP), F.col(_PAUSE))
        tests.append(F.max(pause).over(session) <= rule.no_pause_longer_than.us)
    if rule.where is not None:
        tests.append(F.bool_or(f"{_RULE}{index}").over(session))
    return reduce(and_, tests)

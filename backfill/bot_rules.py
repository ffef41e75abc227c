"""The definition of bots: sessions that no person would make, and which events are removed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields

from backfill.errors import WindowError
from backfill.time.durations import Fixed, fixed
from backfill.windows.arguments import (
    choice,
    positive,
    predicate_text,
    set_fields,
    whole_events,
)

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*", re.ASCII)
_PER = ("session", "hour")
_REMOVE = ("session", "day")
_PAUSE = "no_pause_longer_than"


@dataclass(frozen=True, kw_only=True)
class BotRule:
    """A rule for sessions made by a bot; all given conditions must hold for the same session.

    Args:
        name: letters, digits, `_` and `-`, beginning with a letter. It is the reason in the
            quarantine.
        events: the session has more events than this.
        per: "hour" counts events that lie within less than an hour, anywhere in the session.
        no_pause_longer_than: no two successive events of the session are further apart; a fixed
            duration. Needs `events`, because a session of one event has no pause at all.
        where: a predicate in Spark SQL that holds for an event of the session.
        remove: "session" removes the session's events; "day" all events of the key on the local
            dates that the session has events on.

    Raises:
        WindowError: if a value has another form, if no condition is given, or if an argument has
            no meaning without another one.

    Example:
        >>> print(BotRule(name="crawler", where="user_agent RLIKE 'bot'", remove="day"))
        crawler(where=user_agent RLIKE 'bot', remove=day)
    """

    name: str
    events: int | None
    per: str
    no_pause_longer_than: Fixed | None
    where: str | None
    remove: str

    def __init__(
        self,
        *,
        name: object,
        events: object = None,
        per: object = "session",
        no_pause_longer_than: object = None,
        where: object = None,
        remove: object = "session",
    ) -> None:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise WindowError(
                "must be letters, digits, _ and -, and begin with a letter",
                field="name",
                value=name,
                way_out="Use a name such as too_many",
            )
        pause = no_pause_longer_than
        span = None if pause is None else fixed(pause, field=_PAUSE)
        set_fields(
            self,
            name=name,
            events=None if events is None else whole_events(events, field="events"),
            per=choice(per, _PER, field="per"),
            no_pause_longer_than=None if span is None else positive(span, field=_PAUSE),
            where=predicate_text(where, field="where", example="user_agent RLIKE '(?i)bot'"),
            remove=choice(remove, _REMOVE, field="remove"),
        )
        if events is None and where is None and span is None:
            raise WindowError(
                "has no condition that a session could meet",
                field="name",
                value=name,
                way_out="Give events or where",
            )
        for field, given in ((_PAUSE, span is not None), ("per", per == "hour")):
            if given and events is None:
                raise WindowError(
                    "has no meaning without events",
                    field=field,
                    value=str(getattr(self, field)),
                    way_out="Give the number of events that a session must exceed",
                )

    def __str__(self) -> str:
        given = [
            f"{field.name}={value}"
            for field in fields(self)[1:]
            if (value := getattr(self, field.name)) is not None
            and (field.name, value) != ("per", "session")
        ]
        return f"{self.name}({', '.join(given)})"


@dataclass(frozen=True)
class Bots:
    """Rules for bots, and the gap that ends the sessions that they look at.

    Attributes:
        gap: the gap of the sessions.
        rules: if several hold for an event, the first of them is its reason.
    """

    gap: Fixed
    rules: tuple[BotRule, ...]

    @classmethod
    def of(cls, gap: object, rules: Sequence[BotRule]) -> Bots:
        """The rules, if they can be combined.

        Raises:
            WindowError: there is no rule, two have the same name, or the gap is not positive, not
                a duration or a calendar span.
        """
        if not isinstance(rules, Sequence) or not all(isinstance(rule, BotRule) for rule in rules):
            raise WindowError(
                "must be a list of BotRule",
                field="rules",
                value=str(rules),
                way_out='Such as [BotRule(name="many", events=1000)]',
            )
        names = [rule.name for rule in rules]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None or not names:
            raise WindowError(
                "is the name of two rules" if names else "needs at least one rule",
                field="rules",
                value=twice if names else [],
                way_out="Give each rule a name of its own" if names else "Give a rule",
            )
        return cls(positive(fixed(gap, field="gap"), field="gap"), tuple(rules))

    def __str__(self) -> str:
        return f"gap={self.gap}: {'; '.join(map(str, self.rules))}"

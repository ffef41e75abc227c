"""Pairs of a job's events that are close in time or in number: the rows of a join's table."""

from __future__ import annotations

import re
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass

from backfill.errors import WindowError
from backfill.time.durations import Fixed
from backfill.windows.arguments import choice, predicate_text, set_fields
from backfill.windows.message_gaps import Messages
from backfill.windows.within import Reach, read_within

#: Which events without a partner have a row: none, the left ones, those of both sides. Or only left
#: events have a row: those with a partner, or those without.
HOWS = ("inner", "left", "full", "semi", "anti")
#: How conditions and columns name the sides.
LEFT, RIGHT = "left", "right"

_NAME = r"(?:`(?:[^`]|``)+`|\w+)"
_COLUMN = re.compile(rf"\s*({LEFT}|{RIGHT})\s*\.\s*({_NAME})\s*")
_TEXTS = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
_MENTIONED = re.compile(
    rf"(?<![\w.])(?<!\w`)(`?)({LEFT}|{RIGHT})\1\s*\.\s*({_NAME})", re.IGNORECASE
)


@dataclass(frozen=True)
class SideColumn:
    """A column of the left or of the right event."""

    side: str
    name: str

    def __str__(self) -> str:
        return f"{self.side}.{self.name}"


@dataclass(frozen=True, kw_only=True)
class JoinWindow:
    """Pairs of events of one key: a left event at t, and a right one in [t - before, t + after].

    Or an event and one of the last n of the other side before it. Both are events of one job;
    predicates say which. The row of a pair stands at the time of its left event. Job files have it
    as an entry of `joins`; for two DataFrames, `join` does the same.

    Args:
        left: which events are on the left side, in Spark SQL.
        right: which events are on the right side. An event can be on both.
        within: (before, after), or one duration for both, or a number of messages, as for `join`.
        how: inner, left, full, semi or anti, as for `join`.
        where: a further condition on a pair, over `left.column` and `right.column`.
        columns: what a row shows of its events, such as "right.price", by the column's name.

    Raises:
        WindowError: if an argument can't be used.

    Example:
        >>> print(JoinWindow(left="kind = 'click'", right="kind = 'buy'", within=("0s", "30m")))
        join(left="kind = 'click'", right="kind = 'buy'", within=[0s, 30m], how=inner)
    """

    left: str
    right: str
    within: Reach | Messages
    how: str
    where: str | None
    columns: Mapping[str, SideColumn]

    def __init__(
        self,
        *,
        left: object,
        right: object,
        within: object,
        how: str = "inner",
        where: str | None = None,
        columns: Mapping[str, object] | None = None,
    ) -> None:
        set_fields(
            self,
            left=_predicate(left, field=LEFT),
            right=_predicate(right, field=RIGHT),
            within=read_within(within),
            how=choice(how, HOWS, field="how"),
            where=predicate_text(where, field="where", example="right.amount > left.amount"),
            columns={name: _column(name, column) for name, column in (columns or {}).items()},
        )
        for name, column in self.columns.items():
            if not self.has_right and column.side == RIGHT:
                raise WindowError(
                    f"is of the right side, but rows of a join of kind {how} have only left "
                    "columns",
                    field=f"columns.{name}",
                    value=str(column),
                    way_out="Use a column of the left side",
                )

    def __hash__(self) -> int:
        return hash(str(self))

    @property
    def has_right(self) -> bool:
        """Whether a row has a right event."""
        return self.how in ("inner", "left", "full")

    def showing(self, columns: Mapping[str, SideColumn]) -> JoinWindow:
        """The same pairs with other columns."""
        window = copy(self)
        set_fields(window, columns=columns)
        return window

    def own_columns(self, id: str | None) -> dict[str, tuple[str, str]]:
        """The columns that identify a row's events besides its time: the side, and time or id.

        Args:
            id: the column of the events' id; None if they have none, or if it is in the key.
        """
        sides = [LEFT, RIGHT] if self.has_right else [LEFT]
        origins: dict[str, tuple[str, str]] = {}
        for side in sides:
            # A row without a left event stands at the time of its right one.
            if side == RIGHT or self.how == "full":
                origins[f"{side}_time"] = side, "time"
            if id is not None:
                origins[id if side == LEFT else f"{id}_{RIGHT}"] = side, "id"
        return origins

    @property
    def in_time(self) -> Reach:
        """How far apart in time the events of a pair may be; not for pairs by number."""
        assert isinstance(self.within, Reach)
        return self.within

    @property
    def furthest(self) -> Reach:
        """How much later than a row an event that it depends on can be; for pairs in time.

        For a full join this covers the rows of right events as well, which depend on left ones.
        """
        within = self.in_time
        if self.how != "full":
            return within
        back = within.reversed()
        return Reach(min(within.low, back.low), max(within.high, back.high))

    @property
    def looked_at(self) -> tuple[str, ...]:
        """The events' columns that rows have or that the condition mentions, each once."""
        return tuple(
            dict.fromkeys(column.name for column in (*self.columns.values(), *self.mentioned))
        )

    @property
    def mentioned(self) -> tuple[SideColumn, ...]:
        """The columns that the condition mentions."""
        text = _TEXTS.sub("''", self.where or "")
        return tuple(
            SideColumn(side.lower(), _unquoted(name)) for _, side, name in _MENTIONED.findall(text)
        )

    def __str__(self) -> str:
        within = str(self.within)
        if isinstance(self.within, Reach):
            within = f"[{Fixed(self.within.low)}, {Fixed(self.within.high)}]"
        more = [f'where="{self.where}"'] if self.where else []
        more += [f"{name}={column}" for name, column in sorted(self.columns.items())]
        sides = [f'left="{self.left}"', f'right="{self.right}"']
        return f"join({', '.join([*sides, f'within={within}', f'how={self.how}', *more])})"


def _predicate(value: object, *, field: str) -> str:
    predicate = predicate_text(value, field=field, example="event_type = 'click'")
    if predicate is None:
        raise WindowError(
            "does not say which events are on this side",
            field=field,
            way_out="Write a predicate such as event_type = 'click', or true for all events",
        )
    return predicate


def _column(name: str, value: object) -> SideColumn:
    match = _COLUMN.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise WindowError(
            "must be a column of one side",
            field=f"columns.{name}",
            value=value,
            way_out="Write left.column or right.column",
        )
    return SideColumn(match[1], _unquoted(match[2]))


def _unquoted(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name

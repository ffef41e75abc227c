"""What a window holds while it is open, and how events and other windows are folded into it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from backfill.errors import AggregateError, ColumnError
from backfill.replay.clocks import NEVER
from backfill.replay.event import Event
from backfill.replay.forms import Form, form


class Aggregated(Protocol):
    """What the replay needs of an aggregate, such as those of `backfill.aggregates`."""

    @property
    def python(self) -> str | None:
        """The name of its form in Python; None: the replay gives the window's events."""

    @property
    def expression(self) -> object:
        """The field that is aggregated; None: the event itself."""

    @property
    def where(self) -> object:
        """A field that is true for events that count; None: all do."""


_NO_PARTS: list[Any] = []  # shared, as nothing is ever put into it


class _Nulls(dict[str, Any]):
    """The fields of a record without a value: any field is there, and is null."""

    def __missing__(self, name: str) -> None:
        return None


_NULLS = _Nulls()


class State:
    """A window's content: number of events, largest event time, states, arrivals if kept."""

    __slots__ = ("arrivals", "count", "latest", "parts")

    def __init__(self, count: int, latest: int, parts: list[Any], arrivals: list[Any] | None):
        self.count = count
        self.latest = latest
        self.parts = parts
        self.arrivals = arrivals


class Folding:
    """The aggregates of a replay.

    Args:
        aggregates: by name.
        keep_events: keep the arrivals of a window's events; done anyway where an aggregate has
            no form in Python.

    Raises:
        AggregateError: if an aggregate is of more than a plain field.
    """

    def __init__(self, aggregates: Mapping[str, Aggregated], keep_events: bool) -> None:
        self._counts: list[str] = []
        self._parts: list[tuple[str, Form, str | None, str | None]] = []
        self.keeps = keep_events
        for name, aggregate in aggregates.items():
            if not hasattr(aggregate, "python"):
                raise AggregateError(
                    "is not an aggregate",
                    field=f"aggregates.{name}",
                    value=aggregate,
                    way_out="Use those of backfill.aggregates, such as count() or sum('amount')",
                )
            if aggregate.python is None:
                self.keeps = True
                continue
            field, where = _field(name, aggregate.expression), _field(name, aggregate.where)
            if aggregate.python == "count" and field is None and where is None:
                self._counts.append(name)
            else:
                self._parts.append((name, form(aggregate.python), field, where))
        self._bare = not self._parts and not self.keeps

    def empty(self) -> State:
        """A window of no events."""
        parts = [how.start() for _, how, _, _ in self._parts]
        return State(0, NEVER, parts, [] if self.keeps else None)

    def single(self, event: Event, time: int) -> State:
        """A window of one event."""
        if self._bare:
            return State(1, time, _NO_PARTS, None)
        state = self.empty()
        self.add(state, event, time)
        return state

    def add(self, state: State, event: Event, time: int) -> None:
        """Adds an event to a window, in place."""
        state.count += 1
        if time > state.latest:
            state.latest = time
        if self._bare:
            return
        if state.arrivals is not None:
            state.arrivals.append(event.arrival)
        values = _NULLS if event.value is None else event.value
        parts = state.parts
        try:
            for i, (_, how, field, where) in enumerate(self._parts):
                if where is not None and values[where] is not True:
                    continue
                value = 1 if field is None else values[field]
                if value is not None or how.sees_nulls:
                    parts[i] = how.add(parts[i], value, (time, event.arrival))
        except KeyError as error:
            raise ColumnError(
                f"the event that arrived as {event.arrival!r} has no such field",
                field=str(error.args[0]),
                way_out=f"Its fields are {', '.join(map(str, values)) or 'none'}",
            ) from None

    def merge(self, left: State, right: State) -> State:
        """Merges the right window into the left one, in place; the right one is no longer valid."""
        left.count += right.count
        left.latest = max(left.latest, right.latest)
        for i, (_, how, _, _) in enumerate(self._parts):
            left.parts[i] = how.merge(left.parts[i], right.parts[i])
        if left.arrivals is not None and right.arrivals is not None:
            left.arrivals.extend(right.arrivals)
        return left

    def copy(self, state: State) -> State:
        """An independent copy of a window."""
        parts = [
            how.copy(part) for (_, how, _, _), part in zip(self._parts, state.parts, strict=True)
        ]
        arrivals = None if state.arrivals is None else list(state.arrivals)
        return State(state.count, state.latest, parts, arrivals)

    def values(self, state: State) -> dict[str, Any]:
        """The aggregates by name."""
        values: dict[str, Any] = dict.fromkeys(self._counts, state.count)
        if self._bare:
            return values
        for (name, how, _, _), part in zip(self._parts, state.parts, strict=True):
            values[name] = how.finish(part)
        return values

    def events(self, state: State) -> tuple[Any, ...] | None:
        """The arrivals of the window's events, if they are kept."""
        return None if state.arrivals is None else tuple(state.arrivals)


def _field(name: str, expression: object) -> str | None:
    if expression is None or (isinstance(expression, str) and expression.isidentifier()):
        return expression
    raise AggregateError(
        "a replay can only aggregate plain fields",
        field=f"aggregates.{name}",
        value=str(expression),
        way_out="Evaluate the expression into a field of the events first",
    )

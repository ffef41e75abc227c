"""The joins of the test's job, and the rows that events make, by looking at every pair."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.reference import Event

MINUTE = 60_000_000
Row = tuple[Any, ...]


@dataclass(frozen=True)
class Joined:
    """A join: which events are on its sides, and how far before and after the left one, in µs.

    With `count`, an event's partners are the last `count` events of the other side before it.
    """

    how: str
    before: int
    after: int
    left: Callable[[int], bool]
    right: Callable[[int], bool]
    where: Callable[[int, int], bool] = lambda left, right: True
    count: int | None = None

    @property
    def reach(self) -> tuple[int, int]:
        """How much earlier and how much later than a row an event that changes it can be."""
        if self.count is not None:
            return 1 << 60, 1 << 60
        if self.how == "full":
            return (max(self.before, self.after),) * 2
        return self.before, self.after


JOINS: Mapping[str, Joined] = {
    "sold": Joined(
        "inner", 45 * MINUTE, 90 * MINUTE, lambda v: v >= 1, lambda v: v <= 1, lambda a, b: b < a
    ),
    "kept": Joined("left", 0, 24 * 60 * MINUTE, lambda v: v == 3, lambda v: v <= 0),
    "every": Joined("full", 90 * MINUTE, 30 * MINUTE, lambda v: v >= 1, lambda v: v <= 1),
    "some": Joined("semi", 45 * MINUTE, 45 * MINUTE, lambda v: v == 3, lambda v: v in (-3, 1)),
    "none": Joined("anti", 45 * MINUTE, 45 * MINUTE, lambda v: v == 3, lambda v: v in (-3, 1)),
    "next": Joined("full", 0, 0, lambda v: v >= 1, lambda v: v <= 1, count=2),
    "lone": Joined("anti", 0, 0, lambda v: v >= 0, lambda v: v in (-3, 1), count=1),
}
#: The same joins in a job file.
_TEXTS = {
    "sold": "{left: value >= 1, right: value <= 1, within: [-45m, 90m], on: user,"
    " where: right.value < left.value, columns: {mine: left.value, theirs: right.value}}",
    "kept": "{left: value = 3, right: value <= 0, within: [0s, 1d], how: left,"
    " columns: {mine: left.value, theirs: right.value}}",
    "every": "{left: value >= 1, right: value <= 1, within: [90m, 30m], how: full,"
    " columns: {mine: left.value, theirs: right.value}}",
    "some": "{left: value = 3, right: 'value IN (-3, 1)', within: 45m, how: semi,"
    " columns: {mine: left.value}}",
    "none": "{left: value = 3, right: 'value IN (-3, 1)', within: 45m, how: anti,"
    " columns: {mine: left.value}}",
    "next": "{left: value >= 1, right: value <= 1, within: 2 messages, how: full,"
    " columns: {mine: left.value, theirs: right.value}}",
    "lone": "{left: value >= 0, right: 'value IN (-3, 1)', within: 1 message, how: anti,"
    " columns: {mine: left.value}}",
}


def text_of(names: list[str]) -> str:
    """The section of a job file that defines these joins."""
    return "\n".join(["joins:", *(f"  {name}: {_TEXTS[name]}" for name in names)] if names else [])


def rows_of(name: str, events: list[Event], horizon: int, *, with_id: bool) -> list[Row]:
    """The rows of a join's table: key, time, what identifies the events, values, `is_open`.

    Args:
        name: the join's name.
        events: the events that count, each once.
        horizon: the largest time, µs.
        with_id: whether the job has an id.
    """
    join = JOINS[name]
    by_key: dict[str | None, list[Event]] = {}
    for event in events:
        by_key.setdefault(event.key, []).append(event)
    rows = []
    for key, own in by_key.items():
        left, right = (
            sorted(_side(own, holds), key=lambda candidate: _place(candidate, with_id))
            for holds in (join.left, join.right)
        )
        last = None if join.count is None else _last(join.count, left, right)
        pairs: list[tuple[int | None, int | None]] = []
        alone = set(range(len(right)))
        for i, one in enumerate(left):
            met = [
                j
                for j, other in enumerate(right)
                if _meets(join, one, other) and (last is None or (i, j) in last)
            ]
            alone -= set(met)
            if join.how in ("semi", "anti"):
                pairs += [(i, None)] if (join.how == "semi") == bool(met) else []
                continue
            pairs += [(i, j) for j in met]
            pairs += [(i, None)] if not met and join.how != "inner" else []
        if join.how == "full":
            pairs += [(None, j) for j in alone]
        for i, j in pairs:
            one = None if i is None else left[i]
            other = None if j is None else right[j]
            at = (one or other).time  # type: ignore[union-attr]
            assert at is not None
            is_open = at + (join.before if one is None else join.after) >= horizon
            if join.count is not None:
                later = len(left) - i if i is not None else len(right) - j  # type: ignore[operator]
                is_open = later <= join.count
            rows.append((key, at, *_between(join.how, one, other, with_id), is_open))
    return rows


def _side(events: list[Event], holds: Callable[[int], bool]) -> list[Event]:
    return [event for event in events if event.value is not None and holds(event.value)]


def _last(count: int, left: list[Event], right: list[Event]) -> set[tuple[int, int]]:
    """The pairs, by index, of an event and one of the other side's last `count` before it.

    Both sides are in order. At the same time and arrival, left events come first.
    """
    every = [(event.time, event.arrival, 0, i) for i, event in enumerate(left)]
    every += [(event.time, event.arrival, 1, i) for i, event in enumerate(right)]
    pairs: set[tuple[int, int]] = set()
    seen: tuple[list[int], list[int]] = ([], [])
    for _, _, side, i in sorted(every):
        seen[side].append(i)
        pairs |= {(other, i) if side else (i, other) for other in seen[1 - side][-count:]}
    return pairs


def _place(event: Event, with_id: bool) -> tuple[Any, ...]:
    """The sort key of a side's events: time, arrival, and what the job looks at."""
    own = (event.id is not None, event.id or "") if with_id else ()
    return event.time, event.arrival, *own, event.value


def _meets(join: Joined, one: Event, other: Event) -> bool:
    assert one.time is not None
    assert other.time is not None
    assert one.value is not None
    assert other.value is not None
    close = one.time - join.before <= other.time <= one.time + join.after
    return (close or join.count is not None) and join.where(one.value, other.value)


def _between(how: str, one: Event | None, other: Event | None, with_id: bool) -> list[Any]:
    """The columns between a row's time and whether it is open."""
    left, right = one and one.time, other and other.time
    values = [one and one.value, other and other.value]
    columns: list[Any] = [left] if how == "full" else []
    columns += [one and one.id] if with_id else []
    if how in ("semi", "anti"):
        return [*columns, values[0]]
    columns += [right, *([other and other.id] if with_id else [])]
    return [*columns, *values]

"""The aggregates in plain Python: KIP-94's initializer, aggregator and merger, on values.

A form's state may be changed in place: whoever adds to it, or merges it into another, owns it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from decimal import Context, Decimal, localcontext
from types import MappingProxyType
from typing import Any, NamedTuple

_MOST_DIGITS = 38
#: Sums of decimals: two of 38 digits can be 38 places apart, and a sum has many of them.
_EXACT = Context(prec=100)
_NAN = object()


class Form(NamedTuple):
    """How one aggregate is computed.

    Attributes:
        start: the state of no events.
        add: the state with an event's value; `place` is the event's (time, arrival).
        merge: one state of two, the earlier one first.
        finish: the value.
        copy: a state of its own, where states are changed in place.
        sees_nulls: whether None is a value like any other.
    """

    start: Callable[[], Any]
    add: Callable[[Any, Any, tuple[int, Any]], Any]
    merge: Callable[[Any, Any], Any]
    finish: Callable[[Any], Any]
    copy: Callable[[Any], Any] = lambda state: state
    sees_nulls: bool = False


def _none() -> None:
    return None


def _same(state: Any) -> Any:
    return state


def _added(state: Any, value: Any, place: object = None) -> Any:
    if state is None or value is None:
        return value if state is None else state
    return _EXACT.add(state, value) if isinstance(value, Decimal) else state + value


def _smaller(state: Any, value: Any, place: object = None) -> Any:
    if state is None or value is None:
        return value if state is None else state
    return value if _before(value, state) else state


def _larger(state: Any, value: Any, place: object = None) -> Any:
    if state is None or value is None:
        return value if state is None else state
    return value if _before(state, value) else state


def _before(one: Any, other: Any) -> bool:
    """Whether SQL puts one value before another: NULL first, NaN last."""
    if one is None or other is None:
        return one is None and other is not None
    if isinstance(one, _NESTED):
        return bool(_rank(one) < _rank(other))
    return bool(one == one and (other != other or one < other))


_NESTED = (list, tuple, Mapping)


def _rank(value: Any) -> Any:
    """A sort key for a value within another: lists and structs sort by what they hold, in order."""
    if value is None:
        return (0,)
    if isinstance(value, Mapping):
        return 1, tuple(_rank(part) for part in value.values())
    if isinstance(value, list | tuple):
        return 1, tuple(_rank(element) for element in value)
    return (2,) if value != value else (1, value)


def _mean(state: tuple[int, Any]) -> Any:
    count, total = state
    if not count:
        return None
    if isinstance(total, Decimal):
        with localcontext() as context:
            context.prec = _MOST_DIGITS
            return total / count
    return total / count


_Moments = tuple[int, float, float]


def _observed(state: _Moments, value: Any, place: object = None) -> _Moments:
    return _joined(state, (1, float(value), 0.0))


def _joined(left: _Moments, right: _Moments) -> _Moments:
    """Chan, Golub and LeVeque's merge of count, mean and sum of squared deviations."""
    if not left[0] or not right[0]:
        return left if left[0] else right
    count = left[0] + right[0]
    apart = right[1] - left[1]
    share = right[0] / count
    return count, left[1] + apart * share, left[2] + right[2] + apart * apart * left[0] * share


def _variance(state: _Moments) -> float | None:
    return state[2] / (state[0] - 1) if state[0] > 1 else None


def _stddev(state: _Moments) -> float | None:
    variance = _variance(state)
    return None if variance is None else math.sqrt(variance)


def _seen(state: set[Any], value: Any, place: object = None) -> set[Any]:
    state.add(hashable(value))
    return state


def hashable(value: Any) -> Any:
    """Equal for values that are equal in SQL: NaN equals itself, and lists and structs compare."""
    if isinstance(value, list | tuple):
        return tuple(hashable(element) for element in value)
    if isinstance(value, Mapping):
        return frozenset((name, hashable(part)) for name, part in value.items())
    if isinstance(value, bytearray):
        return bytes(value)
    return _NAN if value != value else value


def _union(left: set[Any], right: set[Any]) -> set[Any]:
    if len(left) < len(right):
        left, right = right, left
    left |= right
    return left


_Placed = tuple[tuple[int, Any], Any]


def _earliest(state: _Placed | None, value: Any, place: tuple[int, Any]) -> _Placed:
    if state is None or place < state[0] or (place == state[0] and _before(value, state[1])):
        return place, value
    return state


def _latest(state: _Placed | None, value: Any, place: tuple[int, Any]) -> _Placed:
    if state is None or place > state[0] or (place == state[0] and _before(state[1], value)):
        return place, value
    return state


def _earlier(left: _Placed | None, right: _Placed | None) -> _Placed | None:
    return left if right is None else _earliest(left, right[1], right[0])


def _later(left: _Placed | None, right: _Placed | None) -> _Placed | None:
    return left if right is None else _latest(left, right[1], right[0])


def _value(state: _Placed | None) -> Any:
    return None if state is None else state[1]


def _listed(state: list[_Placed], value: Any, place: tuple[int, Any]) -> list[_Placed]:
    state.append((place, value))
    return state


def _extended(left: list[_Placed], right: list[_Placed]) -> list[_Placed]:
    left.extend(right)
    return left


def _in_order(state: list[_Placed]) -> list[Any]:
    return [value for _, value in sorted(state, key=lambda placed: placed[0])]


def _reached(state: list[_Placed]) -> int:
    """How many steps were reached: for each event, a list says which of the steps it is."""
    reached = 0
    for steps in _in_order(state):
        reached += reached < len(steps) and steps[reached] is True
    return reached


_Span = tuple[int, int] | None


def _wider(left: _Span, right: _Span) -> _Span:
    if left is None or right is None:
        return right if left is None else left
    return min(left[0], right[0]), max(left[1], right[1])


def _seconds(state: _Span) -> float | None:
    return None if state is None else (state[1] - state[0]) / 1_000_000


def _moments() -> _Moments:
    return 0, 0.0, 0.0


#: By the name that an aggregate's `python` gives. `count` is of values that are not None.
FORMS: Mapping[str, Form] = MappingProxyType(
    {
        "count": Form(lambda: 0, lambda n, value, place: n + 1, lambda a, b: a + b, _same),
        "sum": Form(_none, _added, _added, _same),
        "min": Form(_none, _smaller, _smaller, _same),
        "max": Form(_none, _larger, _larger, _same),
        "mean": Form(
            lambda: (0, None),
            lambda state, value, place: (state[0] + 1, _added(state[1], value)),
            lambda a, b: (a[0] + b[0], _added(a[1], b[1])),
            _mean,
        ),
        "variance": Form(_moments, _observed, _joined, _variance),
        "stddev": Form(_moments, _observed, _joined, _stddev),
        "count_distinct": Form(set, _seen, _union, len, set),
        "first": Form(_none, _earliest, _earlier, _value, sees_nulls=True),
        "last": Form(_none, _latest, _later, _value, sees_nulls=True),
        "funnel": Form(list, _listed, _extended, _reached, list),
        "duration": Form(
            _none,
            lambda state, value, place: _wider(state, (place[0], place[0])),
            _wider,
            _seconds,
        ),
        "bounce": Form(
            lambda: 0,
            lambda n, value, place: n + 1,
            lambda a, b: a + b,
            lambda n: n == 1 if n else None,
        ),
    }
)
_PATH = re.compile(r"path\((\d+)\)")


def form(name: str) -> Form:
    """The form of this name; that of a path has its limit in the name, such as `path(3)`."""
    path = _PATH.fullmatch(name)
    if path is None:
        return FORMS[name]
    limit = int(path[1])
    return Form(list, _listed, _extended, lambda state: _in_order(state)[:limit], list)

"""Triggers as text, written as in Python."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import get_args

from backfill.errors import JobFileError, did_you_mean
from backfill.spec.parts import number
from backfill.triggers import AnyTrigger

_KINDS: dict[str, Callable[..., AnyTrigger]] = {
    kind.__name__: kind for kind in get_args(AnyTrigger)
}
_WAY_OUT = (
    "Give a number of events, or a trigger such as "
    'Repeatedly(AfterAny(AfterCount(100), AfterProcessingTime("10s")))'
)


def read_trigger(value: object) -> int | AnyTrigger:
    """Reads when a window sends another pane.

    Args:
        value: a number n, for a pane after every n events; a trigger; or a trigger's text, such
            as `Repeatedly(AfterCount(100))`.

    Raises:
        JobFileError: it is none of these.
        WindowError: an argument of a trigger is not valid.
    """
    if isinstance(value, AnyTrigger):
        return value
    given = number(value)
    if type(given) is int:
        if given >= 1:
            return given
        raise JobFileError("must be at least 1", value=given, way_out=_WAY_OUT)
    if not isinstance(value, str):
        raise JobFileError("is not a trigger", value=value, way_out=_WAY_OUT)
    try:
        trigger = _made(ast.parse(value.strip(), mode="eval").body)
    except (SyntaxError, TypeError, RecursionError):
        trigger = None
    if isinstance(trigger, AnyTrigger):
        return trigger
    raise JobFileError("is not a trigger", value=value, way_out=_WAY_OUT)


def _made(node: ast.expr) -> object:
    """A trigger, or the value of an argument; none of the text is executed."""
    if isinstance(node, ast.Constant):
        return node.value
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.keywords:
        raise SyntaxError(ast.unparse(node))
    name = node.func.id
    if name not in _KINDS:
        raise JobFileError(
            "there is no such trigger", value=name, way_out=did_you_mean(name, _KINDS)
        )
    return _KINDS[name](*map(_made, node.args))

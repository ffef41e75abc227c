"""Aggregates as the job file writes them: `name(expression, parameters) [where predicate]`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from backfill.aggregates.base import Aggregate
from backfill.errors import AggregateError, did_you_mean

_FORM = "Write it like count, sum(amount), quantile(ms, 0.95) or count where page = '/'"
_HEAD = re.compile(r"\s*([A-Za-z_]\w*)\s*")
_WHERE = re.compile(r"\s*where\s+(?=\S)", re.IGNORECASE)
_PARAMETER = re.compile(r"\s*(?:([A-Za-z_]\w*)\s*=)?\s*(true|false|\d+(?:\.\d*)?|\.\d+)\s*", re.I)
_QUOTES = "'\"`"


def parse(text: str, factories: Mapping[str, Callable[..., Aggregate]]) -> Aggregate:
    """Parses one aggregate.

    Args:
        text: such as "sum(price * quantity) where country = 'NO'"; expression and predicate in
            Spark SQL.
        factories: the functions that make aggregates, by name.

    Raises:
        AggregateError: with the text, what is wrong in it, and what is allowed.
    """
    head = _HEAD.match(text)
    if not head:
        raise AggregateError("not an aggregate", value=text, way_out=_FORM)
    name, rest = head[1], text[head.end() :]
    if name not in factories:
        raise AggregateError("no such aggregate", value=name, way_out=did_you_mean(name, factories))
    arguments: list[str] = []
    if rest.startswith("("):
        end = _closing(rest, text)
        arguments, rest = list(_split(rest[1:end])), rest[end + 1 :]
    where = _WHERE.match(rest)
    if rest.strip() and not where:
        raise AggregateError(
            f"{rest.strip()!r} is not allowed after the aggregate", value=text, way_out=_FORM
        )
    return _make(text, factories[name], arguments, rest[where.end() :].strip() if where else None)


def _make(
    text: str, factory: Callable[..., Aggregate], arguments: list[str], where: str | None
) -> Aggregate:
    positional: list[Any] = [
        _listed(expression.strip()) for expression in arguments[:1] if expression.strip()
    ]
    named: dict[str, Any] = {} if where is None else {"where": where}
    for argument in arguments[1:]:
        match = _PARAMETER.fullmatch(argument)
        if not match:
            raise AggregateError(
                f"{argument.strip()!r} is not a parameter",
                value=text,
                way_out="Parameters are numbers, true or false, with or without a name; "
                "several columns or predicates are one argument, [a, b]",
            )
        value = _literal(match[2])
        if match[1]:
            named[match[1]] = value
        else:
            positional.append(value)
    try:
        inspect.signature(factory).bind(*positional, **named)
    except TypeError as error:
        raise AggregateError(str(error), value=text, way_out=_usage(factory)) from None
    return factory(*positional, **named)


def _listed(argument: str) -> str | list[str]:
    """The items of `[a, b]`; other arguments unchanged."""
    if argument.startswith("[") and argument.endswith("]"):
        return [part.strip() for part in _split(argument[1:-1])]
    return argument


def _usage(factory: Callable[..., Aggregate]) -> str:
    parameters = [name for name in inspect.signature(factory).parameters if name != "where"]
    return f"Write {factory.__name__}({', '.join(parameters)})"


def _literal(text: str) -> bool | int | float:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    return int(text) if text.isdigit() else float(text)


def _marks(text: str) -> Iterator[tuple[int, str, int]]:
    """The position, character and nesting depth of everything outside quotes."""
    depth, quote = 0, ""
    escaped = False
    for place, char in enumerate(text):
        if quote:
            if escaped:
                escaped = False
            elif char == "\\" and quote != "`":
                escaped = True
            elif char == quote:
                quote = ""
            continue
        if char in _QUOTES:
            quote = char
            continue
        depth += (char in "([{") - (char in ")]}")
        yield place, char, depth


def _closing(text: str, whole: str) -> int:
    for place, char, depth in _marks(text):
        if char == ")" and depth == 0:
            return place
    raise AggregateError("a parenthesis or a quote is not closed", value=whole, way_out=_FORM)


def _split(text: str) -> Iterator[str]:
    """The arguments, cut at the commas outside parentheses and quotes."""
    start = 0
    for place, char, depth in _marks(text):
        if char == "," and depth == 0:
            yield text[start:place]
            start = place + 1
    yield text[start:]

"""The errors of the package. Each message is one line: the field, the problem and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

_ABSENT: Any = object()


class BackfillError(Exception):
    """Something could not be done.

    The message is built from the attributes, so that every error reads the same way.

    Attributes:
        problem: what is wrong, without the field's name.
        field: the setting, column, argument or file that the error is about, or None.
        value: the value found there; absent if `has_value` is False.
        way_out: what to do about it, or None.
    """

    exit_code = 2

    def __init__(
        self,
        problem: str,
        *,
        field: str | None = None,
        value: Any = _ABSENT,
        way_out: str | None = None,
    ) -> None:
        self.problem = problem
        self.field = field
        self.has_value = value is not _ABSENT
        self.value = value if self.has_value else None
        self.way_out = way_out
        super().__init__(self._message())

    def _message(self) -> str:
        message = f"{self.field}: {self.problem}" if self.field else self.problem
        if self.has_value:
            message += f" (got {self.value!r})"
        return f"{message}. {self.way_out}" if self.way_out else message

    def within(self, place: str) -> BackfillError:
        """The same error with an outer field name: `gap` becomes `windows.sessions.session.gap`."""
        return self._with(f"{place}.{self.field}" if self.field else place, self.way_out)

    def after(self, done: str) -> BackfillError:
        """The same error, whose way out begins with what had been done before it."""
        return self._with(self.field, f"{done}. {self.way_out or ''}".rstrip())

    def _with(self, field: str | None, way_out: str | None) -> BackfillError:
        value = self.value if self.has_value else _ABSENT
        return type(self)(self.problem, field=field, value=value, way_out=way_out)


class JobFileError(BackfillError, ValueError):
    """The job file, or an argument that overrides a part of it, cannot be used."""


class WindowError(BackfillError, ValueError):
    """A window definition, or a duration in it, that the engine cannot compute."""


class AggregateError(BackfillError, ValueError):
    """An aggregate that is unknown, malformed, or does not fit its column."""


class ColumnError(BackfillError, ValueError):
    """A column that is missing or has an unsuitable type."""


class SourceError(BackfillError):
    """The source is missing, empty, unreadable, or uses features that are not supported."""


class ReplayError(BackfillError, ValueError):
    """Events, or settings of a replay, that the engine's operator would reject."""


class TableError(BackfillError):
    """A published table cannot be read, written or committed."""


class SetupError(BackfillError):
    """Java, Spark or a package that the work needs is missing or too old."""


class ConservationError(BackfillError):
    """Events were lost in a computation: a bug in backfill, or a source that changed meanwhile."""

    exit_code = 1


def did_you_mean(name: str, allowed: Iterable[str]) -> str:
    """A suggestion for an unknown name: the closest allowed name, or all of them."""
    names = sorted(allowed)
    near = difflib.get_close_matches(str(name), names, n=1)
    if near:
        return f"Did you mean {near[0]!r}?"
    return "Allowed: " + ", ".join(names) if names else "No name is allowed here"

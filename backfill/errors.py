"""One tree of errors. Each holds the facts and names the way out, in one line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

_ABSENT: Any = object()


class BackfillError(Exception):
    """Something could not be done.

    The message is built from the facts, so that it reads the same everywhere; the facts stay on
    the error as attributes for those who handle it.

    Attributes:
        problem: what is wrong, without the field's name.
        field: the setting, column, argument or file that it is about, or None.
        value: what was found there; absent when `has_value` is False.
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
        """The same error, told from further out: `gap` becomes `windows.sessions.session.gap`."""
        field = f"{place}.{self.field}" if self.field else place
        value = self.value if self.has_value else _ABSENT
        return type(self)(self.problem, field=field, value=value, way_out=self.way_out)


class JobFileError(BackfillError, ValueError):
    """The job file, or an argument that stands for a part of it, cannot be used."""


class WindowError(BackfillError, ValueError):
    """A window definition, or a duration in it, that no engine or not this engine can compute."""


class AggregateError(BackfillError, ValueError):
    """An aggregate that is unknown, malformed, or does not fit its column."""


class ColumnError(BackfillError, ValueError):
    """A column that is missing or has a type that cannot serve."""


class SourceError(BackfillError):
    """The source is missing, empty, unreadable, or has features that are not applied."""


class ReplayError(BackfillError, ValueError):
    """Events, or settings of a replay, that the engine's operator would not take."""


class TableError(BackfillError):
    """A published table cannot be read, written or committed."""


class SetupError(BackfillError):
    """Java, Spark or a package that the work needs is missing or too old."""


class ConservationError(BackfillError):
    """Events went in that did not come out: a fault in backfill or a source that changed."""

    exit_code = 1


def did_you_mean(name: str, allowed: Iterable[str]) -> str:
    """A way out for an unknown name: the nearest allowed one, or all of them."""
    names = sorted(allowed)
    near = difflib.get_close_matches(name, names, n=1)
    if near:
        return f"Did you mean {near[0]!r}?"
    return "Allowed: " + ", ".join(names) if names else "Nothing is allowed here"

"""A YAML file as plain text values, with the line of each.

Every scalar keeps the text that was written (`~`, `null` and nothing are None). So YAML 1.1's
surprises cannot happen: `no` is a name, `30:00` is not 1800, `2024-01-01` is not a date, and `1e3`
and `007` reach Spark's options unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from backfill.errors import JobFileError
from backfill.printable import printable

Value = str | list["Value"] | dict[str, "Value"] | None
Place = tuple[str | int, ...]

_NULL = ("", "~", "null", "Null", "NULL")
# Aliases can make a small file endless; no job file written by a person comes near this.
_MOST_NODES = 20_000
_MOST_LEVELS = 50


class Quoted(str):
    """Text that was written in quotes or as a block, so it is never a number."""


@dataclass
class Document:
    """A file that was read.

    Attributes:
        name: the file's path as the user gave it, for messages.
        value: the whole content.
        lines: the line number, from 1, of each place (a path of keys and positions).
    """

    name: str
    value: Value = None
    lines: dict[Place, int] = field(default_factory=dict)

    def where(self, place: Place, line: int | None = None) -> str:
        """The place in readable form: `job.yaml:12: windows.sessions`."""
        path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
        head = f"{self.name}:{line or self.line(place)}"
        return f"{head}: {printable(path.removeprefix('.'))}" if path else head

    def line(self, place: Place) -> int:
        """The line of the place; for an absent one, the line of what it is missing from."""
        while place not in self.lines and place:
            place = place[:-1]
        return self.lines.get(place, 1)


def read(path: Path) -> Document:
    """Reads a YAML file.

    Raises:
        JobFileError: if the file does not exist, or it is not one YAML document of mappings,
            lists and text, or a key is listed twice.
    """
    document = Document(str(path))
    node = _compose(_text(path), document)
    if node is not None:
        document.value = _Reader(document).value(node, ())
    if document.value is None:
        raise JobFileError("is empty", field=document.name, way_out=_START)
    return document


_START = "Write one to start from: backfill init"


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise JobFileError("the file does not exist", field=str(path), way_out=_START) from None
    except OSError as error:
        raise JobFileError(f"can't be read: {error.strerror or error}", field=str(path)) from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise JobFileError("is not UTF-8 text", field=f"{path}:{line}") from None


def _compose(text: str, document: Document) -> yaml.Node | None:
    try:
        return yaml.compose(text, Loader=yaml.BaseLoader)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        problem = "a character that YAML does not allow"
        raise JobFileError(problem, field=f"{document.name}:{line}") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{document.name}:{mark.line + 1}" if mark else document.name
        hint = "Indent with spaces, not tabs" if "'\\t'" in str(error.problem) else None
        problem = "not YAML: " + ", ".join(filter(None, (error.context, error.problem)))
        raise JobFileError(problem, field=place, way_out=hint) from None
    except RecursionError:
        raise JobFileError("is nested too deeply", field=document.name) from None


class _Reader:
    """Turns YAML nodes into values and records their lines."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._nodes = 0

    def value(self, node: yaml.Node, place: Place) -> Value:
        self._document.lines.setdefault(place, node.start_mark.line + 1)
        self._nodes += 1
        if self._nodes > _MOST_NODES or len(place) > _MOST_LEVELS:
            raise JobFileError("is too large", field=self._document.where(()))
        if isinstance(node, yaml.MappingNode):
            return {
                key: self.value(child, (*place, key)) for key, child in self._pairs(node, place)
            }
        if isinstance(node, yaml.SequenceNode):
            return [self.value(child, (*place, i)) for i, child in enumerate(node.value)]
        plain = isinstance(node, yaml.ScalarNode) and node.style is None
        if not plain:
            return Quoted(node.value)
        return None if node.value in _NULL else str(node.value)

    def _pairs(self, node: yaml.MappingNode, place: Place) -> Iterator[tuple[str, yaml.Node]]:
        seen: set[str] = set()
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise JobFileError(
                    "a mapping key must be text", field=f"{self._document.name}:{line}"
                )
            inner = (*place, key.value)
            if key.value in seen:
                first = self._document.lines[inner]
                raise JobFileError(
                    f"is already defined on line {first}",
                    field=self._document.where(inner, line),
                    way_out="Keep one of the two",
                )
            seen.add(key.value)
            self._document.lines[inner] = line
            yield key.value, value

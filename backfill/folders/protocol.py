"""What runs need from a folder, wherever it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import pyarrow.fs as fs


@dataclass(frozen=True)
class Found:
    """A file, or a folder with everything in it.

    Attributes:
        size: in bytes.
        modified: when it was last written, seconds since the epoch.
    """

    size: int
    modified: float


class Folder(Protocol):
    """A folder; it need not exist."""

    @property
    def uri(self) -> str:
        """Its path or URL, as Spark and Delta's library take it."""

    @property
    def filesystem(self) -> fs.FileSystem:
        """The file system that reads its files, which `path` names."""

    @property
    def options(self) -> Mapping[str, str]:
        """The options that Delta's library needs to reach it."""

    def __truediv__(self, inside: str) -> Folder:
        """A folder in it."""

    def path(self, inside: str) -> str:
        """A file in it, as its file system names it."""

    def answering(self) -> AbstractContextManager[None]:
        """For uses of `filesystem`: errors of the disk or the object store become a TableError.

        A FileNotFoundError for a file stays as it is.
        """

    def make(self) -> None:
        """Makes it, if folders exist without files in this file system."""

    def names(self) -> list[str]:
        """The names of the files and folders directly in it, in order."""

    def files(self) -> dict[str, Found]:
        """All files in it and below, in order of path."""

    def entries(self) -> dict[str, Found]:
        """The files and folders directly in it, in order of name, each with everything in it."""

    def missing(self, paths: Iterable[str]) -> list[str]:
        """Which of these files do not exist."""

    def read(self, inside: str) -> bytes:
        """A file's content.

        Raises:
            FileNotFoundError: there is no such file.
        """

    def write(self, inside: str, content: bytes) -> None:
        """Writes a file, whole or not at all, and safe from a loss of power."""

    def move(self, moves: Mapping[str, str]) -> None:
        """Moves files, which then count as written now, to other paths in this folder.

        In an object store they are copied: the caller deletes the folder that they were in.
        """

    def delete(self, paths: Iterable[str]) -> None:
        """Deletes those of the files that exist."""

    def delete_all(self) -> None:
        """Deletes it with everything in it, or a file of its name, if there is one."""


def together(inside: Iterable[Found]) -> Found:
    """Several entries as one."""
    entries = list(inside)
    return Found(sum(entry.size for entry in entries), max(entry.modified for entry in entries))

"""What runs need of a folder, wherever it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import pyarrow.fs as fs


@dataclass(frozen=True)
class Found:
    """A file, or a folder with all that is in it.

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
        """Its path or URL, as Spark and Delta's library have it."""

    @property
    def filesystem(self) -> fs.FileSystem:
        """What reads its files; they are named by `path`."""

    @property
    def options(self) -> Mapping[str, str]:
        """What Delta's library has to be told to reach it."""

    def __truediv__(self, inside: str) -> Folder:
        """A folder in it."""

    def path(self, inside: str) -> str:
        """A file in it, as its file system names it."""

    def answering(self) -> AbstractContextManager[None]:
        """Where `filesystem` is used: what the disk or the object store refuses is a TableError.

        That a file does not exist stays a FileNotFoundError.
        """

    def make(self) -> None:
        """Makes it, where folders exist by themselves."""

    def names(self) -> list[str]:
        """Of the files and folders directly in it, in order."""

    def files(self) -> dict[str, Found]:
        """All files in it and below, in order of path."""

    def entries(self) -> dict[str, Found]:
        """What is directly in it, in order of name, each with all that is in it."""

    def missing(self, paths: Iterable[str]) -> list[str]:
        """Those of these files that do not exist."""

    def read(self, inside: str) -> bytes:
        """A file's content.

        Raises:
            FileNotFoundError: there is no such file.
        """

    def write(self, inside: str, content: bytes) -> None:
        """Writes a file, whole or not at all, and safe from a loss of power."""

    def move(self, moves: Mapping[str, str]) -> None:
        """Puts files, which count as written now, at other paths in this folder.

        In an object store they are copied: the caller deletes the folder that they were in.
        """

    def delete(self, paths: Iterable[str]) -> None:
        """Deletes files, as far as they exist."""

    def delete_all(self) -> None:
        """Deletes it with all that is in it, or the file of its name, if it exists."""


def together(inside: Iterable[Found]) -> Found:
    """Several as one."""
    found = list(inside)
    return Found(sum(each.size for each in found), max(each.modified for each in found))

"""Folders in object stores, reached by pyarrow's file systems.

They find the credentials by themselves: in environment variables, profiles, or from the machine
that they run on.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeVar
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.fs as fs

from backfill.errors import TableError
from backfill.folders.at_once import at_once
from backfill.folders.environment import delta_options, endpoint, region
from backfill.folders.protocol import Found, together
from backfill.folders.urls import in_s3
from backfill.printable import first_line, shown

# A request asks about one file, or lists a thousand.
_FEW = 16
_SECONDS = 10

_T = TypeVar("_T")
_R = TypeVar("_R")


@dataclass(frozen=True)
class ObjectFolder:
    """A folder of an object store: the objects whose names begin with its path."""

    uri: str

    def __str__(self) -> str:
        return self.uri

    def __truediv__(self, inside: str) -> ObjectFolder:
        return ObjectFolder(f"{self.uri}/{inside}")

    @cached_property
    def filesystem(self) -> fs.FileSystem:
        """See `Folder`."""
        with self.answering():
            if not in_s3(self.uri):
                return fs.FileSystem.from_uri(self.uri)[0]
            bucket = urlsplit(self.uri).netloc
            return _s3(bucket, region(), endpoint(), os.environ.get("AWS_ACCESS_KEY_ID"))

    @property
    def options(self) -> Mapping[str, str]:
        """See `Folder`."""
        return delta_options()

    def path(self, inside: str) -> str:
        """See `Folder`."""
        parts = urlsplit(self.uri)
        # In abfss://container@account, the account belongs to the file system.
        root = parts.netloc.partition("@")[0] + parts.path
        return f"{root}/{inside}" if inside else root

    def make(self) -> None:
        """See `Folder`: there is nothing to make."""

    def names(self) -> list[str]:
        """See `Folder`."""
        return sorted({path.partition("/")[0] for path in self._listed(recursive=False)})

    def files(self) -> dict[str, Found]:
        """See `Folder`."""
        return {
            path: Found(info.size, info.mtime_ns / 1e9)
            for path, info in sorted(self._listed(recursive=True).items())
            if info.is_file
        }

    def entries(self) -> dict[str, Found]:
        """See `Folder`."""
        by_name: dict[str, list[Found]] = {}
        for path, file in self.files().items():
            by_name.setdefault(path.partition("/")[0], []).append(file)
        return {name: together(inside) for name, inside in by_name.items()}

    def missing(self, paths: Iterable[str]) -> list[str]:
        """See `Folder`."""
        wanted = list(paths)
        if len(wanted) > _FEW:
            there: Collection[str] = self.files()
            return [path for path in wanted if path not in there]
        infos = self._each(lambda path: self.filesystem.get_file_info(self.path(path)), wanted)
        return [path for path, info in zip(wanted, infos, strict=True) if not info.is_file]

    def read(self, inside: str) -> bytes:
        """See `Folder`."""
        with self.answering(), self.filesystem.open_input_file(self.path(inside)) as file:
            content: bytes = file.read()
        return content

    def write(self, inside: str, content: bytes) -> None:
        """See `Folder`: an object is there when all of it has arrived."""
        with self.answering(), self.filesystem.open_output_stream(self.path(inside)) as file:
            file.write(content)

    def move(self, moves: Mapping[str, str]) -> None:
        """See `Folder`."""

        def copy(pair: tuple[str, str]) -> None:
            self.filesystem.copy_file(*map(self.path, pair))

        self._each(copy, moves.items())

    def delete(self, paths: Iterable[str]) -> None:
        """See `Folder`."""

        def delete(path: str) -> None:
            with suppress(FileNotFoundError):
                self.filesystem.delete_file(self.path(path))

        self._each(delete, paths)

    def delete_all(self) -> None:
        """See `Folder`."""
        with self.answering(), suppress(FileNotFoundError):
            if self.filesystem.get_file_info(self.path("")).is_file:
                self.filesystem.delete_file(self.path(""))
            else:
                self.filesystem.delete_dir(self.path(""))

    def _listed(self, *, recursive: bool) -> dict[str, fs.FileInfo]:
        root = self.path("")
        with self.answering():
            infos = self.filesystem.get_file_info(
                fs.FileSelector(root, allow_not_found=True, recursive=recursive)
            )
            if not infos:
                self._check_bucket(root.partition("/")[0])
        return {info.path[len(root) + 1 :]: info for info in infos}

    def _check_bucket(self, name: str) -> None:
        """Tells a missing bucket from an empty folder, as far as we are allowed to ask."""
        try:
            kind = self.filesystem.get_file_info(name).type
        except OSError:
            return
        if kind == fs.FileType.NotFound:
            raise TableError(
                "there is no such bucket or container",
                field=str(self),
                value=name,
                way_out="Check the name, and the account that it belongs to",
            )

    def _each(self, function: Callable[[_T], _R], items: Iterable[_T]) -> list[_R]:
        """The results of one request for each item, many at a time."""
        with self.answering():
            return at_once(function, items)

    @contextmanager
    def answering(self) -> Iterator[None]:
        """See `Folder`."""
        try:
            yield
        except FileNotFoundError:
            raise
        except (OSError, pa.ArrowException) as error:
            raise TableError(
                f"the object store refuses, or does not answer: {shown(first_line(error))}",
                field=str(self),
                way_out="Check its name, the credentials and the network",
            ) from error


@lru_cache(maxsize=8)
def _s3(bucket: str, place: str | None, server: str | None, key: str | None) -> fs.FileSystem:
    """One file system for all folders: each one has its own connections and credentials."""
    if place is None and server is None:
        place = fs.resolve_s3_region(bucket)
    return fs.S3FileSystem(
        region=place,
        endpoint_override=server,
        connect_timeout=_SECONDS,
        # A small file is then written by one request instead of three.
        allow_delayed_open=True,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=5),
    )

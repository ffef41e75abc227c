"""Folders on the local disk and in object stores, and the files in them.

Files are named by their paths inside the folder, with slashes. Object stores are reached by
pyarrow's file systems, with the credentials that each finds by itself: in environment variables,
profiles, or from the machine that it runs on.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Protocol, TypeVar
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.fs as fs

from backfill.errors import TableError
from backfill.printable import first_line, shown

#: The schemes of object stores, as Spark has them.
SCHEMES = ("s3", "s3a", "gs", "abfss")

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
# What a library would take for something else: an escape, a slash, a query or a pattern.
_MISREAD = re.compile(r"%[0-9A-Fa-f]{2}|\\")
_MISREAD_IN_URL = re.compile(r"[%\\#?*\[\]{}\s]")
# Requests that are under way at a time, each of which waits for an answer.
_AT_ONCE = 16
# A request answers for one file, or lists a thousand.
_FEW = 16
_SECONDS = 10

_T = TypeVar("_T")
_R = TypeVar("_R")


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

    def is_within(self, path: str) -> bool:
        """Whether it is the folder at a path or URL, or somewhere in that."""

    def path(self, inside: str) -> str:
        """A file in it, as its file system names it."""

    def answering(self) -> AbstractContextManager[None]:
        """Where `filesystem` is used: what an object store refuses becomes a TableError."""

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


def is_url(path: str) -> bool:
    """Whether the path begins with a scheme, such as `s3://`."""
    return _URL.match(path) is not None


def folder_at(path: str | os.PathLike[str], field: str = "tables.path") -> Folder:
    """A folder, by its path or URL.

    Args:
        path: local, or a URL of an object store.
        field: of the job file, for errors.

    Raises:
        TableError: a URL of something else, or a name that a library would misread.
    """
    text = os.fspath(path)
    if not is_url(text):
        local = Path(text).absolute()
        if _MISREAD.search(str(local)):
            raise TableError(
                "the Delta library cannot open a folder with a backslash, or % and two hexadecimal "
                "digits, in its path",
                field=field,
                value=str(local),
                way_out="Choose another folder.",
            )
        return LocalFolder(local)
    scheme, _, rest = text.partition("://")
    bucket, *inside = rest.rstrip("/").split("/")
    if scheme not in SCHEMES or not bucket:
        raise TableError(
            "must be a local folder, or a URL of an object store",
            field=field,
            value=shown(text),
            way_out=f"Write it like s3://bucket/folder; or with {', '.join(SCHEMES[1:])}",
        )
    check_no_keys(text, field)
    if _MISREAD_IN_URL.search(text) or ":" in bucket or {"", ".", ".."} & set(inside):
        raise TableError(
            "has something that a library would misread: one of % \\ # ? * [ ] { }, a space, "
            "a port, or a part that is empty, . or ..",
            field=field,
            value=text,
            way_out="Choose another folder.",
        )
    return ObjectFolder(f"{scheme}://{'/'.join([bucket, *inside])}")


def check_no_keys(path: str, field: str) -> None:
    """Refuses keys and passwords in a URL of an object store, which would be shown everywhere.

    Raises:
        TableError: there are some.
    """
    scheme, _, rest = path.partition("://")
    before, at, _ = rest.rpartition("@")
    # A container stands before the account.
    if at and scheme in SCHEMES and (scheme != "abfss" or set(before) & set(":/@")):
        raise TableError(
            "has a key or a password in it",
            field=field,
            value=shown(path),
            way_out="Give it in the environment instead, as in AWS_ACCESS_KEY_ID",
        )


@dataclass(frozen=True)
class LocalFolder:
    """A folder on a local or mounted disk."""

    local: Path

    def __fspath__(self) -> str:
        return str(self.local)

    def __str__(self) -> str:
        return str(self.local)

    def __truediv__(self, inside: str) -> LocalFolder:
        return LocalFolder(self.local / inside)

    @property
    def uri(self) -> str:
        """As `Folder` has it."""
        return str(self.local)

    def is_within(self, path: str) -> bool:
        """As `Folder` has it."""
        return Path(path) in (self.local, *self.local.parents)

    @property
    def filesystem(self) -> fs.FileSystem:
        """As `Folder` has it."""
        return fs.LocalFileSystem()

    @property
    def options(self) -> Mapping[str, str]:
        """As `Folder` has it."""
        return {}

    def path(self, inside: str) -> str:
        """As `Folder` has it."""
        return str(self.local / inside)

    def answering(self) -> AbstractContextManager[None]:
        """As `Folder` has it."""
        return nullcontext()

    def make(self) -> None:
        """As `Folder` has it."""
        self.local.mkdir(parents=True, exist_ok=True)

    def names(self) -> list[str]:
        """As `Folder` has it."""
        try:
            return sorted(os.listdir(self.local))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise TableError(
                f"the folder can't be listed: {error.strerror}", field=str(self.local)
            ) from error

    def files(self) -> dict[str, Found]:
        """As `Folder` has it."""
        found = {}
        for folder, _, names in os.walk(self.local, onerror=_fail):
            inside = Path(folder).relative_to(self.local)
            for name in names:
                each = _status(Path(folder, name))
                if each is not None:
                    found[(inside / name).as_posix()] = each
        return dict(sorted(found.items()))

    def entries(self) -> dict[str, Found]:
        """As `Folder` has it."""
        found = {}
        for name in self.names():
            top = self.local / name
            # Folders count as well: a run makes some before its first file.
            inside = [_status(each) for each in (top, *top.rglob("*"))]
            # Of a folder that a run moves or deletes meanwhile something is missing.
            if None not in inside:
                found[name] = _together(each for each in inside if each is not None)
        return found

    def missing(self, paths: Iterable[str]) -> list[str]:
        """As `Folder` has it."""
        return [each for each in paths if not os.path.exists(self.local / each)]

    def read(self, inside: str) -> bytes:
        """As `Folder` has it."""
        return (self.local / inside).read_bytes()

    def write(self, inside: str, content: bytes) -> None:
        """As `Folder` has it."""
        path = self.local / inside
        path.parent.mkdir(parents=True, exist_ok=True)
        # Hidden, and of this process alone.
        unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        with unfinished.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
        for parent in (path.parent, path.parent.parent):
            descriptor = os.open(parent, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def move(self, moves: Mapping[str, str]) -> None:
        """As `Folder` has it."""
        for source, target in moves.items():
            to = self.local / target
            to.parent.mkdir(parents=True, exist_ok=True)
            os.utime(self.local / source)
            (self.local / source).rename(to)

    def delete(self, paths: Iterable[str]) -> None:
        """As `Folder` has it."""
        for each in paths:
            (self.local / each).unlink(missing_ok=True)

    def delete_all(self) -> None:
        """As `Folder` has it."""
        if self.local.is_dir() and not self.local.is_symlink():
            # Another process may delete the same.
            shutil.rmtree(self.local, onerror=lambda function, path, error: _fail(error[1]))
        else:
            self.local.unlink(missing_ok=True)


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
        """As `Folder` has it."""
        scheme, bucket = urlsplit(self.uri)[:2]
        with self.answering():
            if scheme not in ("s3", "s3a"):
                return fs.FileSystem.from_uri(self.uri)[0]
            region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
            return _s3(bucket, region, endpoint(), os.environ.get("AWS_ACCESS_KEY_ID"))

    @property
    def options(self) -> Mapping[str, str]:
        """As `Folder` has it."""
        return delta_options()

    def path(self, inside: str) -> str:
        """As `Folder` has it."""
        parts = urlsplit(self.uri)
        # Of abfss://container@account, the account is the file system's.
        root = parts.netloc.partition("@")[0] + parts.path
        return f"{root}/{inside}" if inside else root

    def is_within(self, path: str) -> bool:
        """As `Folder` has it."""
        # One store has several schemes.
        own, other = (re.sub("^s3[an]:", "s3:", each).rstrip("/") for each in (self.uri, path))
        return f"{own}/".startswith(f"{other}/")

    def make(self) -> None:
        """As `Folder` has it: there is nothing to make."""

    def names(self) -> list[str]:
        """As `Folder` has it."""
        return sorted({path.partition("/")[0] for path in self._listed(recursive=False)})

    def files(self) -> dict[str, Found]:
        """As `Folder` has it."""
        return {
            path: Found(each.size, each.mtime_ns / 1e9)
            for path, each in sorted(self._listed(recursive=True).items())
            if each.is_file
        }

    def entries(self) -> dict[str, Found]:
        """As `Folder` has it."""
        found: dict[str, list[Found]] = {}
        for path, each in self.files().items():
            found.setdefault(path.partition("/")[0], []).append(each)
        return {name: _together(inside) for name, inside in found.items()}

    def missing(self, paths: Iterable[str]) -> list[str]:
        """As `Folder` has it."""
        wanted = list(paths)
        if len(wanted) > _FEW:
            there: Collection[str] = self.files()
            return [each for each in wanted if each not in there]
        found = self._each(lambda path: self.filesystem.get_file_info(self.path(path)), wanted)
        return [path for path, each in zip(wanted, found, strict=True) if not each.is_file]

    def read(self, inside: str) -> bytes:
        """As `Folder` has it."""
        with self.answering(), self.filesystem.open_input_file(self.path(inside)) as file:
            content: bytes = file.read()
        return content

    def write(self, inside: str, content: bytes) -> None:
        """As `Folder` has it: an object is there when all of it has arrived."""
        with self.answering(), self.filesystem.open_output_stream(self.path(inside)) as file:
            file.write(content)

    def move(self, moves: Mapping[str, str]) -> None:
        """As `Folder` has it."""

        def copy(pair: tuple[str, str]) -> None:
            self.filesystem.copy_file(*map(self.path, pair))

        self._each(copy, moves.items())

    def delete(self, paths: Iterable[str]) -> None:
        """As `Folder` has it."""

        def delete(path: str) -> None:
            with suppress(FileNotFoundError):
                self.filesystem.delete_file(self.path(path))

        self._each(delete, paths)

    def delete_all(self) -> None:
        """As `Folder` has it."""
        with self.answering(), suppress(FileNotFoundError):
            if self.filesystem.get_file_info(self.path("")).is_file:
                self.filesystem.delete_file(self.path(""))
            else:
                self.filesystem.delete_dir(self.path(""))

    def _listed(self, *, recursive: bool) -> dict[str, fs.FileInfo]:
        root = self.path("")
        with self.answering():
            found = self.filesystem.get_file_info(
                fs.FileSelector(root, allow_not_found=True, recursive=recursive)
            )
            if not found:
                self._check_bucket(root.partition("/")[0])
        return {each.path[len(root) + 1 :]: each for each in found}

    def _check_bucket(self, name: str) -> None:
        """Tells a bucket that does not exist from an empty folder, as far as one may ask."""
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
        """What a request says about each, many at a time."""
        with self.answering(), ThreadPoolExecutor(_AT_ONCE) as pool:
            return list(pool.map(function, items))

    @contextmanager
    def answering(self) -> Iterator[None]:
        """As `Folder` has it."""
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
def _s3(bucket: str, region: str | None, server: str | None, key: str | None) -> fs.FileSystem:
    """One for all folders: each has connections and credentials of its own."""
    if region is None and server is None:
        region = fs.resolve_s3_region(bucket)
    return fs.S3FileSystem(
        region=region,
        endpoint_override=server,
        connect_timeout=_SECONDS,
        # One request writes a small file, where three would otherwise.
        allow_delayed_open=True,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=5),
    )


def delta_options() -> dict[str, str]:
    """What Delta's library has to be told to reach an object store."""
    server = endpoint()
    if server is None:
        return {}
    # For another server than Amazon's it takes only keys from the environment by itself.
    found = {} if "AWS_ACCESS_KEY_ID" in os.environ else {"AWS_FORCE_CREDENTIAL_LOAD": "true"}
    return {**found, "allow_http": "true"} if server.startswith("http://") else found


def endpoint() -> str | None:
    """Of a server that speaks S3 and is not Amazon's, as Amazon's own libraries find it."""
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")


def _fail(error: BaseException) -> None:
    """What is not listed would count as not there; only what has gone meanwhile is not."""
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise error


def _status(path: Path) -> Found | None:
    """None where it has just gone."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    return Found(0 if path.is_dir() else status.st_size, status.st_mtime)


def _together(inside: Iterable[Found]) -> Found:
    found = list(inside)
    return Found(sum(each.size for each in found), max(each.modified for each in found))

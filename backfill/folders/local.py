"""Folders on the local disk."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow.fs as fs

from backfill.errors import TableError
from backfill.folders.protocol import Found, together
from backfill.printable import first_line, shown


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
        """See `Folder`."""
        return str(self.local)

    @property
    def filesystem(self) -> fs.FileSystem:
        """See `Folder`."""
        return fs.LocalFileSystem()

    @property
    def options(self) -> Mapping[str, str]:
        """See `Folder`."""
        return {}

    def path(self, inside: str) -> str:
        """See `Folder`."""
        return str(self.local / inside)

    @contextmanager
    def answering(self) -> Iterator[None]:
        """See `Folder`."""
        try:
            yield
        except FileNotFoundError:
            raise
        except OSError as error:
            raise TableError(
                f"can't be read or written: {error.strerror or first_line(error)}",
                field=shown(str(error.filename or self)),
                way_out="Check its permissions, and the space on the disk",
            ) from error

    def make(self) -> None:
        """See `Folder`."""
        with self.answering():
            try:
                self.local.mkdir(parents=True, exist_ok=True)
            except FileNotFoundError as error:
                # Some file systems, such as /proc, raise this for what can't be made there.
                raise TableError("can't be made", field=shown(str(self))) from error

    def names(self) -> list[str]:
        """See `Folder`."""
        with self.answering():
            try:
                return sorted(os.listdir(self.local))
            except (FileNotFoundError, NotADirectoryError):
                return []

    def files(self) -> dict[str, Found]:
        """See `Folder`."""
        by_path = {}
        with self.answering():
            for folder, _, names in os.walk(self.local, onerror=_fail):
                inside = Path(folder).relative_to(self.local)
                for name in names:
                    file = _status(Path(folder, name))
                    if file is not None:
                        by_path[(inside / name).as_posix()] = file
        return dict(sorted(by_path.items()))

    def entries(self) -> dict[str, Found]:
        """See `Folder`."""
        by_name = {}
        for name in self.names():
            top = self.local / name
            # Folders count as well: a run makes some before its first file.
            inside = [_status(place) for place in (top, *top.rglob("*"))]
            # If a run moves or deletes the folder meanwhile, something in it is missing.
            if None not in inside:
                by_name[name] = together(entry for entry in inside if entry is not None)
        return by_name

    def missing(self, paths: Iterable[str]) -> list[str]:
        """See `Folder`."""
        with self.answering():
            return [path for path in paths if _status(self.local / path) is None]

    def read(self, inside: str) -> bytes:
        """See `Folder`."""
        with self.answering():
            return (self.local / inside).read_bytes()

    def write(self, inside: str, content: bytes) -> None:
        """See `Folder`."""
        with self.answering():
            path = self.local / inside
            path.parent.mkdir(parents=True, exist_ok=True)
            # A hidden name that only this process uses.
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
        """See `Folder`."""
        with self.answering():
            for source, target in moves.items():
                to = self.local / target
                to.parent.mkdir(parents=True, exist_ok=True)
                os.utime(self.local / source)
                (self.local / source).rename(to)

    def delete(self, paths: Iterable[str]) -> None:
        """See `Folder`."""
        with self.answering():
            for path in paths:
                (self.local / path).unlink(missing_ok=True)

    def delete_all(self) -> None:
        """See `Folder`."""
        with self.answering():
            if self.local.is_dir() and not self.local.is_symlink():
                # Another process may delete the same.
                shutil.rmtree(self.local, onerror=lambda function, path, error: _fail(error[1]))
            else:
                self.local.unlink(missing_ok=True)


def _fail(error: BaseException) -> None:
    """Anything unlisted would count as absent, so only what has just gone may be left out."""
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise error


def _status(path: Path) -> Found | None:
    """None if the file has just gone."""
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return Found(0 if path.is_dir() else status.st_size, status.st_mtime)

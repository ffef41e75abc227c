"""Which files a source consists of: its own, and those of late events given one by one."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from backfill.errors import SourceError
from backfill.events.files import base_path, list_files, local_path
from backfill.events.model import InputFile, SourceOptions
from backfill.folders import same_scheme
from backfill.printable import shown
from backfill.runtimes.folder_columns import folder_values


@dataclass(frozen=True)
class Listing:
    """Files that Spark can read in one scan, since their folders have the same form.

    Attributes:
        base: the folder below which names of folders such as `date=2026-01-01` are columns;
            meaningless without partitions.
        columns: the names of these columns, outermost first; () for access logs.
        files: in order of path.
    """

    base: str
    columns: tuple[str, ...]
    files: tuple[InputFile, ...]


def list_source(
    spark: SparkSession, source: SourceOptions, late: Sequence[str]
) -> tuple[Listing, ...]:
    """The source's own files first, then those of late events that are not among them.

    A late path may be a file or a folder below folders that the source has columns from: in
    `late/date=2026-01-01/x.parquet` the date is read as in the source.

    Raises:
        SourceError: a path is missing or empty, or its folders do not fit.
    """
    files = list_files(spark, source.path)
    own = _listing(source, _base(source.path, files), files)
    identities = {_identity(file.path) for file in files} if late else set()
    further: dict[tuple[str, tuple[str, ...]], list[InputFile]] = {}
    for path in late:
        local = local_path(path)
        path = path if local is None else os.path.abspath(local)
        files = tuple(f for f in _late_files(spark, path) if _identity(f.path) not in identities)
        if not files:
            continue
        identities.update(_identity(file.path) for file in files)
        listing = _listing(source, _lifted(_base(path, files), own.columns), files)
        if source.date_column in set(own.columns) - set(listing.columns):
            raise SourceError(
                f"late events of this source must be in folders of {source.date_column} too",
                field="late",
                value=shown(path),
                way_out=f"Write them to {source.date_column}=2026-01-31, for example",
            )
        # All files without such folders are one scan, wherever they lie.
        form = (listing.base, listing.columns) if listing.columns else ("", ())
        further.setdefault(form, []).extend(files)
    late_files = (
        Listing(base, columns, tuple(sorted(group, key=lambda file: file.path)))
        for (base, columns), group in further.items()
    )
    return (own, *late_files)


def _listing(source: SourceOptions, base: str, files: tuple[InputFile, ...]) -> Listing:
    if source.format == "access_log":
        return Listing(base, (), files)
    forms = {tuple(folder_values(file.path, base)): file.path for file in files}
    if len(forms) > 1:
        # Spark would read the files in folders of one form, and skip the others.
        first, second, *_ = forms.values()
        raise SourceError(
            "folders such as date=2026-01-01 differ in name or depth from those of "
            f"{shown(second)}",
            field=shown(first),
            way_out="Point to a folder whose subfolders all have the same form",
        )
    return Listing(base, next(iter(forms)), files)


def _late_files(spark: SparkSession, path: str) -> tuple[InputFile, ...]:
    try:
        return list_files(spark, path)
    except SourceError as error:
        raise SourceError(
            f"{error.problem}, where late events should be",
            field="late",
            value=shown(path),
            way_out=error.way_out
            or "Check the path. Events that were given before must stay where they were; if "
            "they are gone for good, put a file of that format without events in their place, and "
            "run their dates",
        ) from error


def _base(path: str, files: tuple[InputFile, ...]) -> str:
    base = base_path(path)
    # On another file system, only now is it known whether the path is that of a file.
    return posixpath.dirname(base) if base == files[0].path else base


def _lifted(base: str, columns: tuple[str, ...]) -> str:
    """The folder above those that the source has columns from."""
    while posixpath.basename(base).partition("=")[0] in columns:
        base = posixpath.dirname(base)
    return base


def _identity(path: str) -> str:
    """A text that is equal for two paths of the same file."""
    if local_path(path) is None:
        return same_scheme(path)
    return os.path.realpath(path)

"""The files of a source: listed once, so that a source that grows does not change a run."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator
from urllib.parse import unquote, urlsplit

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from backfill.errors import SourceError
from backfill.events.failures import translate
from backfill.events.model import InputFile
from backfill.printable import shown

_GLOB = re.compile(r"[*?\[{]")


def list_files(spark: SparkSession, path: str) -> tuple[InputFile, ...]:
    """Every file at a path, in order of path.

    Files and folders whose names begin with `_` or `.` are skipped, as in Spark, except folders
    such as `_day=3`.

    Args:
        spark: the session, which lists what is not on the local disk.
        path: a file, a folder (read with all below it) or a glob (`*`, `?`, `[...]`).

    Raises:
        SourceError: nothing is there, or there is nothing in it.
    """
    local = local_path(path)
    files = _listed_by_spark(spark, path) if local is None else _listed(local, path)
    if not files:
        raise SourceError("there are no files here", field="source.path", value=shown(path))
    if not any(file.size for file in files):
        raise SourceError("every file here is empty", field="source.path", value=shown(path))
    return files


def base_path(path: str) -> str:
    """The folder below which folder names such as `date=2026-01-01` are columns."""
    local = local_path(path)
    path = path if local is None else local
    parts = path.split("/")
    fixed = next((i for i, part in enumerate(parts) if _GLOB.search(part)), None)
    if fixed is not None and not (local is not None and os.path.exists(local)):
        return "/".join(parts[:fixed]) or "/"
    if local is not None and os.path.isfile(local):
        return os.path.dirname(local)
    return path


def for_spark(files: tuple[InputFile, ...]) -> list[str]:
    """The paths as Spark's readers want them: characters of globs in a name are escaped."""
    return [re.sub(r"([\[{*?\\])", r"\\\1", file.path) for file in files]


def local_path(path: str) -> str | None:
    """The path on the local disk, or None if another file system is named."""
    if path.startswith("file:"):
        return unquote(urlsplit(path).path)
    return None if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", path) else path


def place() -> Column:
    """The path of the file that a row comes from, written as in InputFile.

    Use it only directly above a scan. (`_metadata.file_path` says the same, but stays in the plan
    of a query that does not use it.)
    """
    # In the path of a URL a plus sign is a plus sign, but url_decode would make it a space.
    decoded = F.url_decode(F.replace(F.input_file_name(), F.lit("+"), F.lit("%2B")))
    return F.regexp_replace(decoded, "^file:/+", "/")


def _listed(local: str, path: str) -> tuple[InputFile, ...]:
    if os.path.exists(local):
        if os.path.isfile(local) and _hidden(os.path.basename(local)):
            raise SourceError(
                "has the name of a hidden file, which Spark does not read",
                field="source.path",
                value=shown(path),
                way_out="Rename it: names that begin with . or _, or end in ._COPYING_, are hidden",
            )
        roots = [local]
    else:
        roots = sorted(r for r in glob.glob(local) if not _hidden(os.path.basename(r)))
    if not roots:
        raise SourceError("nothing is there", field="source.path", value=shown(path))
    try:
        stats = {name: os.stat(name) for root in roots for name in _walk(root)}
    except OSError as error:
        raise SourceError(
            f"cannot be listed: {error.strerror}", field="source.path", value=shown(path)
        ) from error
    return tuple(
        InputFile(name, stat.st_size, stat.st_mtime_ns // 1_000_000)
        for name, stat in sorted(stats.items())
    )


def _walk(root: str) -> Iterator[str]:
    if os.path.isfile(root):
        yield root
        return

    def fail(error: OSError) -> None:
        raise error

    for folder, folders, names in os.walk(root, onerror=fail, followlinks=True):
        folders[:] = [name for name in folders if not _hidden(name)]
        yield from (os.path.join(folder, name) for name in names if not _hidden(name))


def _hidden(name: str) -> bool:
    # Files that Hadoop's copy command has not finished have this ending.
    hidden = name.startswith("_") and "=" not in name
    return hidden or name.startswith(".") or name.endswith("._COPYING_")


def _listed_by_spark(spark: SparkSession, path: str) -> tuple[InputFile, ...]:
    try:
        # The binary reader lists any file system and, without the content, opens nothing.
        listing = spark.read.format("binaryFile").load(path)
        modified = F.unix_millis("modificationTime").alias("modified")
        rows = listing.select("path", "length", modified).collect()
    except Exception as error:  # of Spark, of Hadoop or of Py4J: each file system has its own
        detail = re.search(r"(\w+(?:Exception|Error): [^\n]*)(?!.*\w+Exception: )", str(error))
        raise translate(error) or SourceError(
            f"cannot be listed{': ' + shown(detail.group(1)) if detail else ''}",
            field="source.path",
            value=shown(path),
        ) from error
    return tuple(sorted((InputFile(*row) for row in rows), key=lambda file: file.path))

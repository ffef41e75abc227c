"""Runs, and the versions of the tables that they published."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from backfill.errors import JobFileError, TableError, did_you_mean
from backfill.ledger.changes import changes
from backfill.ledger.state import QUARANTINE
from backfill.spec import JobSpec
from backfill.store import Commit, Store, Table
from backfill.windows import key_of

#: The kind of a commit that only rearranges rows.
COMPACT = "compact"

_TEXTS = ("kind", "user", "from", "to", "chunk_of", "published_anyway")
_COUNTS = ("read", "late", "accepted", "duplicates", "quarantined")
_TABLE_COUNTS = ("rows", "changed")
_DROPPED = ("dropped_sessions", "dropped_events")


@dataclass(frozen=True)
class RestoredTable:
    """A table that was restored.

    Attributes:
        restored: the version whose content was restored.
        version: its newest version now.
    """

    restored: int
    version: int


@dataclass(frozen=True)
class Restored:
    """The result of a restore.

    Attributes:
        run_id: the run id of the restore.
        tables: the restored tables.
        untouched: tables in which the run published nothing; they are unchanged.
        forgotten: paths of late events that were added since; they are no longer inputs of the job.
    """

    run_id: str
    tables: Mapping[str, RestoredTable]
    untouched: tuple[str, ...]
    forgotten: tuple[str, ...] = ()


def runs(store: Store, names: Iterable[str]) -> list[dict[str, Any]]:
    """The runs that published something, newest first.

    Args:
        store: the job's tables.
        names: the tables to look at.

    Returns:
        As `Job.history` returns them.
    """
    by_id: dict[str, dict[str, Any]] = {}
    for name in names:
        table = store.open(name)
        for commit in () if table is None else table.commits:
            metadata = commit.metadata
            if "run_id" not in metadata:
                continue
            unknown = {"run_id": metadata["run_id"], "time": commit.timestamp}
            unknown |= dict.fromkeys((*_TEXTS, *_COUNTS)) | {"tables": {}}
            run = by_id.setdefault(metadata["run_id"], unknown)
            run["time"] = max(run["time"], commit.timestamp)
            run |= {key: metadata[key] for key in _TEXTS if key in metadata}
            run |= _numbers(metadata, _COUNTS)
            counts = dict.fromkeys(_TABLE_COUNTS) | _numbers(metadata, _TABLE_COUNTS)
            counts |= _numbers(metadata, _DROPPED)
            run["tables"].setdefault(name, {"version": commit.version, **counts})
    return sorted(by_id.values(), key=lambda run: run["time"], reverse=True)


def changes_since(
    spark: SparkSession, store: Store, spec: JobSpec, name: str, run: str | None = None
) -> DataFrame:
    """What became of each window, from before a run published until now.

    Only files are read that the table had before the run or has now, but not both.

    Args:
        spark: the session.
        store: the job's tables.
        spec: the job.
        name: the window.
        run: a run, or the common id of a run in chunks; by default the last that published.

    Returns:
        As `changes` gives it. Every row is inserted if the run was the first.

    Raises:
        JobFileError: no such window or run.
        TableError: nothing is published yet, or what was there before the run can't be read.
        ColumnError: the table's key or kind of window has changed.
    """
    if name not in spec.windows:
        way_out = did_you_mean(name, spec.windows)
        raise JobFileError(
            "the job has no such window", field="window", value=name, way_out=way_out
        )
    table = store.open(name)
    if table is None:
        way_out = f"Run: backfill run {spec.path}"
        raise TableError("nothing is published yet", field=name, way_out=way_out)
    run = _last_run(table.commits, name) if run is None else run
    first = _first_version(store, spec, table, run)
    earlier = [commit.version for commit in table.commits if commit.version < first]
    if _have_expired(table.commits) and (not earlier or _lacks_chunks(table.commits, first, run)):
        raise TableError(
            "what was there before the run is not known any more: the version has expired",
            field=name,
            value=first,
            way_out="Name a run that came later; see: backfill history",
        )
    before = store.open(name, max(earlier)) if earlier else None
    window = spec.windows[name].window
    now = {file.path for file in table.files}
    then = set() if before is None else {file.path for file in before.files}
    new = table.read(spark, sorted(now - then))
    old = new.where(F.lit(False)) if before is None else before.read(spark, sorted(then - now))
    return changes(
        old,
        new,
        key=key_of(window, spec.key),
        window=window,
        rules=spec.engine.rules_for(window),
        id=spec.id,
    )


def restore(
    store: Store, names: Iterable[str], run: str, *, run_id: str, metadata: Mapping[str, str]
) -> Restored:
    """Restores each table to the version that a run published in it.

    The record of counted inputs is restored too. A table already at this version stays as it is.

    Args:
        store: the job's tables.
        names: the tables.
        run: a run, or the common id of a run in chunks, which means what its last chunk published.
        run_id: the run id of the restore.
        metadata: stored with each commit.

    Raises:
        JobFileError: no such run.
        TableError: what the run published in one of the tables has expired, or files of it are
            gone; then nothing is restored. Or another run published meanwhile; the error says
            which tables were restored before.
    """
    opened = {name: store.open(name) for name in names}
    histories = {name: () if table is None else table.commits for name, table in opened.items()}
    targets = {
        name: next((commit for commit in history if run in _ids(commit)), None)
        for name, history in histories.items()
    }
    if not any(targets.values()):
        raise _unknown(run, histories.values())
    commits = {name: target for name, target in targets.items() if target is not None}
    untouched = tuple(name for name in targets if name not in commits)
    _check_whole(histories, commits, run)
    for name, target in commits.items():
        store.check_restorable(name, target.version)
    now = {name: table.version for name, table in opened.items() if table is not None}
    committed = [name for name, target in commits.items() if target.version != now[name]]
    metadata = {**metadata, "tables": json.dumps(committed)}
    restored: dict[str, RestoredTable] = {}
    for name, target in commits.items():
        try:
            version = store.restore(name, target.version, run_id=run_id, metadata=metadata)
        except TableError as error:
            done = ", ".join(restored) or "nothing"
            raise error.after(f"Restored so far: {done}") from error
        restored[name] = RestoredTable(target.version, version)
    return Restored(run_id, restored, untouched)


def _check_whole(
    histories: Mapping[str, Sequence[Commit]], found: Mapping[str, Commit], run: str
) -> None:
    """Refuses a run if a table has lost what the run published there.

    Each commit names the tables in which its run published. For a run in chunks, the last chunk in
    each table counts.
    """
    held = {
        name: {commit.metadata.get("run_id") for commit in history}
        for name, history in histories.items()
    }
    for commit in chain.from_iterable(histories.values()):
        if run not in _ids(commit):
            continue
        for name in json.loads(commit.metadata.get("tables", "[]")):
            if name not in held or commit.metadata["run_id"] in held[name]:
                continue
            if name not in found or found[name].timestamp < commit.timestamp:
                raise TableError(
                    "what the run published here is not in the table's history: it has expired, "
                    "the table was rolled back, or the run was killed before it published here",
                    field=name,
                    value=run,
                    way_out="Nothing was restored. Restore another run; see: backfill history",
                )


def _lacks_chunks(history: Sequence[Commit], first: int, run: str) -> bool:
    """Whether chunks of a run that came before the first one still there may have expired."""
    chunk = next((commit.metadata for commit in history if commit.version == first), {})
    return chunk.get("chunk_of") == run and int(chunk.get("chunk", "1")) > 1


def _have_expired(history: Sequence[Commit]) -> bool:
    return bool(history) and history[-1].version > 0


def _last_run(history: Sequence[Commit], name: str) -> str:
    """The last run that published, or the common id of its chunks."""
    last = next((commit for commit in history if _is_run(commit)), None)
    if last is None:
        still = " that is still known" if _have_expired(history) else ""
        raise TableError(f"no run{still} has published to this table", field=name)
    return last.metadata.get("chunk_of", last.metadata["run_id"])


def _first_version(store: Store, spec: JobSpec, table: Table, run: str) -> int:
    """The first version that a run published, or that came after it.

    A run publishes nothing in a table that the job did not have at that time.
    """
    versions = [commit.version for commit in table.commits if run in _ids(commit)]
    if versions:
        return int(min(versions))
    tables = [store.open(name) for name in (*spec.windows, QUARANTINE)]
    histories = [one.commits for one in tables if one is not None]
    times = [commit.timestamp for commit in chain(*histories) if run in _ids(commit)]
    if not times:
        raise _unknown(run, histories)
    later = [commit.version for commit in table.commits if commit.timestamp >= min(times)]
    return int(min(later, default=table.version + 1))


def _is_run(commit: Commit) -> bool:
    metadata = commit.metadata
    return "run_id" in metadata and metadata.get("kind") != COMPACT


def _ids(commit: Commit) -> set[str]:
    metadata = commit.metadata
    return {metadata[key] for key in ("run_id", "chunk_of") if key in metadata}


def _unknown(run: str, histories: Iterable[Sequence[Commit]]) -> JobFileError:
    histories = list(histories)
    problem = "no run with this id has published to these tables"
    if any(map(_have_expired, histories)):
        # A run with a similar id is not the one that was meant.
        problem, way_out = f"{problem}, or its versions have expired", "See: backfill history"
    else:
        known = {run_id for history in histories for commit in history for run_id in _ids(commit)}
        way_out = did_you_mean(run, known) if known else "Nothing has been published yet"
    return JobFileError(problem, field="run", value=run, way_out=way_out)


def _numbers(metadata: Mapping[str, str], names: Iterable[str]) -> dict[str, int]:
    return {name: int(metadata[name]) for name in names if name in metadata}

"""Making staged files visible: one commit that adds and removes files."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from backfill.errors import TableError
from backfill.store.files.conflict import check_conflict, closure_text
from backfill.store.files.log import (
    CLOSURE,
    RECORD,
    RUN_ID,
    CommitFailedError,
    Log,
    Version,
    newest,
)
from backfill.store.files.staging import StagedFiles, move_files
from backfill.store.protocol import Dates, Replace

# How often a commit without a conflict is tried again after others have committed.
_ATTEMPTS = 20


def commit_files(
    log: Log,
    staged: StagedFiles,
    replace: Replace,
    *,
    base: int | None,
    dates: Dates,
    metadata: Mapping[str, str],
    record: Callable[[int], str],
    data_change: bool = True,
) -> int:
    """Commits staged files to the table; see `Store.publish`.

    Args:
        log: the table's log.
        staged: the files to add.
        replace: the files to remove.
        base: the version that the run began from; None if there was no table.
        dates: the dates that the run replaces.
        metadata: kept with the commit.
        record: given the version below the commit (-1 for none), the run whose
            record the commit names; called for every attempt.
        data_change: whether the table's rows change.

    Returns:
        The version that the commit made.

    Raises:
        TableError: another run came between, or the files do not fit the table.
    """
    if replace == "all":
        dates = None
    seen = -1 if base is None else base
    for _ in range(_ATTEMPTS):
        table = log.open()
        version = -1 if table is None else table.number
        landed = _check_others(log, staged, replace, dates, after=seen, newest=version)
        if landed is not None:
            return landed
        seen = version
        _check(table, staged, replace)
        move_files(staged, log.folder)
        try:
            made = log.write(
                table,
                staged,
                None if replace == "all" else replace,
                commit_metadata(staged.run_id, dates, record(version), metadata),
                data_change=data_change,
            )
        except CommitFailedError as error:
            # The newest version may be another run's, or this run's own if only the library's work
            # after the commit has failed: the log shows which.
            if newest(log) == version:
                raise TableError(f"the commit failed: {error}", field=staged.name) from error
            continue
        if made is not None:
            return made
    raise TableError(
        f"other runs committed first {_ATTEMPTS} times in a row",
        field=staged.name,
        way_out="Run again when they are done.",
    )


def commit_metadata(
    run_id: str, dates: Dates, record: str, metadata: Mapping[str, str]
) -> dict[str, str]:
    """What a commit says about its run.

    Args:
        run_id: the run.
        dates: the dates that it replaces.
        record: the run whose record the version carries; empty for none.
        metadata: further entries.
    """
    return {**metadata, RUN_ID: run_id, CLOSURE: closure_text(dates), RECORD: record}


def _check_others(
    log: Log, staged: StagedFiles, replace: Replace, dates: Dates, *, after: int, newest: int
) -> int | None:
    """Refuses to go on top of commits that contradict this one.

    Returns:
        The version that this run has already made, if any.
    """
    if newest < after:
        raise TableError(
            f"the table is at version {newest}, but was at version {after} before: "
            "another table has replaced it",
            field=staged.name,
            way_out="Run again.",
        )
    for version in log.since(after):
        commit, changes = log.commit(version), log.changes(version)
        if commit.metadata.get(RUN_ID) != staged.run_id:
            check_conflict(staged.name, commit, changes, dates, replace)
        elif changes.added == {file.path for file in staged.files}:
            return version
        else:
            raise TableError(
                f"the run has published other files in version {version}",
                field=f"{staged.name}, run {staged.run_id}",
                way_out="Use a new run id.",
            )
    return None


def _check(table: Version | None, staged: StagedFiles, replace: Replace) -> None:
    """Refuses files that cannot be committed on top of this version."""
    if table is not None:
        check_partitions(table.partition_by, staged)
    if replace == "all":
        return
    live: Mapping[str, int] = {} if table is None else table.live
    gone = [path for path in replace if path not in live]
    if gone:
        raise TableError(
            "a file to replace is no longer in the table",
            field=staged.name,
            value=gone[0],
            way_out="Run again.",
        )
    if table is not None and table.schema != staged.schema:
        raise TableError(
            "the columns or types of the new files do not match the table's",
            field=staged.name,
            way_out="Run the whole backfill again.",
        )


def check_partitions(partition_by: tuple[str, ...], staged: StagedFiles) -> None:
    """Raises TableError if files are partitioned by other columns than the table."""
    if partition_by != staged.partition_by:
        raise TableError(
            f"the table is partitioned by other columns: {', '.join(partition_by) or 'none'}",
            field=staged.name,
            value=staged.partition_by,
            way_out="Move the table away or drop it, or publish elsewhere.",
        )

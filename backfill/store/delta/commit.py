"""Making staged files visible: one Delta commit that adds and removes files."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from deltalake import CommitProperties, DeltaTable, Schema, TableFeatures
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions

from backfill.errors import TableError
from backfill.store.delta.conflict import check_conflict, closure_text
from backfill.store.delta.entries import (
    CLOSURE,
    METADATA,
    RECORD,
    RUN_ID,
    read_changes,
    read_commit,
    versions,
)
from backfill.store.delta.log import first_line, live_files, open_table, partition_values
from backfill.store.delta.staging import StagedFiles, move_files
from backfill.store.protocol import Dates, Replace

# Versions stay readable until the user lets them expire.
_CONFIGURATION = {"delta.enableExpiredLogCleanup": "false"}
# How often a commit without a conflict is tried again after others have committed.
_ATTEMPTS = 20


def commit_files(
    folder: Path,
    staged: StagedFiles,
    replace: Replace,
    *,
    base: int | None,
    dates: Dates,
    metadata: Mapping[str, str],
    record: Callable[[int], str],
    data_change: bool = True,
) -> int:
    """Commits staged files to the table in the folder; see `Store.publish`.

    Args:
        folder: the table's.
        staged: what to add.
        replace: what to remove.
        base: the version that the run began from; None if there was no table.
        dates: what the run replaces.
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
        table = open_table(folder)
        version = -1 if table is None else table.version()
        landed = _check_others(folder, staged, replace, dates, after=seen, newest=version)
        if landed is not None:
            return landed
        seen = version
        _check(table, staged, replace)
        move_files(staged, folder)
        properties = commit_properties(staged.run_id, dates, record(version), metadata)
        try:
            if table is None:
                _create(folder, staged, properties)
            elif replace == "all":
                if _allow_types(table, staged):
                    continue
                _overwrite(table, staged, properties)
            else:
                _exchange(table, staged, replace, properties, data_change)
            return version + 1
        except (DeltaError, OSError) as error:
            # The version may be another's, or this run's own where only what the library does
            # after a commit has failed: the log shows which it is.
            if max(versions(folder), default=-1) == version:
                raise TableError(
                    f"the commit failed: {first_line(error)}", field=staged.name
                ) from error
    raise TableError(
        f"other runs committed first {_ATTEMPTS} times in a row",
        field=staged.name,
        way_out="Nothing was published. Run again when they are done.",
    )


def commit_properties(
    run_id: str, dates: Dates, record: str, metadata: Mapping[str, str]
) -> CommitProperties:
    """The information that a commit holds about its run.

    Args:
        run_id: the run.
        dates: what it replaces.
        record: the run whose record the version carries; empty for none.
        metadata: what else.
    """
    ours = {RUN_ID: run_id, CLOSURE: closure_text(dates), RECORD: record}
    return CommitProperties(
        custom_metadata={METADATA: {**metadata, **ours}},
        # By its own retries the library would let two first writers of a date both succeed, and
        # two runs that replace everything leave the files of both.
        max_commit_retries=0,
    )


def _check_others(
    folder: Path, staged: StagedFiles, replace: Replace, dates: Dates, *, after: int, newest: int
) -> int | None:
    """Refuses to go on top of commits that contradict this one.

    Returns:
        The version that this run has made already, if it has.
    """
    if newest < after:
        raise TableError(
            f"the table is at version {newest}, but was at version {after} before: "
            "another table has replaced it",
            field=staged.name,
            way_out="Nothing was published. Run again.",
        )
    for version in range(after + 1, newest + 1):
        commit, changes = read_commit(folder, version), read_changes(folder, version)
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


def _check(table: DeltaTable | None, staged: StagedFiles, replace: Replace) -> None:
    """Refuses what cannot be committed to this version."""
    if table is not None and table.metadata().partition_columns != list(staged.partition_by):
        raise TableError(
            "the table is partitioned by other columns: "
            + (", ".join(table.metadata().partition_columns) or "none"),
            field=staged.name,
            value=staged.partition_by,
            way_out="Move its folder away, or publish elsewhere.",
        )
    if replace == "all":
        return
    live = {} if table is None else live_files(table)
    gone = [path for path in replace if path not in live]
    if gone:
        raise TableError(
            "a file to replace is no longer in the table",
            field=staged.name,
            value=gone[0],
            way_out="Nothing was published. Run again.",
        )
    if table is not None and table.schema() != Schema.from_json(staged.schema):
        raise TableError(
            "the columns or types of the new files do not match the table's",
            field=staged.name,
            way_out="Nothing was published. Run the whole backfill again.",
        )


def _allow_types(table: DeltaTable, staged: StagedFiles) -> bool:
    """Lets the table hold timestamps without a zone, where the staged files have some.

    The library would write such a column into a table that must not have one, and the table could
    no longer be read.

    Returns:
        Whether that took a commit of its own, which changes no row.
    """
    features = table.protocol().writer_features or []
    if '"timestamp_ntz"' not in staged.schema or "timestampNtz" in features:
        return False
    table.alter.add_feature(
        TableFeatures.TimestampWithoutTimezone,
        allow_protocol_versions_increase=True,
        commit_properties=CommitProperties(max_commit_retries=0),
    )
    return True


def _additions(staged: StagedFiles, data_change: bool = True) -> list[AddAction]:
    return [
        AddAction(
            path=file.path,
            size=file.size,
            partition_values=partition_values(file.path, staged.partition_by),
            modification_time=file.modified_ms,
            data_change=data_change,
            stats=file.stats,
        )
        for file in staged.files
    ]


def _create(folder: Path, staged: StagedFiles, properties: CommitProperties) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    create_table_with_add_actions(
        str(folder),
        Schema.from_json(staged.schema),
        _additions(staged),
        mode="error",
        partition_by=list(staged.partition_by),
        name=staged.name,
        configuration=_CONFIGURATION,
        commit_properties=properties,
    )


def _overwrite(table: DeltaTable, staged: StagedFiles, properties: CommitProperties) -> None:
    table.create_write_transaction(
        list(_additions(staged)),
        mode="overwrite",
        schema=Schema.from_json(staged.schema),
        partition_by=list(staged.partition_by),
        commit_properties=properties,
    )


def _exchange(
    table: DeltaTable,
    staged: StagedFiles,
    replace: Sequence[str],
    properties: CommitProperties,
    data_change: bool,
) -> None:
    sizes = live_files(table)
    now_ms = time.time_ns() // 1_000_000
    removals = [
        RemoveAction(
            path, data_change, now_ms, sizes[path], partition_values(path, staged.partition_by)
        )
        for path in dict.fromkeys(replace)
    ]
    table.create_write_transaction(
        [*_additions(staged, data_change), *removals],
        mode="append",
        schema=Schema.from_json(staged.schema),
        partition_by=list(staged.partition_by),
        commit_properties=properties,
    )

"""Making staged files visible: one Delta commit that adds and removes files."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal

from deltalake import CommitProperties, DeltaTable, Schema, TableFeatures
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions

from backfill.errors import TableError
from backfill.tables.log import first_line, live_files, open_table, partition_values, remover
from backfill.tables.staging import StagedFiles, move_files

Replace = Literal["all"] | Sequence[str]

# Versions stay readable until the user lets them expire.
_CONFIGURATION = {"delta.enableExpiredLogCleanup": "false"}
_METADATA = "backfill"
# How often a commit that others do not contradict is tried again behind theirs.
_ATTEMPTS = 20


def commit_files(
    folder: Path, staged: StagedFiles, replace: Replace, metadata: Mapping[str, str]
) -> int:
    """Commits staged files to the table in the folder; see `DeltaStore.publish`."""
    properties = CommitProperties(
        custom_metadata={_METADATA: {"run_id": staged.run_id, **metadata}},
        # By its own retries the library would let two runs that replace everything both succeed,
        # and leave the files of both.
        max_commit_retries=0,
    )
    for _ in range(_ATTEMPTS):
        table = open_table(folder)
        _check(folder, table, staged, replace)
        move_files(staged, folder)
        if table is not None and replace == "all":
            _allow_types(table, staged)
        version = -1 if table is None else table.version()
        try:
            if table is None:
                _create(folder, staged, properties)
            elif replace == "all":
                _overwrite(table, staged, properties)
            else:
                _exchange(table, staged, replace, properties)
            return version + 1
        except DeltaError as error:
            newest = open_table(folder)
            if newest is None or newest.version() == version:
                raise TableError(
                    f"the commit failed: {first_line(error)}", field=staged.name
                ) from error
            if replace == "all":
                raise TableError(
                    f"{_run_of(newest, version + 1)} published version {version + 1} meanwhile",
                    field=staged.name,
                    way_out="Nothing was published. Run again.",
                ) from error
    raise TableError(
        f"other runs came first {_ATTEMPTS} times in a row",
        field=staged.name,
        way_out="Nothing was published. Run again when they are done.",
    )


def commits(table: DeltaTable) -> list[dict[str, Any]]:
    """The table's commits, newest first; see `DeltaStore.history`."""
    return [
        {
            "version": commit["version"],
            "timestamp": datetime.fromtimestamp(commit["timestamp"] / 1000, timezone.utc),
            "metadata": commit.get(_METADATA, {}),
        }
        for commit in table.history()
    ]


def _run_of(table: DeltaTable, version: int | None) -> str:
    for commit in commits(table):
        if commit["version"] == version and "run_id" in commit["metadata"]:
            return f"run {commit['metadata']['run_id']}"
    return "another writer"


def _check(folder: Path, table: DeltaTable | None, staged: StagedFiles, replace: Replace) -> None:
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
        removed = None if table is None else remover(folder, gone[0])
        who = "" if table is None or removed is None else f"; {_run_of(table, removed)} removed it"
        raise TableError(
            f"a file to replace is not in the table (any more){who}",
            field=staged.name,
            value=gone[0],
            way_out="Nothing was published. Run again.",
        )
    if table is not None and table.schema() != Schema.from_json(staged.schema):
        raise TableError(
            "the table has other columns or types than the files to add",
            field=staged.name,
            way_out="Nothing was published. Run the whole backfill again.",
        )


def _allow_types(table: DeltaTable, staged: StagedFiles) -> None:
    """Lets the table hold timestamps without a zone, where the staged files have some.

    The library would write such a column into a table that may not have one, and the table could
    not be read any more. The commit made here changes no row.
    """
    features = table.protocol().writer_features or []
    if '"timestamp_ntz"' in staged.schema and "timestampNtz" not in features:
        table.alter.add_feature(
            TableFeatures.TimestampWithoutTimezone, allow_protocol_versions_increase=True
        )


def _additions(staged: StagedFiles) -> list[AddAction]:
    return [
        AddAction(
            path=file.path,
            size=file.size,
            partition_values=partition_values(file.path, staged.partition_by),
            modification_time=file.modified_ms,
            data_change=True,
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
    table: DeltaTable, staged: StagedFiles, replace: Sequence[str], properties: CommitProperties
) -> None:
    sizes = live_files(table)
    now_ms = time.time_ns() // 1_000_000
    removals = [
        RemoveAction(path, True, now_ms, sizes[path], partition_values(path, staged.partition_by))
        for path in dict.fromkeys(replace)
    ]
    table.create_write_transaction(
        [*_additions(staged), *removals],
        mode="append",
        schema=Schema.from_json(staged.schema),
        partition_by=list(staged.partition_by),
        commit_properties=properties,
    )

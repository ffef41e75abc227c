"""Commits to a Delta table: actions that add and remove files."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from deltalake import CommitProperties, DeltaTable, Schema, TableFeatures
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions

from backfill.folders import Folder
from backfill.store.delta.entries import METADATA
from backfill.store.delta.opening import live_files
from backfill.store.files.names import partition_values
from backfill.store.files.staging import StagedFiles

# Versions stay readable until the user lets them expire.
_CONFIGURATION = {"delta.enableExpiredLogCleanup": "false"}


def commit_properties(metadata: Mapping[str, str]) -> CommitProperties:
    """The information that a commit holds about its run."""
    return CommitProperties(
        custom_metadata={METADATA: dict(metadata)},
        # With its own retries, the library would let two first writers of a date both succeed, and
        # would keep the files of both of two runs that replace everything.
        max_commit_retries=0,
    )


def allow_types(table: DeltaTable, staged: StagedFiles) -> bool:
    """Lets the table hold timestamps without a zone, if the staged files have some.

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


def set_properties(table: DeltaTable, properties: Mapping[str, str]) -> bool:
    """Gives the table the properties that it lacks.

    When it makes a table, the library takes only those that it knows, so this is done afterwards.

    Returns:
        Whether that took a commit of its own, which changes no row.
    """
    known = table.metadata().configuration
    missing = {name: value for name, value in properties.items() if known.get(name) != value}
    if missing:
        table.alter.set_table_properties(
            missing,
            raise_if_not_exists=False,
            commit_properties=CommitProperties(max_commit_retries=0),
        )
    return bool(missing)


def additions(staged: StagedFiles, data_change: bool = True) -> list[AddAction]:
    """The actions that add the files."""
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


def create(folder: Folder, staged: StagedFiles, properties: CommitProperties) -> None:
    """Makes the table."""
    folder.make()
    create_table_with_add_actions(
        folder.uri,
        Schema.from_json(staged.schema),
        additions(staged),
        mode="error",
        partition_by=list(staged.partition_by),
        name=staged.name,
        configuration=_CONFIGURATION,
        commit_properties=properties,
        storage_options=dict(folder.options),
    )


def overwrite(table: DeltaTable, staged: StagedFiles, properties: CommitProperties) -> None:
    """Replaces all files, and perhaps the schema."""
    table.create_write_transaction(
        list(additions(staged)),
        mode="overwrite",
        schema=Schema.from_json(staged.schema),
        partition_by=list(staged.partition_by),
        commit_properties=properties,
    )


def exchange(
    folder: Folder,
    table: DeltaTable,
    staged: StagedFiles,
    replace: Sequence[str],
    properties: CommitProperties,
    data_change: bool,
) -> None:
    """Replaces some files."""
    sizes = live_files(folder, table)
    now_ms = time.time_ns() // 1_000_000
    removals = [
        RemoveAction(
            path, data_change, now_ms, sizes[path], partition_values(path, staged.partition_by)
        )
        for path in dict.fromkeys(replace)
    ]
    table.create_write_transaction(
        [*additions(staged, data_change), *removals],
        mode="append",
        schema=Schema.from_json(staged.schema),
        partition_by=list(staged.partition_by),
        commit_properties=properties,
    )

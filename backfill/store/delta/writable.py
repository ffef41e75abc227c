"""Checks for what other writers have given a table that a run's commit would break."""

from __future__ import annotations

from deltalake import DeltaTable

from backfill.errors import TableError
from backfill.folders import Folder

# Writer features that a table may have, by the protocol's names: commits of whole files respect
# them, or they may be there without being used, which is checked where they would be.
_KEPT = frozenset(
    {
        *("appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns"),
        *("columnMapping", "deletionVectors", "timestampNtz", "v2Checkpoint"),
    }
)
#: Among the protocol versions without named features, the one that requires identity columns.
_WITH_IDENTITY = 6
_CONSTRAINT = "delta.constraints."


def check_writable(folder: Folder, table: DeltaTable) -> None:
    """Refuses a table with requirements that a run's commit can't meet.

    Raises:
        TableError: rows can only be added to it, or must meet conditions, or its writers must know
            a feature that is unknown here.
    """
    properties = table.metadata().configuration
    if properties.get("delta.appendOnly", "").lower() == "true":
        raise TableError(
            "rows can only be added to the table, but runs replace rows",
            field=str(folder),
            value="delta.appendOnly",
            way_out="In Spark, ALTER TABLE … SET TBLPROPERTIES (delta.appendOnly = false), or "
            "publish into another folder",
        )
    constraints = [name for name in properties if name.startswith(_CONSTRAINT)]
    if constraints:
        raise TableError(
            "the table's rows must meet conditions, which runs don't check",
            field=str(folder),
            value=", ".join(
                sorted(constraint.removeprefix(_CONSTRAINT) for constraint in constraints)
            ),
            way_out="In Spark, ALTER TABLE … DROP CONSTRAINT; a check of the job can require the "
            "same before a run publishes",
        )
    protocol = table.protocol()
    unknown = set(protocol.writer_features or ()) - _KEPT
    if protocol.min_writer_version == _WITH_IDENTITY:
        unknown.add("identityColumns")
    if unknown:
        raise TableError(
            "another writer has given the table features that runs do not support",
            field=str(folder),
            value=", ".join(sorted(unknown)),
            way_out="In Spark, ALTER TABLE … DROP FEATURE for each of them (checkpointProtection "
            "with TRUNCATE HISTORY), or publish into another folder",
        )

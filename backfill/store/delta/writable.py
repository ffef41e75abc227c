"""What other writers have given a table that a run's commit would break."""

from __future__ import annotations

from deltalake import DeltaTable

from backfill.errors import TableError
from backfill.folders import Folder

# Of what a table asks of its writers, by the protocol's names: what commits of whole files keep to,
# and what a table has without a use of it, which is looked at where it would have one.
_KEPT = frozenset(
    {
        *("appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns"),
        *("columnMapping", "deletionVectors", "timestampNtz", "v2Checkpoint"),
    }
)
#: Of the protocols without names of features the one that asks for identity columns.
_WITH_IDENTITY = 6
_CONSTRAINT = "delta.constraints."


def check_writable(folder: Folder, table: DeltaTable) -> None:
    """Refuses a table that a run can't commit to as it asks for.

    Raises:
        TableError: rows can only be added to it, or have to meet conditions, or its writers have to
            know a feature that is not known here.
    """
    properties = table.metadata().configuration
    if properties.get("delta.appendOnly", "").lower() == "true":
        raise TableError(
            "rows can only be added to the table, and runs replace them",
            field=str(folder),
            value="delta.appendOnly",
            way_out="In Spark, ALTER TABLE … SET TBLPROPERTIES (delta.appendOnly = false), or "
            "publish into another folder",
        )
    constraints = [name for name in properties if name.startswith(_CONSTRAINT)]
    if constraints:
        raise TableError(
            "the table's rows have to meet conditions, which runs don't check",
            field=str(folder),
            value=", ".join(sorted(each.removeprefix(_CONSTRAINT) for each in constraints)),
            way_out="In Spark, ALTER TABLE … DROP CONSTRAINT; a check of the job can ask for the "
            "same before a run publishes",
        )
    protocol = table.protocol()
    unknown = set(protocol.writer_features or ()) - _KEPT
    if protocol.min_writer_version == _WITH_IDENTITY:
        unknown.add("identityColumns")
    if unknown:
        raise TableError(
            "another writer has given the table features that runs can't keep to",
            field=str(folder),
            value=", ".join(sorted(unknown)),
            way_out="In Spark, ALTER TABLE … DROP FEATURE for each of them (checkpointProtection "
            "with TRUNCATE HISTORY), or publish into another folder",
        )

"""The table into which a topic's records are copied: each record once, whatever copies it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from backfill.errors import SourceError
from backfill.folders import delta_options, folder_at
from backfill.printable import first_line, shown

#: A record, named as in Spark's source for Kafka.
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
    ]
)


def check_copied(uri: str) -> None:
    """Checks that something has been copied into a folder; its log is not read.

    Raises:
        SourceError: nothing has been copied.
    """
    if not DeltaTable.is_deltatable(uri, delta_options()):
        raise SourceError(
            "no records of the topic have been copied into this folder yet",
            field="source.path",
            value=shown(uri),
            way_out="backfill pull copies them",
        )


def check_records(names: Sequence[str], uri: str) -> None:
    """Checks that a table has the columns of records, and no others.

    Raises:
        SourceError: the table is something else.
    """
    if list(names) != SCHEMA.names:
        raise SourceError(
            "is a Delta table of something other than a topic's records",
            field="source.path",
            value=shown(uri),
            way_out="Choose another folder; a source of format delta reads such a table",
        )


class RecordTable:
    """A Delta table of one topic's records.

    A commit adds records and says up to which offset each partition has been copied, as
    transactions of the Delta protocol: so the next copy continues a killed one where it stopped,
    and if two copies run at once, one fails.
    """

    def __init__(self, uri: str, topic: str, identity: str) -> None:
        """Opens the table as it is now; what others add to it later is a conflict.

        Args:
            uri: the folder, which may be empty or not exist.
            topic: the topic's name.
            identity: tells the topic from a deleted one of the same name.

        Raises:
            SourceError: the folder holds something else.
        """
        self._uri, self._topic, self._identity = uri, topic, identity
        self._opened = _table(uri)
        if self._opened is not None:
            check_records([field.name for field in self._opened.schema().fields], uri)
        elif folder_at(uri, "source.path").names():
            raise SourceError(
                "the folder holds files that are not records of a topic",
                field="source.path",
                value=shown(uri),
                way_out="Choose an empty folder, or one that does not exist yet",
            )

    def reached(self, partitions: Iterable[int]) -> dict[int, int | None]:
        """By partition, the offset after the last copied one; None before the first copy.

        A partition that was added since begins at 0, even if Kafka has deleted some of its records.

        Raises:
            SourceError: none of these partitions has been copied, and the table has records.
        """
        if self._opened is None:
            return dict.fromkeys(partitions)
        offsets = {
            partition: self._opened.transaction_version(self._name(partition))
            for partition in partitions
        }
        if all(offset is None for offset in offsets.values()):
            raise SourceError(
                f"holds the records of {self._opened.metadata().name}: another topic, or an "
                "earlier one of this name that has been deleted",
                field="source.path",
                value=shown(self._uri),
                way_out="Choose another folder",
            )
        return {partition: offset or 0 for partition, offset in offsets.items()}

    def append(self, records: pa.Table, reached: Mapping[int, int]) -> None:
        """Adds records.

        Args:
            records: rows with the columns of `SCHEMA`.
            reached: by partition, the offset after its last one.

        Raises:
            SourceError: they cannot be written, or another copy has written them meanwhile.
        """
        copied = [
            Transaction(self._name(partition), offset) for partition, offset in reached.items()
        ]
        properties = CommitProperties(app_transactions=copied)
        try:
            if self._opened is None:
                options = delta_options()
                write_deltalake(
                    self._uri,
                    records,
                    mode="error",
                    name=self._topic,
                    storage_options=options,
                    commit_properties=properties,
                )
                self._opened = DeltaTable(self._uri, storage_options=options)
            else:
                write_deltalake(self._opened, records, mode="append", commit_properties=properties)
        except (DeltaError, OSError) as error:
            made = self._opened is None and _table(self._uri) is not None
            if not made and not isinstance(error, CommitFailedError):
                raise _failed(self._uri, "written", error) from error
            raise SourceError(
                f"another process copies into the same folder: {first_line(error)}",
                field="source.path",
                value=shown(self._uri),
                way_out="Let one of them end, then copy again: it continues from there",
            ) from error

    def _name(self, partition: int) -> str:
        return f"{self._topic}/{self._identity}/{partition}"


def _table(uri: str) -> DeltaTable | None:
    try:
        return DeltaTable(uri, storage_options=delta_options())
    except TableNotFoundError:
        return None
    except (DeltaError, OSError) as error:
        raise _failed(uri, "read", error) from error


def _failed(uri: str, what: str, error: Exception) -> SourceError:
    return SourceError(
        f"the copied records can't be {what}: {first_line(error)}",
        field="source.path",
        value=shown(uri),
    )

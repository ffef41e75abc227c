"""The inputs of a run: its snapshot, compared with what earlier runs have recorded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from pyspark.sql import types as T

from backfill.errors import SourceError
from backfill.events import EventRules, Source, digests, time_bounds
from backfill.ledger.arrival_ranges import arrived
from backfill.ledger.record import Input, Record
from backfill.printable import shown
from backfill.spec import JobSpec


def inputs_of(
    source: Source, spec: JobSpec, rules: EventRules, records: Iterable[Record]
) -> dict[str, Input]:
    """The snapshot's inputs; those that have not changed, with what was found out before."""
    known: dict[str, Input] = {}
    for record in records:
        known |= record.inputs
    files = source.snapshot.inputs
    if not files:
        return arrived(source, spec.source.path, spec.arrival, known)
    same = {
        # What was found out about the file still holds, whatever is deleted beside it.
        file.path: replace(known[file.path], deletions=file.deletions)
        for file in files
        if file.path in known
        and (known[file.path].size, known[file.path].modified_ms) == (file.size, file.modified_ms)
    }
    new = [file for file in files if file.path not in same]
    paths = [file.path for file in new]
    bounds = time_bounds(source, rules, paths)
    content = digests(paths)
    return {
        **same,
        **{
            file.path: Input(
                file.size,
                file.modified_ms,
                content[file.path],
                bounds[file.path],
                deletions=file.deletions,
            )
            for file in new
        },
    }


def check_types(source: Source, spec: JobSpec, records: Sequence[Record]) -> None:
    """Checks that types that were inferred from the values are still what they were.

    Raises:
        SourceError: a column has another type now, or is gone.
    """
    if not spec.source.inferred:
        return
    now = {field.name: field.dataType.simpleString() for field in source.frame.schema}
    for schema in {record.schema for record in records}:
        recorded = T.StructType.fromDDL(schema)
        assert isinstance(recorded, T.StructType)
        for field in recorded:
            kind = now.get(field.name)
            if kind != field.dataType.simpleString():
                raise SourceError(
                    f"was {field.dataType.simpleString()} when the tables were published, and "
                    f"is now {kind or 'missing'}",
                    field=f"source, column {field.name}",
                    value=shown(spec.source.path),
                    way_out="Set the types in source.schema",
                )

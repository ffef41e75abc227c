"""Files of a source's table that compaction only rewrote count as the old ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from backfill.events import Rewrite
from backfill.ledger.record import Input, Record, bounds_of


def carried_over(
    record: Record, rewrites: Iterable[Rewrite], current: Mapping[str, Input]
) -> Record:
    """The record as if the files that are there now had always been there.

    A rewrite is followed if all of its old files were counted on the same dates. Otherwise it is
    unknown which rows of the new files were counted: the old files stay recorded, and are missed
    by name.

    Args:
        record: a table's record.
        rewrites: those since the version that the record names, oldest first.
        current: the source's files as they are now.
    """
    inputs = dict(record.inputs)
    for rewrite in rewrites:
        old = [inputs[path] for path in rewrite.removed if path in inputs]
        if len(old) < len(rewrite.removed) or len({file.counted for file in old}) != 1:
            continue
        for path in rewrite.removed:
            del inputs[path]
        for path in rewrite.added:
            # A new file that is gone again held what the old ones did.
            now = current.get(path, Input(0, 0, None, bounds_of(old)))
            # Rows of it that have been deleted since are a change.
            inputs[path] = replace(now, counted=old[0].counted, deletions=None)
    return replace(record, inputs=inputs)

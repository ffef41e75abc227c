"""The operators, by the names that `Streaming.operators` gives."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from backfill.replay.operators.aligned import AlignedPanes
from backfill.replay.operators.batched import BatchedSessions, BatchedWindows
from backfill.replay.operators.counted import Counted
from backfill.replay.operators.merging import MergingPanes
from backfill.replay.operators.open_sessions import OpenSessions
from backfill.replay.operators.over import RangeOver, RowsOver
from backfill.replay.operators.queued import QueuedPanes
from backfill.replay.operators.rolling import RollingCounter
from backfill.replay.operators.stored_sessions import StoredSessions
from backfill.replay.operators.stored_windows import StoredSliding, StoredWindows
from backfill.replay.setup import Operator

OPERATORS: Mapping[str, type[Operator]] = MappingProxyType(
    {
        "aligned": AlignedPanes,
        "batched_sessions": BatchedSessions,
        "batched_windows": BatchedWindows,
        "counted": Counted,
        "merging": MergingPanes,
        "open_sessions": OpenSessions,
        "queued": QueuedPanes,
        "range": RangeOver,
        "rolling": RollingCounter,
        "rows": RowsOver,
        "stored_sessions": StoredSessions,
        "stored_sliding": StoredSliding,
        "stored_windows": StoredWindows,
    }
)

"""Recompute in batch, on Spark DataFrames, what a streaming window operator produces.

Window definitions do not need Spark; everything else is imported on first use.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

from backfill.bot_rules import BotRule
from backfill.triggers import (
    AfterAll,
    AfterAny,
    AfterCount,
    AfterEventTime,
    AfterProcessingTime,
    AfterSilence,
    Repeatedly,
)
from backfill.windows import (
    CountWindow,
    CumulatingWindow,
    HoppingWindow,
    SessionWindow,
    SlidingWindow,
    TumblingWindow,
)
from backfill.windows.message_gaps import messages

if TYPE_CHECKING:
    from backfill import aggregates
    from backfill.frames.api import aggregate, bots, sessionize
    from backfill.frames.metric import Metric
    from backfill.frames.rolling import metrics, metrics_at
    from backfill.job import Job, reconcile
    from backfill.joins import as_of, join, session_join
    from backfill.reconciliation.joins.frames import reconcile_join
    from backfill.update_history import table_as_of, updates

__version__ = "0.1.0"

__all__ = [
    "AfterAll",
    "AfterAny",
    "AfterCount",
    "AfterEventTime",
    "AfterProcessingTime",
    "AfterSilence",
    "BotRule",
    "CountWindow",
    "CumulatingWindow",
    "HoppingWindow",
    "Job",
    "Metric",
    "Repeatedly",
    "SessionWindow",
    "SlidingWindow",
    "TumblingWindow",
    "aggregate",
    "aggregates",
    "as_of",
    "bots",
    "join",
    "messages",
    "metrics",
    "metrics_at",
    "reconcile",
    "reconcile_join",
    "session_join",
    "sessionize",
    "table_as_of",
    "updates",
]

# Silent, unless the importing program configures logging.
logging.getLogger(__name__).addHandler(logging.NullHandler())

_HOMES = {
    "Job": "backfill.job",
    "Metric": "backfill.frames.metric",
    "aggregate": "backfill.frames.api",
    "as_of": "backfill.joins",
    "bots": "backfill.frames.api",
    "join": "backfill.joins",
    "metrics": "backfill.frames.rolling",
    "metrics_at": "backfill.frames.rolling",
    "reconcile": "backfill.job",
    "reconcile_join": "backfill.reconciliation.joins.frames",
    "session_join": "backfill.joins",
    "sessionize": "backfill.frames.api",
    "table_as_of": "backfill.update_history",
    "updates": "backfill.update_history",
}


def __getattr__(name: str) -> Any:
    if name == "aggregates":
        return import_module("backfill.aggregates")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'backfill' has no attribute {name!r}")

"""Describes a cause's events as the source has them, not by their places in a replay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from backfill.columns import TIME
from backfill.reconciliation.clocks import PARTITION, PLACE
from backfill.reconciliation.explaining.case import Explanation

_EVENT, _EVENTS = "before_arrival", ("left_out", "repeated", "copies")
_DROPPED = "dropped"
#: The most events of each kind that are described.
_MOST = 100


def with_events(explanation: Explanation, rows: Mapping[int, Mapping[str, Any]]) -> Explanation:
    """The explanation, with events given by time, place and id.

    Args:
        explanation: of one key; its evidence gives events by their arrivals.
        rows: the key's events by arrival. A made-up copy comes right after its event.
    """

    def described(arrival: int) -> dict[str, Any]:
        row = rows[arrival - arrival % 2]
        known = {
            "time_us": row[TIME],
            "partition": row[PARTITION],
            "place": row[PLACE],
            "id": row.get("_id"),
        }
        return {name: value for name, value in known.items() if value is not None}

    evidence = dict(explanation.evidence)
    for name in _EVENTS:
        if name in evidence:
            evidence[name] = [described(arrival) for arrival in evidence[name][:_MOST]]
    if _DROPPED in evidence:
        evidence[_DROPPED] = [
            {**described(event["arrival"]), "late_by_us": event["late_by_us"]}
            for event in evidence[_DROPPED][:_MOST]
        ]
    if evidence.get(_EVENT) in rows:
        evidence[_EVENT] = described(evidence[_EVENT])
    return replace(explanation, evidence=evidence)

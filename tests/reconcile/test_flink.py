"""What real Flink wrote, decoded, against a batch over the same events: all of it is proved.

Key by key, as `backfill reconcile` does it, with the watermark as Flink had it at each event.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from backfill import SessionWindow
from backfill import aggregates as agg
from backfill.engines import ENGINES
from backfill.reconciliation.explaining.case import Case, Explanation
from backfill.reconciliation.explaining.explain import explain
from backfill.reconciliation.explaining.matching import match
from backfill.reconciliation.explaining.operator import Operator, without_loss
from backfill.reconciliation.rows import Row, same_values
from backfill.reconciliation.same_time import interchangeable, numbered_rows
from backfill.replay import Event
from backfill.replay.clocks import NEVER
from tests.engines.recordings import MS, Recording, recordings
from tests.reconcile.streams import BOTH, RECORDED, stream

pytestmark = pytest.mark.usefixtures("interpreted")

KEY = {"key": T.StringType()}
AGGREGATES = {"events": agg.count(), "amount": agg.sum("amount")}
SUMS = {"events": "sum", "amount": "sum"}
FLINK = ENGINES["flink"]

#: Windows of two hours on Berlin's clocks begin at other instants than on UTC's, which the batch
#: has.
NOT_COMPARED = {"sql-tumble-berlin"}
#: One of each kind; the others take a minute together.
QUICK = {
    "session-10s",
    "session-10s-late-60s-delta",
    "hopping-10s-apart",
    "sql-group-session",
    "sql-over-range",
    "sql-over-rows",
}
COMPARED = [
    pytest.param(
        recording,
        id=recording.settings["name"],
        marks=() if recording.settings["name"] in QUICK else pytest.mark.slow,
    )
    for runner in ("datastream", "sql")
    for recording in recordings(runner)
    if recording.settings["name"] not in NOT_COMPARED
]


def settings_of(recording: Recording) -> dict[str, Any]:
    given = recording.settings
    settings = {"watermark_delay": given["watermark_delay"]}
    if "allowed_lateness" in given:
        settings["allowed_lateness"] = given["allowed_lateness"]
    if given["runner"] == "sql":
        settings["api"] = "sql-group" if "FROM events GROUP BY" in given["query"] else "sql"
    elif given["firing"] == "delta":
        settings["accumulation"] = "discarding"
    return settings


def events_of(recording: Recording) -> tuple[dict[Any, list[Event]], dict[int, int]]:
    """The events by key, with the watermark before each; and the copies of earlier ones.

    Events without a key move the watermark; DataStream's were filtered out before the operator.
    """
    sql = recording.settings["runner"] == "sql"
    behind = recording.us("watermark_delay") + (0 if sql else MS)
    events: dict[Any, list[Event]] = {}
    copies, first = {}, {}
    now = NEVER
    for row in recording.input():
        if row["arrival"] == recording.restart:
            now = NEVER
        key, arrival, time = row["key"], row["arrival"], row["time"] * MS
        if key is not None or sql:
            # A key is a tuple of columns, as in a job: one that is NULL is a group.
            event = Event(
                key=(key,), time=time, arrival=arrival, value={"amount": row["amount"]}, clock=now
            )
            events.setdefault(key, []).append(event)
            same = key, time, row.get("id", arrival)
            if same in first:
                copies[arrival] = first[same]
            first.setdefault(same, arrival)
        now = max(now, time - behind)
    return events, copies


def explained(recording: Recording, rows: dict[Any, list[Row]]) -> list[Explanation]:
    window = recording.window
    operator = Operator(
        window=window, engine=FLINK, aggregates=AGGREGATES, settings=settings_of(recording)
    )
    batch = replace(operator, engine=without_loss(FLINK, window), settings={})
    events, copies = events_of(recording)
    assert rows.keys() <= events.keys()
    explanations = []
    for key, own in events.items():
        once = [replace(event, clock=None) for event in own if event.arrival not in copies]
        _, differences = match(
            batch.rows(batch.replay(once).final),
            rows.get(key, []),
            lambda one, other: same_values(one.values, other.values, {}),
            sessions=isinstance(window, SessionWindow),
        )
        if differences:
            again = {n: copies[n] for n in copies if n in {event.arrival for event in own}}
            case = Case(operator, own, rows.get(key, []), differences, copies=again, batch=batch)
            explanations += explain(case)
    return explanations


@pytest.mark.parametrize("recording", COMPARED)
def test_every_difference_is_proved(spark: SparkSession, recording: Recording) -> None:
    given = recording.settings
    options: dict[str, Any] = {}
    if given.get("allowed_lateness", "0s") != "0s" and given["runner"] == "datastream":
        options["firing"] = given["firing"]
    single = interchangeable(recording.window)
    if single:
        options["columns"] = {"ts": "event_time"}
    decoded = stream(
        spark,
        RECORDED / "flink" / recording.settings["name"] / "output.jsonl.gz",
        "flink",
        recording.window,
        key=KEY,
        aggregates=BOTH,
        merged_by=SUMS,
        **options,
    )
    rows: dict[Any, list[Row]] = {}
    names = ["_key0", "_start", "_end", "events", "amount"]
    for key, start, end, events, amount in decoded.frame.select(names).collect():
        rows.setdefault(key, []).append(Row(start, end, {"events": events, "amount": amount}))
    if single:
        rows = {key: numbered_rows(own) for key, own in rows.items()}
    explanations = explained(recording, rows)
    counts = Counter(explanation.causes[0] for explanation in explanations)
    assert all(explanation.proved for explanation in explanations), [
        explanation for explanation in explanations if not explanation.proved
    ]
    lost = "engine_loss" if single else "overlap"
    assert set(counts) <= {"late", "redelivered", lost}, counts
    if given["events"] == "events.jsonl":
        assert counts["late"] > 0
        assert counts["redelivered"] > 0

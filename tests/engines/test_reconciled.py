"""What real Kafka Streams wrote, beside a batch over the same events: every difference explained.

Key by key, as `backfill reconcile` does it, but without Spark: so all recordings take seconds.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backfill import HoppingWindow, SessionWindow, SlidingWindow, TumblingWindow
from backfill import aggregates as agg
from backfill.engines import engine
from backfill.reconciliation.explaining.case import Case, Explanation
from backfill.reconciliation.explaining.explain import explain
from backfill.reconciliation.explaining.matching import match
from backfill.reconciliation.explaining.operator import ENDLESS, Operator
from backfill.reconciliation.explaining.shared_replay import SharedKey, SharedReplay
from backfill.reconciliation.rows import Row, same_values
from backfill.replay import Event, replay
from backfill.windows import AnyWindow, is_distinct

pytestmark = pytest.mark.one_lane

RECORDED = Path(__file__).with_name("recorded")
KAFKA = RECORDED / "kafka-driver"
WINDOWS = {"session": SessionWindow, "tumbling": TumblingWindow, "hopping": HoppingWindow}
MS = 1_000


def lines(path: Path) -> list[dict[str, Any]]:
    raw = path.read_bytes()
    text = gzip.decompress(raw) if path.suffix == ".gz" else raw
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture(scope="module")
def events() -> dict[str, list[Event]]:
    """The events by key, each with Kafka's clock: all went through one partition."""
    by_key: dict[str, list[Event]] = {}
    clock = 0
    for row in lines(RECORDED / "events.jsonl"):
        if row["key"] is None:
            continue
        event = Event(
            key=row["key"],
            time=row["time"] * MS,
            arrival=row["arrival"],
            value={"amount": row["amount"], "id": row["id"]},
            clock=clock,
        )
        clock = max(clock, row["time"] * MS)
        by_key.setdefault(row["key"], []).append(event)
    return by_key


def window_of(settings: dict[str, Any]) -> AnyWindow:
    ((kind, spans),) = settings["window"].items()
    if kind == "sliding":
        return SlidingWindow(size=spans["size"], distinct=True)
    return WINDOWS[kind](**spans)


def written(folder: Path, settings: dict[str, Any], window: AnyWindow) -> dict[str, list[Row]]:
    """The final state of the output: the last record of each windowed key, if it has a value."""
    last: dict[bytes, str | None] = {}
    for record in lines(folder / "output.jsonl.gz"):
        last[bytes.fromhex(record["key"])] = record["value"]
    rows: dict[str, list[Row]] = {}
    for key, value in last.items():
        if value is None:
            continue
        if isinstance(window, SessionWindow):
            name, end, start = key[:-16], key[-16:-8], key[-8:]
            ends = int.from_bytes(end, "big") * MS
        else:
            name, start = key[:-8], key[-8:]
            ends = int.from_bytes(start, "big") * MS + window.size.us
        row = Row(int.from_bytes(start, "big") * MS, ends, {"v": int(value, 16)})
        rows.setdefault(name.decode(), []).append(row)
    return rows


def copies(events: list[Event]) -> dict[int, int]:
    first: dict[tuple[int | None, int], int] = {}
    originals = {}
    for event in events:
        same = (event.time, event.value["id"])
        if same in first:
            originals[event.arrival] = first[same]
        else:
            first[same] = event.arrival
    return originals


def explained(
    folder: Path, events: dict[str, list[Event]], settings: dict[str, Any]
) -> Iterator[Explanation]:
    window = window_of(settings)
    aggregates = {"v": agg.count() if settings["aggregate"] == "count" else agg.sum("amount")}
    given = {"grace": settings["grace"]}
    if settings["retention"] != "default":
        given["retention"] = settings["retention"]
    operator = Operator(window=window, engine=engine("kafka-streams"), aggregates=aggregates)
    if settings["emit"] != "on_update":
        given["emit"] = settings["emit"]
    if settings["caching"]:
        given |= {"caching": True, "commits": 1}
    operator = replace(operator, settings=given)
    stream = written(folder, settings, window)
    together = settings["caching"] or settings["emit"] == "on_close" or is_distinct(window)
    if together:
        # Other keys' events decide what becomes of a key's windows: a clock alone does not tell.
        events = {
            key: [replace(event, arrival=2 * event.arrival, clock=None) for event in own]
            for key, own in events.items()
        }
    joint = SharedReplay(operator, events)
    last = max(max(event.clock or 0, event.time or 0) for own in events.values() for event in own)
    for key, own in events.items():
        again = copies(own)
        once = [event for event in own if event.arrival not in again]
        bare = [Event(key=e.key, time=e.time, arrival=e.arrival, value=e.value) for e in once]
        # Only Kafka Streams has such sliding windows; with these settings nothing is late.
        sliding = {"engine": "kafka-streams", **ENDLESS} if is_distinct(window) else {}
        made = replay(bare, window, aggregates=aggregates, **sliding)
        batch = [Row(final.start, final.end, final.values) for final in made.final]
        _, differences = match(
            batch,
            stream.get(key, []),
            lambda a, b: same_values(a.values, b.values, {}),
            sessions=isinstance(window, SessionWindow),
        )
        if differences:
            its = replace(operator, among=SharedKey(joint, key)) if together else operator
            its = its if together else replace(operator, end_clock=last)
            endless = replace(operator, settings=ENDLESS) if sliding else None
            yield from explain(
                Case(its, own, stream.get(key, []), differences, copies=again, batch=endless)
            )


#: All recordings that wrote at every update, without a cache and without a restart.
UPDATES = [
    "session-0s", "session-10s", "session-1h",
    "session-0s-long", "session-10s-long", "session-1h-long", "session-10s-sum",
    "tumbling-0s", "tumbling-10s", "tumbling-1h", "tumbling-10s-long-sum",
    "hopping-0s", "hopping-1h", "hopping-10s-uneven-sum", "sliding-0s", "sliding-10s",
]  # fmt: skip


@pytest.mark.parametrize("name", UPDATES)
def test_every_difference_is_explained(name: str, events: dict[str, list[Event]]) -> None:
    folder = KAFKA / name
    settings = json.loads((folder / "settings.json").read_text())
    explanations = list(explained(folder, events, settings))
    counts = Counter(explanation.causes[0] for explanation in explanations)
    assert counts["unexplained"] == 0, counts
    assert all(explanation.proved for explanation in explanations)
    assert set(counts) <= {"late", "redelivered", "engine_loss"}
    # Redelivered events are in every recording, and some are late whatever the grace.
    assert counts["late"] > 0
    assert counts["redelivered"] > 0
    long = settings["retention"] != "default"
    assert not (long and counts["engine_loss"])


#: Recordings that wrote a window once, when it had closed, or wrote through a cache.
LATER = [
    "session-0s-suppressed", "session-10s-suppressed", "session-10s-long-suppressed",
    "session-1h-suppressed", "tumbling-10s-suppressed", "hopping-10s-suppressed",
    "session-10s-close", "session-0s-long-close", "session-10s-long-close",
    "session-1h-long-close", "tumbling-10s-close", "tumbling-10s-long-close",
    "hopping-10s-long-close", "session-10s-cached",
]  # fmt: skip


@pytest.mark.parametrize("name", LATER)
def test_every_difference_of_what_comes_later_is_explained(
    name: str, events: dict[str, list[Event]]
) -> None:
    folder = KAFKA / name
    settings = json.loads((folder / "settings.json").read_text())
    explanations = list(explained(folder, events, settings))
    counts = Counter(explanation.causes[0] for explanation in explanations)
    assert counts["unexplained"] == 0, counts
    assert all(explanation.proved for explanation in explanations)
    assert set(counts) <= {"late", "redelivered", "engine_loss", "pending", "overlap"}, counts
    assert counts["late"] > 0

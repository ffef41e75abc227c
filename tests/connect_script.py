"""Run by `test_connect`: the same calls over Spark Connect."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from backfill import (
    BotRule,
    CountWindow,
    HoppingWindow,
    Job,
    SessionWindow,
    TumblingWindow,
    aggregate,
    as_of,
    bots,
    join,
    messages,
    session_join,
    sessionize,
    updates,
)
from backfill import aggregates as agg
from backfill.errors import SetupError
from backfill.spark import session as current
from tests.connect import listening, session

folder = Path(sys.argv[1])
spark = session("Asia/Kathmandu")
assert type(spark).__module__.startswith("pyspark.sql.connect")

events = spark.read.parquet(str(folder / "events"))
kinds = {
    "n": agg.count(),
    "total": agg.sum("amount"),
    "spread": agg.stddev("amount"),
    "first": agg.first("page"),
    "pages": agg.collect_set("page"),
    "distinct": agg.count_distinct("page", approximate=True),
    "median": agg.quantile("amount", 0.5, exact=True),
    "third": agg.quantile("amount", 0.3),
}
counts = {}
for name, window in {
    "sessions": SessionWindow(gap="30m"),
    "days": TumblingWindow(size="1 day"),
    "trailing": HoppingWindow(size="24h", advance="1h"),
    "fives": CountWindow(size=5, order="time"),
}.items():
    frame = aggregate(
        events,
        window,
        key="user_id",
        time="event_time",
        id="event_id",
        timezone="Europe/Oslo",
        aggregates=kinds,
    )
    counts[name] = frame.count()
counts["sessionized"] = (
    sessionize(events, SessionWindow(gap="30m"), key="user_id", time="event_time")
    .where("session_id is not null")
    .count()
)
rules = [BotRule(name="busy", events=20), BotRule(name="crawler", where="page = '/'")]
marked = bots(events, rules, gap="30m", key=[], time="event_time")
counts["bots"] = [marked.count(), marked.where("bot IS NULL").count()]
buys = events.where("amount > 50")
common = {"on": "user_id", "time": "event_time"}
counts["joined"] = [
    join(events, buys, within="5m", how="full", where="left.amount > 0", **common).count(),
    join(events, buys, within=messages(2), how="semi", **common).count(),
    as_of(events, buys, **common).count(),
    session_join(events, buys, window=SessionWindow(gap="30m"), how="left", **common).count(),
]
sent = updates(
    events,
    SessionWindow(gap="30m"),
    key="user_id",
    time="event_time",
    arrival="event_time",
    aggregates={"n": agg.count()},
    engine="beam",
)
counts["sent"] = [sent.count(), sent.agg({"n": "sum"}).collect()[0][0]]
path = folder / "job.yaml"
path.write_text(
    path.read_text()
    + """
checks:
  events: [{expect_column_values_to_not_be_null: {column: event_time}}]
  sessions:
    - {expect_column_values_to_be_between: {column: events, min_value: 1}}
    - {expect_column_values_to_be_between: {column: events, min_value: 2}, severity: warn}
    - {expect_sessions_to_be_apart: {key: [user_id], gap: 30m}}
"""
)
job = Job.load(path)
result = job.run(spark)
counts["job"] = {name: window.rows for name, window in result.windows.items()}
counts["quarantined"] = dict(result.quarantined)
failed = [outcome for outcome in result.checks if not outcome.success]
counts["checks"] = [len(result.checks), *(outcome.unexpected for outcome in failed)]
counts["lone"] = job.table("sessions", spark).where("events < 2").count()
job.run(spark, start=date(2026, 1, 10), end=date(2026, 1, 11))
counts["after_range"] = {name: job.table(name, spark).count() for name in result.windows}
(early,) = sorted((folder / "events" / "received_date=2026-01-10").glob("*.parquet"))
late = pq.read_table(early).slice(0, 1)
place = late.column_names.index("event_id")
late = late.set_column(place, "event_id", pa.array(["late"]))
pq.write_table(late, early.with_name("late.parquet"))
merged = job.recompute(spark)
assert merged is not None
counts["late"] = [
    merged.accepted,
    job.table("hourly", spark).agg({"events": "sum"}).collect()[0][0],
]
early.with_name("late.parquet").unlink()
hourly = Job(replace(job.spec, windows={"hourly": job.spec.windows["hourly"]}))
counts["stream"] = asdict(hourly.stream(spark, to=folder / "stream")["hourly"])
text, tables = path.read_text(), "tables: {path: out}"
begin, end = text.index("windows:"), text.index(tables)
windows = """
windows:
  tens: {count: {size: 10, order: time}, aggregates: {n: count}}
  last: {count: {size: 5, advance: 1, order: arrival, per: stream}, aggregates: {n: count}}
  moving: {sliding: {size: 1h}, aggregates: {n: count}}
metrics:
  kinds: {by: [[user_id], []], value: count_distinct(event_type), windows: [1h, 1d], step: 1h}
joins:
  near: {left: "true", right: amount > 50, within: 5m, where: right.amount > left.amount}
"""
other = path.with_name("other.yaml")
other.write_text(text[:begin] + windows + "tables: {path: other}\n")
found = Job.load(other).run(spark).windows
counts["other"] = {name: window.rows for name, window in found.items()}
counts["metrics"] = [counts["other"].pop(f"kinds_by_{by}") for by in ("user_id", "all")]
once = events.dropDuplicates(["user_id", "event_time", "event_id"])
dear = once.where("amount > 50")
near = join(once, dear, within="5m", where="right.amount > left.amount", **common)
counts["near"] = [counts["other"].pop("near"), near.count()]
counts["written"] = spark.read.parquet(str(folder / "stream/hourly")).count()
# The existing session, and a setting that it refuses.
counts["current"] = current() is spark is current(conf={"spark.sql.ansi.enabled": "true"})
try:
    current(conf={"spark.driver.memory": "1g"})
except SetupError as error:
    counts["refused"] = str(error)
counts["listening"] = listening()
print(json.dumps(counts))

"""A comparison on the driver and in parts; as a program, over Spark Connect.

Keys are of two columns, each of which can be NULL; values are integers with NULLs among them,
times, decimals, structs and doubles.
"""

from __future__ import annotations

import datetime as dt
import json
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from backfill import Job
from backfill.reconciliation import few_windows
from backfill.reconciliation import reconcile as run
from backfill.reconciliation.result import Reconciled
from tests.connect import session
from tests.on_sail import ON_SAIL

JOB = """
source: {path: events, format: parquet}
events: {key: [user, item], time: at, id: id, arrival: [batch, offset]}
engine: spark
windows:
  minutes:
    tumbling: {size: 1m}
    aggregates:
      n: count
      total: sum(amount)
      most: max(price)
      mean: mean(amount / 3)
      latest: max(at)
%stables: {path: out}
"""
#: Sail has no maximum of structs.
PAIR = '      pair: "max(struct(amount, item))"\n'
KEYS = [("a", 1), ("a", 2), ("a", None), (None, 1), (None, None), ("b", 1), ("c", 7), ("d", 7)]
BEGAN = dt.datetime(2026, 3, 29, 0, 30, tzinfo=dt.timezone.utc)


def job_of(folder: Path) -> Job:
    """Four events of each key in each of six batches; one of the last batch is late."""
    rows = []
    for batch in range(6):
        for place, (user, item) in enumerate(KEYS):
            for n in range(4):
                back = 7_000 if (batch, place, n) == (5, 4, 1) else 0
                amount = None if n == 2 else batch + place + n
                rows.append(
                    {
                        "user": user,
                        "item": item,
                        "at": BEGAN + dt.timedelta(seconds=1_500 * batch + 40 * n - back),
                        "id": f"{batch}-{n}",
                        "amount": amount,
                        "price": None if amount is None else Decimal(amount) / 4,
                        "batch": batch,
                        "offset": len(rows),
                    }
                )
    (folder / "events").mkdir(parents=True)
    schema = pa.schema(
        [
            ("user", pa.string()),
            ("item", pa.int32()),
            ("at", pa.timestamp("us", "UTC")),
            ("id", pa.string()),
            ("amount", pa.int64()),
            ("price", pa.decimal128(12, 2)),
            ("batch", pa.int64()),
            ("offset", pa.int64()),
        ]
    )
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), folder / "events" / "a.parquet")
    (folder / "job.yaml").write_text(JOB % ("" if ON_SAIL else PAIR))
    return Job.load(folder / "job.yaml")


def reconciled(job: Job, spark: SparkSession, most_events: int, said: list[str]) -> Reconciled:
    """Compares the table with itself, except for windows that are lost, late, wrong or rounded."""
    rows = job.table("minutes", spark)
    start = F.unix_micros("window_start")
    second = (start - int(BEGAN.timestamp()) * 1_000_000) / 1_000_000
    key = F.concat_ws("-", "user", F.coalesce("item", F.lit(0)))
    mean, n = F.col("mean"), F.col("n")
    late, lost = second == 540, (key == "b-1") & second.between(3_000, 3_100)
    frame = rows.where(~late & ~lost).select(
        "user",
        "item",
        "window_start",
        "window_end",
        F.when((key == "c-7") & (second == 0), n + 5).otherwise(n).alias("n"),
        "total",
        "most",
        F.when(key == "0", F.round(mean, 1)).otherwise(mean).alias("mean"),
        "latest",
        *([] if ON_SAIL else ["pair"]),
    )
    path = str(job.spec.path.parent / "stream")
    frame.write.mode("overwrite").parquet(path)
    before = run.FEW_EVENTS, few_windows.FEW_WINDOWS
    # These limits decide in which of the two ways windows are compared.
    run.FEW_EVENTS, few_windows.FEW_WINDOWS = most_events, most_events
    try:
        return job.reconcile(
            "minutes",
            spark,
            stream=path,
            format="table",
            watermark_delay="0s",
            progress=said.append,
        )
    finally:
        run.FEW_EVENTS, few_windows.FEW_WINDOWS = before


def whole_result(found: Reconciled) -> dict[str, Any]:
    """The whole result, in a form that can be compared."""
    return {
        "counts": [found.matched, found.batch, found.stream, found.ordered],
        "causes": found.causes,
        "differences": [repr(difference) for difference in found.differences],
    }


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    over = session("America/St_Johns")
    own = job_of(folder)
    own.run(over)
    parts = reconciled(own, over, 10, [])
    print(json.dumps([whole_result(reconciled(own, over, 10_000, [])), whole_result(parts)]))

"""Events are read the same way under Spark Connect."""

from __future__ import annotations

import gzip
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from tests import deletion_vectors
from tests.connect import Programs

SCRIPT = """
import json, sys
from pyspark.sql import functions as F
from backfill.columns import REASON, TIME
from backfill.errors import SourceError
from backfill.events import *
from tests.connect import session

spark = session("America/St_Johns")
folder, found = sys.argv[1], {}
log = open_source(spark, SourceOptions(format="access_log", path=folder + "/a.log"))
rows = normalise(log.frame, EventRules(key=("host",), time="time"))
found["times"] = [row[TIME] for row in rows.orderBy("line").collect()]
found["quarantine"] = [list(row) for row in quarantine_rows(rows).collect()]
data = open_source(spark, SourceOptions(format="json", path=folder + "/b.json"))
rules = EventRules(key=("u",), time="t", time_format="iso", timezone="Europe/Berlin")
rows = normalise(data.frame, rules).orderBy("u")
found["json"] = [[row.u, row[TIME], row[REASON]] for row in rows.collect()]
local = data.frame.select("u", F.to_timestamp_ntz("t").alias("t"))
rows = normalise(local, EventRules(key=("u",), time="t", timezone="Europe/Berlin"))
found["ntz"] = sorted(row[TIME] for row in rows.collect() if row[TIME] is not None)
bad = open_source(spark, SourceOptions(format="csv", path=folder + "/c.csv.gz", schema="n int"))
try:
    with spark_errors(bad.snapshot):
        bad.frame.collect()
except SourceError as error:
    found["error"] = str(error)
some = open_source(spark, SourceOptions(format="parquet", path=folder + "/d"), [folder + "/e"])
rules = EventRules(key=(), time="t", timezone="Europe/Berlin")
paths = [file.path for file in some.snapshot.inputs]
found["bounds"] = list(time_bounds(some, rules, paths).values())
near = time_condition(some.frame.schema, rules, 0, 10**15)
found["parts"] = [some.only(paths[1:], near).count(), some.only([]).count(), some.frame.count()]
found["within"] = within(some.frame, rules, 0, 10**15).count()
deleted = open_source(spark, SourceOptions(format="delta", path=folder + "/f"))
found["deleted"] = sorted(row.n for row in deleted.frame.collect())
print(json.dumps(found))
"""


@pytest.mark.slow
def test_spark_connect(over_connect: Programs, tmp_path: Path) -> None:
    line = 'h - - [17/May/2015:10:05:03 +0200] "GET / HTTP/1.1" 200 1\n'
    (tmp_path / "a.log").write_text(f"{line}junk\n")
    (tmp_path / "b.json").write_text('{"u":"a","t":"2024-03-31 02:30:00"}\n{"u":"b"}\n')
    whole = gzip.compress(
        ("n\n" + "".join(f"{n * 7919 % 10007}\n" for n in range(50_000))).encode()
    )
    (tmp_path / "c.csv.gz").write_bytes(whole[: len(whole) // 2])
    for name, moment in (("d", datetime(1970, 1, 2)), ("e", datetime(2024, 7, 1))):
        (tmp_path / name).mkdir()
        pq.write_table(pa.table({"t": [moment]}), tmp_path / name / "x.parquet")
    for n in range(2):
        write_deltalake(str(tmp_path / "f"), pa.table({"n": [n, n + 10]}), mode="append")
    name = deletion_vectors.live(tmp_path / "f").popitem()[0]
    deletion_vectors.delete_places(tmp_path / "f", "u", {name: [1]})
    printed = over_connect.last_line("-c", SCRIPT, str(tmp_path))
    moved = 1711848600000000  # 02:30 does not exist that day in Berlin: 03:30 in summer time
    assert printed == {
        "times": [1431849903000000, None],
        "quarantine": [["unparsable_line", "junk", f"{tmp_path}/a.log:2"]],
        "json": [["a", moved, None], ["b", None, "no_time"]],
        "ntz": [moved],
        "bounds": [[82_800_000_000] * 2, [1_719_784_800_000_000] * 2],
        "parts": [0, 0, 2],
        "within": 1,
        "deleted": [0, 1, 10],
        "error": f"{tmp_path}/c.csv.gz: the file cannot be decompressed: it is truncated or "
        "corrupt. Fetch it again, or remove it from the source",
    }

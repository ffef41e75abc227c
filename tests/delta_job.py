"""A job whose tables are named in a catalog of Spark's, beside Delta Lake's own SQL, as a program.

`python -m tests.delta_job FOLDER` prints what it found as JSON. The folder has `job.yaml`;
`other.yaml`, the same job in another folder; `strict.yaml`, the same job with a check that fails;
and `late.csv`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from backfill.errors import BackfillError
from backfill.job import Job
from backfill.spark import session
from tests.interpreted import SETTINGS
from tests.spark_sql import DELTA_CONF

TABLE = "spark_catalog.web.sessions"


def life(folder: Path, spark: SparkSession) -> dict[str, Any]:
    """The job's runs and what others do to its tables, in turn."""
    job, report = Job.load(folder / "job.yaml"), dict[str, Any]()

    def rows(name: str) -> dict[str, list[str]]:
        ours = job.table(name, spark)
        theirs = spark.table(f"spark_catalog.web.{name}").select(ours.columns)
        theirs, ours = (sorted(map(str, frame.collect())) for frame in (theirs, ours))
        return {"theirs": theirs, "ours": ours}

    def failure(call: Any) -> str:
        try:
            call()
        except BackfillError as error:
            return str(error)
        return ""

    # A table that users make before the first run, with properties of their own.
    spark.sql("CREATE SCHEMA web")
    spark.sql(
        "CREATE TABLE web.hourly (user STRING, date DATE) USING delta PARTITIONED BY (date) "
        f"LOCATION '{folder}/my out/hourly' TBLPROPERTIES ('delta.checkpointInterval' = '7', "
        "'mine' = 'x')"
    )
    job.run(spark)
    report["tables"] = [row.tableName for row in spark.sql("SHOW TABLES IN web").collect()]
    report["first"] = {name: rows(name) for name in ("sessions", "hourly", "quarantine")}
    report["properties"] = {
        row[0]: row[1] for row in spark.sql("SHOW TBLPROPERTIES web.hourly").collect()
    }
    report["strict"] = failure(lambda: Job.load(folder / "strict.yaml").run(spark))
    report["refused"] = {name: rows(name) for name in ("sessions", "hourly")}
    report["versions"] = spark.sql(f"DESCRIBE HISTORY {TABLE}").count()
    report["other"] = failure(lambda: Job.load(folder / "other.yaml").run(spark))
    spark.sql(f"OPTIMIZE {TABLE}")
    spark.sql(f"DELETE FROM {TABLE} WHERE user = 'gone'")
    job.recompute(spark, late=folder / "late.csv")
    report["late"] = rows("sessions")
    spark.sql(f"ALTER TABLE {TABLE} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    job.run(spark, date="2026-01-11")
    spark.sql(f"DELETE FROM {TABLE} WHERE user = 'b' AND date = '2026-01-10'")
    report["beside"] = failure(lambda: job.table("sessions", spark))
    spark.sql(f"REORG TABLE {TABLE} APPLY (PURGE)")
    report["purged"] = rows("sessions")
    job.run(spark, date="2026-01-10")
    report["again"] = rows("sessions")
    report["kinds"] = [run["kind"] for run in job.history()]
    job.restore(job.history()[-1]["run_id"])
    report["restored"] = rows("sessions")
    return report


if __name__ == "__main__":
    place = Path(sys.argv[1])
    conf = {
        **DELTA_CONF,
        **SETTINGS,
        # Which files a deletion affects depends on how they were cut.
        "spark.sql.adaptive.enabled": "true",
        "spark.master": "local[2]",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.warehouse.dir": f"{place}/warehouse",
    }
    print(json.dumps(life(place, session(conf=conf))))

"""What a user's Spark does with Delta tables: `python -m tests.store.delta_spark`.

In a process of its own, since Spark reads jars when it starts. Arguments: statements; the rows that
they give are printed.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

#: What fits pyspark 4.1, the newest that Delta has jars for.
PACKAGES = "io.delta:delta-spark_4.1_2.13:4.3.1"


def main(*statements: str) -> None:
    settings = {
        "spark.jars.packages": PACKAGES,
        # Spark has them, and others of them would be fetched.
        "spark.jars.excludes": "org.apache.hadoop:*,com.github.luben:*",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        # Of the table's state, which small tables need no fifty of.
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.ui.enabled": "false",
    }
    builder = SparkSession.builder.master("local[1]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    for each in statements:
        for row in spark.sql(each).collect():
            print("|".join(map(str, row)))
        print("--")


if __name__ == "__main__":
    main(*sys.argv[1:])

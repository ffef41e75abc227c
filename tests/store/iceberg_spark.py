"""What a user's Spark does with Iceberg tables of ours: `python -m tests.store.iceberg_spark`.

In a process of its own, since Spark reads jars when it starts. Arguments: the catalog's folder, a
table, and statements; `read` prints the rows.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

#: What fits pyspark 4.1, the newest that Iceberg has jars for.
PACKAGES = (
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0,org.xerial:sqlite-jdbc:3.50.3.0"
)


def main(folder: str, *statements: str) -> None:
    settings = {
        "spark.jars.packages": PACKAGES,
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "jdbc",
        "spark.sql.catalog.lake.uri": f"jdbc:sqlite:{folder}/catalog.db",
        "spark.sql.catalog.lake.warehouse": f"file://{folder}/warehouse",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
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

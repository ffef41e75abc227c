"""One contender, once, in its own process.

`python -m benchmarks.alone SCENARIO N IN OUT [RUNTIME]`
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import cast

from pyspark.sql import SparkSession

from benchmarks import counts, updates
from benchmarks.contenders import DUCKDB, DUCKDB_SLICES, POLARS
from benchmarks.measure import run_once, session
from benchmarks.scenarios import SCENARIOS
from benchmarks.times import TIMES


def main(name: str, number: str, source: str, out: str, runtime: str = "spark") -> None:
    scenario = next(subject for subject in (*SCENARIOS, TIMES) if subject.name == name)
    contender = [scenario.ours, *(rival.contender for rival in scenario.rivals)][int(number)]
    # A JVM that a contender has no use for would count as its memory.
    without = (
        DUCKDB,
        DUCKDB_SLICES,
        POLARS,
        counts.DUCKDB,
        counts.DUCKDB_EACH,
        updates.ONE_PROCESS,
    )
    needless = contender in without
    spark = cast(SparkSession, None) if needless else session(runtime)
    run_once(spark, contender, Path(source), Path(out))


if __name__ == "__main__":
    main(*sys.argv[1:])

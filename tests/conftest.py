"""One Spark session for the whole test run."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import Phase, settings
from pyspark.sql import SparkSession

# A Spark job takes too long for shrinking. Where CI is set, examples are the same at every run, but
# where a seed is given: so does the lakehouse lane, a new one each time, which it prints.
_SAME = bool(os.environ.get("CI")) and "BACKFILL_SEED" not in os.environ
settings.register_profile(
    "spark",
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    print_blob=True,
    derandomize=_SAME,
    database=None if os.environ.get("CI") else settings().database,
)
settings.load_profile("spark")

# Tests run much code, and little of it long enough for the better compiler to pay: without it the
# suite takes two thirds of the CPU time. Room for the code that all tests need, which is 48 MB by
# default then, and too little after some thousand queries.
_JVM = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC"

# Of every Spark that a test starts, in whatever process: nothing listens beyond loopback.
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Two cores, few partitions, and a session time zone that must never change a result."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = (
        SparkSession.builder.master("local[2]")
        .appName("backfill tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "3g")
        .config("spark.driver.extraJavaOptions", _JVM)
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.ansi.enabled", "true")
        .config("spark.sql.session.timeZone", "America/St_Johns")
        # As in backfill's own sessions; and no query's code is compiled anew for the next test.
        .config("spark.python.sql.dataFrameDebugging.enabled", "false")
        .config("spark.sql.codegen.cache.maxEntries", "3000")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .getOrCreate()
    )
    yield session
    session.stop()


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    """A copy of the samples and their job, to run in."""
    kept = Path(__file__).parent.parent / "data" / "samples"
    return shutil.copytree(kept, tmp_path / "samples", ignore=shutil.ignore_patterns("out"))

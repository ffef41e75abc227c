"""Everything runs unchanged over Spark Connect."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.connect import Programs, listening


@pytest.mark.slow
def test_the_same_over_connect(over_connect: Programs, samples: Path) -> None:
    counts = over_connect.last_line("-m", "tests.connect_script", str(samples))
    assert counts["listening"] == ["127.0.0.1"]
    assert counts["job"] == {"sessions": 406, "hourly": 467, "trailing": 6346}
    assert counts["after_range"] == counts["job"]
    assert set(counts["other"].values()) == {5000}
    assert counts["metrics"] == [958, 15]
    assert counts["near"][0] == counts["near"][1] > 100
    assert counts["bots"][0] > 5000 > counts["bots"][1]
    # As without Spark Connect.
    assert counts["joined"] == [7907, 4432, 5058, 5058]
    assert counts["sent"] == [407, 5055]
    assert counts["late"] == [1, 5001]
    assert counts["quarantined"] == {"no_key": 3, "no_time": 3}
    # The built-in checks of events and three windows, and the job's four; one of these only warns.
    assert counts["checks"] == [5 + 3 * 6 + 4, counts["lone"]]
    assert (counts["sessions"], counts["trailing"], counts["sessionized"]) == (406, 6346, 5052)
    assert counts["fives"] == 5000
    assert (counts["stream"]["read"], counts["stream"]["batches"]) == (5058, 2)
    assert counts["current"]
    assert "spark.driver.memory: a setting is refused: [CANNOT_MODIFY_" in counts["refused"]
    assert counts["stream"]["rows"] == counts["written"] > 400


def test_the_session_of_the_tests_listens_on_loopback_only(spark: SparkSession) -> None:
    assert spark.range(1).count() == 1
    assert listening() == ["127.0.0.1"]

"""Invariant 1 with tables that Spark's own Delta Lake has made, and compacts between runs."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

import pytest
from hypothesis.stateful import precondition, rule, run_state_machine_as_test
from pyspark.sql import SparkSession

from tests.execution.test_invariant import EVENTS, SOME, machine, steps
from tests.execution.world import World
from tests.jvm_delta import table_in
from tests.spark_sql import SparkSql, with_jars

pytestmark = [with_jars, pytest.mark.usefixtures("interpreted")]

WINDOWS = ("sessions", "hopping")


def test_any_sequence_of_runs(spark: SparkSession, spark_sql: SparkSql, tmp_path: Path) -> None:
    like = World(tmp_path / "like", spark, windows=WINDOWS, gate=True)
    like.write("0", [SOME])
    like.run_all()
    spark_sql.delta(
        *(
            f"CREATE TABLE {table_in(tmp_path / 'made' / name)} USING delta PARTITIONED BY (date) "
            f"AS SELECT * FROM {table_in(tmp_path / 'like' / 'out' / name)} WHERE false"
            for name in WINDOWS
        )
    )
    numbers = itertools.count()

    def make(texts: bool) -> World:
        folder = tmp_path / str(next(numbers))
        shutil.copytree(tmp_path / "made", folder / "out")
        return World(folder, spark, windows=WINDOWS, gate=True, texts=texts)

    class Tended(machine(make, EVENTS)):  # type: ignore[misc]
        @precondition(lambda self: self.world.published)
        @rule()
        def optimize(self) -> None:
            names = [table_in(self.world.folder / "out" / name) for name in WINDOWS]
            spark_sql.delta(*(f"OPTIMIZE {name}" for name in names))

        def teardown(self) -> None:
            """Checks that Spark reads as many rows as the tables have, which runs have checked."""
            places = [self.world.folder / "out" / name for name in WINDOWS]
            counts = " UNION ALL ".join(
                f"SELECT {number}, count(*) FROM {table_in(place)}"
                for number, place in enumerate(places)
            )
            [lines] = spark_sql.delta(f"{counts} ORDER BY 1")
            own = [len(self.world.rows(name)) for name in WINDOWS]
            assert lines == [f"{number}|{rows}" for number, rows in enumerate(own)]

    run_state_machine_as_test(Tended, settings=steps(2))

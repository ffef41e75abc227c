"""Any sequence of runs on a table that Spark's own Delta Lake makes, maintains and reads."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule, run_state_machine_as_test

from tests.jvm_delta import create, insert, read_versions, table_in
from tests.spark_sql import SparkSql, with_jars
from tests.store.test_store_model import DAYS, Store, Version, fractions
from tests.tables import paths_of, version_of

pytestmark = with_jars
dates = st.sampled_from(DAYS)


def test_any_sequence(spark_sql: SparkSql) -> None:
    class Tended(Store):
        place = "jvm"

        @initialize()
        def make(self) -> None:
            spark_sql.delta(create(self.folder))
            self.versions.append(Version((), (), frozenset()))

        def teardown(self) -> None:
            """Spark reads the same rows in every version."""
            if self.versions:
                [rows] = spark_sql.delta(read_versions(self.folder, range(len(self.versions))))
                assert sorted(rows) == sorted(
                    f"{number}|{row.replace(' ', '|')}"
                    for number, version in enumerate(self.versions)
                    for row in version.rows
                )
            super().teardown()

        def tend(self, statement: str, rows: tuple[str, ...], *days: str) -> None:
            """Lets Spark change the table; if there is nothing to do, Spark makes no version."""
            spark_sql.delta(statement)
            now = version_of(self.store, "sessions")
            assert now is not None
            while len(self.versions) <= now:
                self.versions.append(Version(rows, self.versions[-1].runs, frozenset(days)))

        @rule()
        def optimize(self) -> None:
            self.tend(f"OPTIMIZE {table_in(self.folder)}", self.versions[-1].rows)

        @rule(date=dates)
        def delete(self, date: str) -> None:
            left = tuple(row for row in self.versions[-1].rows if date not in row)
            self.tend(f"DELETE FROM {table_in(self.folder)} WHERE date = '{date}'", left, date)
            assert self.versions[-1].rows == left

        @rule(date=dates)
        def append(self, date: str) -> None:
            rows = tuple(sorted([*self.versions[-1].rows, f"spark {date}"]))
            self.tend(insert(self.folder, "spark", date), rows, date)
            assert self.versions[-1].rows == rows

        @rule(share=fractions)
        def restore_by_spark(self, share: float) -> None:
            """The record stays that of the newest run: a commit by others names no record."""
            version = int(share * (len(self.versions) - 1))
            before = set(paths_of(self.store, "sessions"))
            moved = before.symmetric_difference(paths_of(self.store, "sessions", version))
            self.tend(
                f"RESTORE TABLE {table_in(self.folder)} TO VERSION AS OF {version}",
                self.versions[version].rows,
                *(date for date in DAYS if any(date in path for path in moved)),
            )
            assert self.versions[-1].rows == self.versions[version].rows

        @precondition(lambda self: len(self.versions) > 3)
        @rule()
        def vacuum(self) -> None:
            """It deletes nothing younger than a week, and says so in the log."""
            self.tend(f"VACUUM {table_in(self.folder)}", self.versions[-1].rows)

    run_state_machine_as_test(
        Tended, settings=settings(deadline=None, max_examples=3, stateful_step_count=12)
    )

"""What Spark's own Delta Lake commits while runs compute: a conflict only where both meet."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from backfill.errors import TableError
from tests.jvm_delta import create, insert, read, table_in
from tests.lake import store_in
from tests.spark_sql import SparkSql, with_jars
from tests.store.by_hand import by_hand, content, day, publish_to
from tests.tables import paths_of, record_of

pytestmark = with_jars

MONDAY, TUESDAY = "2024-01-01", "2024-01-02"
NEITHER = "both replace the file date=2024-01-01/"
SAME = "another writer published version 3 meanwhile, and both replace 2024-01-0"
WHOLE = "another writer published version 3 meanwhile, and this run replaces everything"
#: What is committed meanwhile, then the runs that began before it, in turn: whether each replaces
#: a date, replaces everything, or only adds to a date; and why it is refused, if it is.
CASES = {
    "compacts Tuesday": (
        ["OPTIMIZE {t} WHERE date = '2024-01-02'"],
        [("add", TUESDAY, None), ("replace", MONDAY, None)],
    ),
    "compacts": (["OPTIMIZE {t}"], [("replace", MONDAY, NEITHER), ("all", MONDAY, None)]),
    "deletes a key of Tuesday": (
        ["DELETE FROM {t} WHERE user_id = 'r2' AND date = '2024-01-02'"],
        [
            ("all", MONDAY, WHOLE),
            ("replace", TUESDAY, SAME),
            ("add", TUESDAY, SAME),
            ("replace", MONDAY, None),
        ],
    ),
    "deletes Tuesday": (
        ["DELETE FROM {t} WHERE date = '2024-01-02'"],
        [("all", MONDAY, WHOLE), ("add", TUESDAY, SAME), ("replace", MONDAY, None)],
    ),
    "adds a row to Tuesday": (
        [insert(Path("{f}"), "spark", TUESDAY)],
        [("all", MONDAY, WHOLE), ("add", TUESDAY, SAME), ("replace", MONDAY, None)],
    ),
    "changes no row": (
        [
            "DELETE FROM {t} WHERE user_id = 'nobody'",
            "ALTER TABLE {t} SET TBLPROPERTIES ('mine' = 'x')",
            "VACUUM {t}",
        ],
        [("all", MONDAY, None)],
    ),
    "adds a column": (
        ["ALTER TABLE {t} ADD COLUMNS (note STRING)"],
        [
            ("replace", MONDAY, "the columns or types of the new files do not match"),
            ("all", MONDAY, None),
        ],
    ),
}


def test_between_staging_and_publishing(spark_sql: SparkSql, tmp_path: Path) -> None:
    """All at once, each in its own table, so that Spark reads them all in one statement."""
    folders = {name: tmp_path / str(n) / "sessions" for n, name in enumerate(CASES)}
    spark_sql.delta(create(tmp_path / "made"))
    runs = {}
    for name, folder in folders.items():
        shutil.copytree(tmp_path / "made", folder)
        store = store_in(folder.parent)
        # Two files for each date, which OPTIMIZE joins.
        for run in ("r1", "r2"):
            publish_to(store, by_hand(store, run, MONDAY, TUESDAY), [])
        old = paths_of(store, "sessions")
        runs[name] = [
            (
                by_hand(store, f"{what}{number}", date),
                {"all": "all", "add": [], "replace": [path for path in old if date in path]}[what],
                None if what == "all" else day(date),
            )
            for number, (what, date, _) in enumerate(CASES[name][1])
        ]
    spark_sql.delta(
        *(
            statement.format(t=table_in(folder), f=folder)
            for name, folder in folders.items()
            for statement in CASES[name][0]
        )
    )
    for name, folder in folders.items():
        store = store_in(folder.parent)
        published = ["r1", "r2"]
        for (staged, replace, dates), (what, date, refused) in zip(
            runs[name], CASES[name][1], strict=True
        ):
            before = content(store)
            if refused is not None:
                with pytest.raises(TableError, match=refused):
                    publish_to(store, staged, replace, dates=dates, base=2)
                store.discard(staged)
                assert content(store) == before, name
                continue
            publish_to(store, staged, replace, dates=dates, base=2)
            published.append(staged.run_id)
            gone = {"all": "2024", "add": "nothing", "replace": date}[what]
            kept = [row for row in before if gone not in row]
            assert content(store) == sorted([*kept, f"{staged.run_id} {date}"]), name
        assert record_of(store, "sessions") == {"runs": published}, name
    [theirs] = spark_sql.delta(read(*folders.values()))
    ours = [row for folder in folders.values() for row in content(store_in(folder.parent))]
    assert sorted(theirs) == sorted(row.replace(" ", "|") for row in ours)

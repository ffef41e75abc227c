"""Two runs conflict where their dates or files meet, and nowhere else."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone

import pytest
from deltalake import DeltaTable, Schema, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from backfill.errors import TableError
from backfill.folders import LocalFolder
from backfill.store import DeltaStore
from backfill.store.delta.writing import additions
from backfill.store.files.conflict import check_conflict, closure_text
from backfill.store.files.log import FileChanges
from backfill.store.files.staging import move_files
from backfill.store.protocol import Commit
from tests.store.by_hand import by_hand, content, day, days
from tests.tables import folder_of, paths_of, record_of

Publish = Callable[..., int]

MONDAY, TUESDAY, WEDNESDAY, THURSDAY = (f"2024-01-0{number}" for number in range(1, 5))
EVERYTHING = None
WON = "sessions: run theirs published version 1 meanwhile, and "


@pytest.mark.parametrize(
    ("theirs", "their_files", "ours", "our_files", "refusal"),
    [
        (day(MONDAY), [MONDAY], day(TUESDAY), [TUESDAY], None),
        (day(WEDNESDAY), [], day(THURSDAY), [], None),
        (day(WEDNESDAY), [], day(WEDNESDAY), [], "both replace 2024-01-03"),
        (days(MONDAY, WEDNESDAY), [], days(WEDNESDAY, THURSDAY), [], None),
        (
            days(MONDAY, THURSDAY),
            [MONDAY],
            days(TUESDAY, "2024-02-01"),
            [TUESDAY],
            "both replace [2024-01-02, 2024-01-04)",
        ),
        (
            [*day(MONDAY), *day(WEDNESDAY)],
            [],
            days(MONDAY, THURSDAY),
            [],
            "both replace 2024-01-01, 2024-01-03",
        ),
        (EVERYTHING, [], day(TUESDAY), [], "it replaced everything"),
        (day(TUESDAY), "all", day(MONDAY), [], "it replaced everything"),
        (day(TUESDAY), [], EVERYTHING, [], "this run replaces everything"),
        (day(TUESDAY), [], day(MONDAY), "all", "this run replaces everything"),
        ([], [], [], [], None),
        (EVERYTHING, [], [], [], "it replaced everything"),
        ([], [MONDAY], day(TUESDAY), [MONDAY], "both replace the file date=2024-01-01/part-"),
    ],
)
def test_of_two_runs_from_one_version(
    store: DeltaStore,
    publish: Publish,
    theirs: list[tuple[date, date]] | None,
    their_files: list[str] | str,
    ours: list[tuple[date, date]] | None,
    our_files: list[str] | str,
    refusal: str | None,
) -> None:
    publish(by_hand(store, "first", MONDAY, TUESDAY))
    paths = {path[5:15]: path for path in paths_of(store, "sessions")}

    def replaced(names: list[str] | str) -> list[str] | str:
        return [paths[name] for name in names] if isinstance(names, list) else names

    publish(by_hand(store, "theirs", "2024-03-01"), replaced(their_files), dates=theirs)
    before = content(store)
    staged = by_hand(store, "ours", "2024-03-02")
    if refusal is None:
        assert publish(staged, replaced(our_files), dates=ours, base=0) == 2
        assert "theirs 2024-03-01" in content(store)
        assert "ours 2024-03-02" in content(store)
        assert record_of(store, "sessions") == {"runs": ["first", "theirs", "ours"]}
    else:
        with pytest.raises(TableError, match=re.escape(WON + refusal)) as caught:
            publish(staged, replaced(our_files), dates=ours, base=0)
        assert "Run again to start from the current version" in str(caught.value)
        assert content(store) == before
        assert record_of(store, "sessions") == {"runs": ["first", "theirs"]}


def test_both_begin_from_no_table(store: DeltaStore, publish: Publish) -> None:
    staged = [by_hand(store, f"r{number}", MONDAY) for number in range(3)]
    assert publish(staged[0], [], dates=day(MONDAY), base=None) == 0
    with pytest.raises(TableError, match="run r0 published version 0 meanwhile"):
        publish(staged[1], [], dates=day(MONDAY), base=None)
    assert publish(staged[2], [], dates=day(TUESDAY), base=None) == 1


ranges = st.lists(
    st.tuples(st.integers(0, 40), st.integers(1, 9)).map(
        lambda span: (
            date(2024, 1, 1) + timedelta(span[0]),
            date(2024, 1, 1) + timedelta(sum(span)),
        )
    ),
    max_size=4,
)


@given(theirs=ranges, ours=ranges)
@settings(deadline=None, max_examples=300)
def test_dates_meet_where_a_day_is_in_both(
    theirs: list[tuple[date, date]], ours: list[tuple[date, date]]
) -> None:
    def all_days(ranges: list[tuple[date, date]]) -> set[date]:
        return {
            start + timedelta(number)
            for start, end in ranges
            for number in range((end - start).days)
        }

    commit = Commit(
        3,
        datetime.now(timezone.utc),
        {"run_id": "x", "closure": closure_text(theirs), "record": "x"},
    )
    changes = FileChanges(frozenset(), frozenset(), bool(theirs))
    met = all_days(theirs) & all_days(ours)
    if not met:
        check_conflict("t", commit, changes, ours, [])
    else:
        with pytest.raises(TableError, match="both replace") as caught:
            check_conflict("t", commit, changes, ours, [])
        assert str(min(met)) in str(caught.value)


def test_a_compaction_by_others_is_in_the_way_of_its_files_only(
    store: DeltaStore, publish: Publish
) -> None:
    publish(by_hand(store, "r1", MONDAY, TUESDAY))
    publish(by_hand(store, "r2", MONDAY), [])
    live = paths_of(store, "sessions")
    DeltaTable(folder_of(store, "sessions")).optimize.compact()
    assert publish(by_hand(store, "r3", WEDNESDAY), [live[-1]], dates=day(TUESDAY), base=1) == 3
    with pytest.raises(TableError, match=r"another writer published version 2 .* the file date="):
        publish(by_hand(store, "r4", MONDAY), [live[0]], dates=day(MONDAY), base=1)
    assert content(store) == ["r1 2024-01-01", "r2 2024-01-01", "r3 2024-01-03"]
    DeltaTable(folder_of(store, "sessions")).alter.set_table_properties(
        {"delta.logRetentionDuration": "interval 90 days"}
    )
    assert publish(by_hand(store, "r5", THURSDAY), base=3) == 5
    assert content(store) == ["r5 2024-01-04"]


def test_rows_by_others_are_in_the_way_of_runs_of_their_dates(
    store: DeltaStore, publish: Publish
) -> None:
    publish(by_hand(store, "r1", MONDAY, TUESDAY))
    folder = folder_of(store, "sessions")
    DeltaTable(folder).delete(f"date = '{MONDAY}'")
    rows = DeltaTable(folder).to_pyarrow_table()
    write_deltalake(str(folder), rows, mode="append")
    for version, met in ((1, MONDAY), (2, TUESDAY)):
        with pytest.raises(TableError, match=f"another writer .* {version} .* replace {met}"):
            publish(by_hand(store, f"m{version}", met), [], dates=day(met), base=0)
    with pytest.raises(TableError, match=r"another writer .* this run replaces everything"):
        publish(by_hand(store, "all", MONDAY), base=1)
    assert publish(by_hand(store, "r4", WEDNESDAY), [], dates=day(WEDNESDAY), base=0) == 3
    assert content(store) == [f"r1 {TUESDAY}", f"r1 {TUESDAY}", f"r4 {WEDNESDAY}"]


def test_rows_by_others_without_a_date_are_in_everybodys_way() -> None:
    commit = Commit(1, datetime.now(timezone.utc), {})
    for path in (
        "part-1.parquet",
        "date=__HIVE_DEFAULT_PARTITION__/1.parquet",
        "date=2024-02-30/1.parquet",
    ):
        changes = FileChanges(frozenset([path]), frozenset(), True)
        with pytest.raises(TableError, match=r"another writer .* it replaced everything"):
            check_conflict("t", commit, changes, day(MONDAY), [])


def test_the_library_alone_lets_two_first_writers_of_a_date_double_its_rows(
    store: DeltaStore, publish: Publish
) -> None:
    """Why `publish` does not leave it to the library."""
    publish(by_hand(store, "r1", MONDAY))
    folder = folder_of(store, "sessions")
    runs = [by_hand(store, f"w{number}", TUESDAY) for number in range(2)]
    tables = [DeltaTable(folder), DeltaTable(folder)]
    for staged, table in zip(runs, tables, strict=True):
        move_files(staged, LocalFolder(folder))
        table.create_write_transaction(
            additions(staged),
            mode="overwrite",
            schema=Schema.from_json(staged.schema),
            partition_by=["date"],
            partition_filters=[("date", "=", TUESDAY)],
        )
    assert content(store) == ["r1 2024-01-01", "w0 2024-01-02", "w1 2024-01-02"]
    # `publish` refuses the second.
    with pytest.raises(TableError, match="published version 1 meanwhile"):
        publish(by_hand(store, "ours", TUESDAY), [], dates=day(TUESDAY), base=0)

"""Each version carries the record of what was counted for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from backfill.errors import TableError
from backfill.folders import LocalFolder
from backfill.store import DeltaStore
from backfill.store.files.record import write_record
from tests.store.by_hand import by_hand, content, day
from tests.tables import folder_of, record_of, version_of

Publish = Callable[..., int]


def test_every_version_has_its_own(store: DeltaStore, publish: Publish) -> None:
    publish(by_hand(store, "r1", "2024-01-01"))
    publish(by_hand(store, "r2", "2024-01-01"), [])
    DeltaTable(folder_of(store, "sessions")).optimize.compact()
    assert version_of(store, "sessions") == 2
    assert record_of(store, "sessions", version=0) == {"runs": ["r1"]}
    assert record_of(store, "sessions", version=1) == {"runs": ["r1", "r2"]}
    assert record_of(store, "sessions", version=2) == {"runs": ["r1", "r2"]}
    assert publish(by_hand(store, "r3", "2024-01-02"), [], dates=day("2024-01-02")) == 3
    assert record_of(store, "sessions") == {"runs": ["r1", "r2", "r3"]}
    with pytest.raises(
        TableError, match=r"the table cannot be read at version 9: .*`backfill history`"
    ):
        record_of(store, "sessions", version=9)


def test_it_stands_on_the_version_that_came_first(store: DeltaStore, publish: Publish) -> None:
    """It does not stand on the version that the run began from."""
    publish(by_hand(store, "r1", "2024-01-01"))
    others = iter([by_hand(store, f"other{n}", f"2024-02-0{n}") for n in range(1, 4)])
    given = []

    def record(before: dict[str, list[str]] | None) -> dict[str, list[str]]:
        assert before is not None
        given.append(list(before["runs"]))
        for other in others:
            publish(other, [], dates=day(other.files[0].path[5:15]))
            break
        return {"runs": [*before["runs"], "mine"]}

    version = store.publish(
        "sessions",
        by_hand(store, "mine", "2024-01-05"),
        replace=[],
        base=0,
        dates=day("2024-01-05"),
        metadata={},
        record=record,
    )
    assert version == 4
    assert given == [
        ["r1"],
        ["r1", "other1"],
        ["r1", "other1", "other2"],
        ["r1", "other1", "other2", "other3"],
    ]
    assert record_of(store, "sessions") == {"runs": [*given[-1], "mine"]}
    assert record_of(store, "sessions", version=3) == {"runs": given[-1]}


def test_a_table_by_others_has_none(store: DeltaStore, tmp_path: Path) -> None:
    write_deltalake(str(folder_of(store, "t")), pa.table({"x": [1]}))
    assert record_of(store, "t") is None
    assert record_of(store, "t", version=0) is None
    assert record_of(store, "nothing") is None


def test_one_whose_commit_has_expired(store: DeltaStore, publish: Publish) -> None:
    """Tables that others have made let old commits expire unless told otherwise."""

    def expire(name: str) -> None:
        table = DeltaTable(folder_of(store, name))
        table.alter.set_table_properties({"mine": "x"}, raise_if_not_exists=False)
        table.create_checkpoint()
        (folder_of(store, name) / "_delta_log" / f"{0:020}.json").unlink()

    publish(by_hand(store, "r1", "2024-01-01"))
    expire("sessions")
    assert store.clean("sessions", older_than_s=-1).records == 0
    expired = r"has counted is not known any more.*\(got 1\)\. Move the table away"
    with pytest.raises(TableError, match=expired):
        record_of(store, "sessions")
    with pytest.raises(TableError, match=expired):
        publish(by_hand(store, "r2", "2024-01-02"), [])
    assert content(store) == ["r1 2024-01-01"]
    # For a table that no run has published into, no record is missing.
    write_deltalake(str(folder_of(store, "t")), pa.table({"x": [1]}))
    expire("t")
    assert record_of(store, "t") is None
    # Nor is the record of a run that died before it published.
    write_record(LocalFolder(folder_of(store, "t")), "dead", {"runs": ["dead"]})
    assert record_of(store, "t") is None
    assert store.clean("t", older_than_s=-1).records == 1


@pytest.mark.parametrize("content", [None, b"", b'{"runs": ["r', b"[1]", b"\xff"])
def test_a_damaged_record_is_named(
    store: DeltaStore, publish: Publish, content: bytes | None
) -> None:
    publish(by_hand(store, "r1", "2024-01-01"))
    publish(by_hand(store, "r2", "2024-01-02"), [])
    path = folder_of(store, "sessions") / "_record" / "r2.json"
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    what = "missing" if content is None else "damaged"
    with pytest.raises(TableError, match=rf"r2\.json: the record .* is {what}.*backfill restore"):
        record_of(store, "sessions")
    with pytest.raises(TableError, match=rf"r2\.json: the record .* is {what}"):
        publish(by_hand(store, "r3", "2024-01-03"), [])
    # One of the remedies that the error names.
    store.restore("sessions", 0, run_id="back", metadata={})
    assert record_of(store, "sessions") == {"runs": ["r1"]}


def test_a_run_that_dies_before_its_commit_changes_none(
    store: DeltaStore, publish: Publish
) -> None:
    publish(by_hand(store, "r1", "2024-01-01"))
    folder = folder_of(store, "sessions")
    write_record(LocalFolder(folder), "dead", {"runs": ["r1", "dead"]})
    (folder / "_record" / "dying.tmp").write_text('{"ru')
    assert record_of(store, "sessions") == {"runs": ["r1"]}


def test_names_of_files_that_are_no_unicode(store: DeltaStore) -> None:
    name = b"caf\xe9".decode("utf-8", "surrogateescape")
    store.publish(
        "sessions",
        by_hand(store, "r1", "2024-01-01"),
        replace="all",
        base=None,
        dates=None,
        metadata={},
        record=lambda before: {name: "ü"},
    )
    assert record_of(store, "sessions") == {name: "ü"}
    assert content(store) == ["r1 2024-01-01"]

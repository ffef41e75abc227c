"""Catalogs that are only a folder: which version is the newest, and where no table can be."""

from __future__ import annotations

import errno
import gzip
import logging
import os
from pathlib import Path

import pytest
from pyiceberg.table import Table

from backfill.errors import TableError
from backfill.folders import folder_at
from backfill.iceberg.catalog import open_catalog
from backfill.iceberg.hadoop import HadoopCatalog
from backfill.store.files.store import FileStore
from backfill.store.iceberg.store import IcebergStore
from tests.lake import hadoop_options, store_in
from tests.store.by_hand import by_hand, content, publish_to
from tests.tables import folder_of, record_of, version_of

pytestmark = pytest.mark.one_lane

DAYS = ("2024-01-01", "2024-01-02", "2024-01-03")


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    file_store = store_in(tmp_path / "hadoop")
    for number, day in enumerate(DAYS[:2]):
        publish_to(file_store, by_hand(file_store, f"r{number}", day), "all" if number == 0 else [])
    return file_store


@pytest.fixture
def metadata(store: FileStore) -> Path:
    return folder_of(store, "sessions") / "metadata"


def test_a_table_is_the_folder_of_its_name(metadata: Path, tmp_path: Path) -> None:
    assert metadata == tmp_path / "hadoop" / "web" / "sessions" / "metadata"
    versions = sorted(path.name for path in metadata.glob("*.json"))
    assert versions == ["v1.metadata.json", "v2.metadata.json"]
    assert (metadata / "version-hint.text").read_bytes() == b"2"


@pytest.mark.parametrize("hint", ["1", "9", "", None])
def test_the_hint_may_be_old_or_gone(store: FileStore, metadata: Path, hint: str | None) -> None:
    # Left by a writer that was killed in between, or was slower than the next one.
    (metadata / "version-hint.text").unlink()
    if hint is not None:
        (metadata / "version-hint.text").write_text(hint)
    assert version_of(store, "sessions") == 1
    assert publish_to(store, by_hand(store, "r2", DAYS[2]), []) == 2
    assert (metadata / "version-hint.text").read_text() == "3"


def test_a_hint_that_cannot_be_written_does_not_undo_a_commit(
    store: FileStore, metadata: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (metadata / "version-hint.text").unlink()
    (metadata / "version-hint.text").mkdir()
    with caplog.at_level(logging.WARNING, "backfill"):
        assert publish_to(store, by_hand(store, "r2", DAYS[2]), []) == 2
    assert "version-hint.text was not written" in caplog.text
    assert record_of(store, "sessions") == {"runs": ["r0", "r1", "r2"]}


@pytest.mark.parametrize("name", ["v10.gz.metadata.json", "v10.metadata.json.gz"])
def test_metadata_may_be_compressed(store: FileStore, metadata: Path, name: str) -> None:
    newest = metadata / "v2.metadata.json"
    (metadata / name).write_bytes(gzip.compress(newest.read_bytes()))
    newest.unlink()
    # A file of a writer that has not committed, and an unrelated one.
    (metadata / "0a1b.metadata.json").write_text("unfinished")
    (metadata / "v99.metadata.json.bak").write_text("of somebody's")
    assert content(store) == [f"r{number} {day}" for number, day in enumerate(DAYS[:2])]
    publish_to(store, by_hand(store, "r2", DAYS[2]), [])
    assert (metadata / "v11.metadata.json").exists()


@pytest.mark.parametrize(
    ("number", "made", "problem"),
    [
        (errno.EPERM, False, "the commit failed: .*by a hard link: not allowed"),
        (errno.ETIMEDOUT, False, "it is not known whether the commit was made: .*not allowed"),
        # As on a network disk whose answer is lost: the table shows that the commit was made.
        (errno.ETIMEDOUT, True, None),
    ],
)
def test_a_disk_that_makes_no_link(
    store: FileStore,
    metadata: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    made: bool,
    problem: str | None,
) -> None:
    staged, link = by_hand(store, "r2", DAYS[2]), os.link

    def failing(source: Path, target: Path) -> None:
        if made:
            link(source, target)
        raise OSError(number, "not allowed")

    monkeypatch.setattr(os, "link", failing)
    if problem is None:
        assert publish_to(store, staged, []) == 2
    else:
        with pytest.raises(TableError, match=problem):
            publish_to(store, staged, [])
    monkeypatch.undo()
    runs = ["r0", "r1", *(["r2"] if made else [])]
    assert record_of(store, "sessions") == {"runs": runs}
    assert len(content(store)) == len(runs)
    assert not list(metadata.glob("*-*.metadata.json"))


def test_a_commit_of_which_nothing_can_be_known_is_kept(
    store: FileStore, metadata: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    staged, link, load = by_hand(store, "r2", DAYS[2]), os.link, HadoopCatalog.load_table

    def lost(source: Path, target: Path) -> None:
        link(source, target)
        raise OSError(errno.ETIMEDOUT, "no answer")

    def unread(catalog: HadoopCatalog, name: str) -> Table:
        if (metadata / "v3.metadata.json").exists():
            raise OSError(errno.ETIMEDOUT, "no answer")
        return load(catalog, name)

    monkeypatch.setattr(os, "link", lost)
    monkeypatch.setattr(HadoopCatalog, "load_table", unread)
    with pytest.raises(TableError, match="not known whether the commit was made"):
        publish_to(store, staged, [])
    monkeypatch.undo()
    # Its manifests were kept, so the table can be read.
    assert len(content(store)) == 3
    assert record_of(store, "sessions") == {"runs": ["r0", "r1", "r2"]}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"type": "hadoop"}, "tables.catalog: .* needs a warehouse"),
        (hadoop_options(Path("/a")) | {"warehouse": "a/b"}, "needs a warehouse.*the absolute path"),
        (hadoop_options(Path("/a")) | {"warehouse": "file:///"}, "needs a warehouse"),
        (hadoop_options(Path("/a")) | {"warehouse": "/"}, "needs a warehouse"),
        (hadoop_options(Path("/a")) | {"warehouse": "hdfs://a/b"}, "must be a local folder, or"),
        (hadoop_options(Path("/a")) | {"warehouse": "s3://a/b"}, "can only be written on a disk"),
    ],
)
def test_no_such_catalog(options: dict[str, str], problem: str) -> None:
    with pytest.raises(TableError, match=problem) as caught:
        version_of(IcebergStore("lake", "web", options), "sessions")
    assert caught.value.way_out


@pytest.mark.parametrize("schema", ["a..b", "", "a/b", "a\\b"])
def test_names_are_folders_within_the_warehouse(tmp_path: Path, schema: str) -> None:
    store = IcebergStore("lake", schema, hadoop_options(tmp_path))
    with pytest.raises(TableError, match="must be the name of a folder"):
        version_of(store, "sessions")


@pytest.mark.parametrize("schema", ["web.sessions", "web.sessions.more"])
def test_no_schema_is_in_a_tables_folder(store: FileStore, tmp_path: Path, schema: str) -> None:
    other = IcebergStore("lake", schema, hadoop_options(tmp_path / "hadoop"))
    with pytest.raises(TableError, match="there is a table of this name"):
        publish_to(other, by_hand(other, "r1", DAYS[0]))


def test_in_an_object_store_tables_are_read(store: FileStore, metadata: Path, bucket: str) -> None:
    folder_at(f"{bucket}/lake/web/sessions/metadata").write(
        "v7.metadata.json", (metadata / "v2.metadata.json").read_bytes()
    )
    catalog = open_catalog("lake", {"type": "hadoop", "warehouse": f"{bucket}/lake"}, field="x")
    table = catalog.load_table("web.sessions")
    assert table.metadata_location == f"{bucket}/lake/web/sessions/metadata/v7.metadata.json"
    assert len(table.snapshots()) == 2

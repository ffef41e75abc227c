"""Folders on the local disk when something is in the way."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from backfill.errors import TableError
from backfill.events.listing import _identity
from backfill.folders import LocalFolder
from backfill.printable import shown
from backfill.store import DeltaStore
from tests.store.by_hand import by_hand, content, publish_to

pytestmark = pytest.mark.one_lane

DAYS = ("2024-01-01", "2024-01-02")


def test_what_cannot_be_listed_is_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = LocalFolder(tmp_path)
    for name in ("a/1", "b/2"):
        folder.write(name, b"x")
    whole = os.scandir

    def stale(path: Any = ".") -> Any:
        if str(path).endswith("/b"):
            raise OSError(errno.ESTALE, "Stale file handle")
        return whole(path)

    monkeypatch.setattr(os, "scandir", stale)
    with pytest.raises(TableError, match="can't be read or written: Stale file handle"):
        folder.files()


def test_what_cannot_be_opened_is_no_missing_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(path: Any) -> Any:
        raise PermissionError(errno.EACCES, "Permission denied")

    (tmp_path / "file").write_text("")
    assert DeltaStore(tmp_path / "file").open("t") is None
    monkeypatch.setattr(os, "listdir", denied)
    with pytest.raises(TableError, match="can't be read or written: Permission denied"):
        DeltaStore(tmp_path).open("t")


def test_what_the_disk_refuses_is_named(tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path)
    (tmp_path / "file").write_text("")
    # A file where a folder is needed, and a name that no disk takes.
    for inside in ("file/inside", "x" * 300):
        with pytest.raises(TableError, match="can't be read or written: ") as caught:
            folder.write(inside, b"")
        assert str(tmp_path) in str(caught.value.field)
    with pytest.raises(TableError, match="File name too long"):
        folder.missing(["x" * 300])
    assert folder.missing(["file", "file/inside", "other"]) == ["file/inside", "other"]
    with pytest.raises(FileNotFoundError):
        folder.read("other")


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="Linux has it")
def test_a_folder_that_cannot_be_made_is_named() -> None:
    with pytest.raises(TableError, match=r"^/proc/x/y: can't be made"):
        LocalFolder(Path("/proc/x/y")).make()


def test_a_run_is_published_though_its_staging_folder_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = DeltaStore(tmp_path)
    staged = by_hand(store, "r1", *DAYS)

    def busy(path: Any, **options: Any) -> None:
        raise PermissionError(errno.EBUSY, "Device or resource busy", str(path))

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", busy)
        assert publish_to(store, staged) == 0
        with pytest.raises(TableError, match="busy"):
            store.clean("sessions", older_than_s=-1)
    assert content(store) == [f"r1 {day}" for day in DAYS]
    assert store.clean("sessions", older_than_s=-1).staged == 1
    assert not list((tmp_path / "sessions" / "_staging").iterdir())


def test_a_clean_up_takes_whatever_lies_there(tmp_path: Path) -> None:
    store = DeltaStore(tmp_path)
    publish_to(store, by_hand(store, "r1", DAYS[0]))
    table = tmp_path / "sessions"
    (table / "_staging" / ".DS_Store").write_text("x")
    (table / "_staging" / "link").symlink_to(tmp_path)
    (table / "_record" / "folder").mkdir()
    cleaned = store.clean("sessions", older_than_s=-1)
    assert (cleaned.staged, cleaned.records) == (2, 1)
    assert not list((table / "_staging").iterdir())
    assert content(store) == ["r1 2024-01-01"]


def test_a_file_has_one_identity_in_both_schemes() -> None:
    assert _identity("s3a://shop/a") == _identity("s3://shop/a") != _identity("s3://shop/s3a:")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("s3://KEY:sec/ret@shop/a", "s3://shop/a"),
        ("https://me:x@host/a@b", "https://host/a@b"),
        ("https://me@host/a", "https://host/a"),
        ("/data/a@b", "/data/a@b"),
    ],
)
def test_paths_are_shown_without_keys(path: str, expected: str) -> None:
    assert shown(path) == expected

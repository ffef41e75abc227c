"""Catalogs that are servers, and fail or refuse while a run publishes."""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from backfill.errors import TableError
from backfill.store.files.store import FileStore
from backfill.store.iceberg.store import IcebergStore
from tests.lake import SERVED, store_in
from tests.proxy import Proxy, before
from tests.store.by_hand import by_hand, content, publish_to
from tests.tables import folder_of, record_of, version_of

DAYS = ("2024-01-01", "2024-01-02", "2024-01-03")
SECRET = "marker-s3cret"
#: The option that names each catalog's server.
SETTINGS = {"rest": "uri", "glue": "glue.endpoint", "hive": "uri"}


@pytest.fixture(params=SERVED)
def kind(request: pytest.FixtureRequest, reach: Callable[[str], None]) -> str:
    reach(request.param)
    return str(request.param)


@pytest.fixture
def store(kind: str, tmp_path: Path) -> FileStore:
    file_store = store_in(tmp_path / kind)
    publish_to(file_store, by_hand(file_store, "r1", DAYS[0]))
    return file_store


@pytest.fixture
def proxy(kind: str) -> Iterator[Proxy]:
    name = SETTINGS[kind].upper().replace(".", "__")
    with before(os.environ[f"PYICEBERG_CATALOG__{kind.upper()}__{name}"]) as relay:
        yield relay


@pytest.fixture
def behind(store: IcebergStore, proxy: Proxy) -> IcebergStore:
    """The same tables, reached through the proxy, with a secret among the catalog's settings."""
    settings = {SETTINGS[store.name]: proxy.address, "token": SECRET, "glue.max-retries": 1}
    return IcebergStore(store.name, ".".join(store.namespace), settings)


@pytest.mark.parametrize("losing", ["request", "answer"])
def test_a_server_that_fails_during_a_commit(
    store: FileStore, behind: FileStore, proxy: Proxy, losing: str
) -> None:
    made = losing == "answer"
    staged = by_hand(behind, "r2", DAYS[1])
    proxy.losing = losing
    if made:
        # If the answer is lost, the catalog can be asked.
        assert publish_to(behind, staged, []) == 1
    else:
        with pytest.raises(TableError, match=r"not known whether the commit was made: .") as caught:
            publish_to(behind, staged, [])
        assert SECRET not in "".join(traceback.format_exception(caught.value))
        behind.discard(staged)
    assert version_of(store, "sessions") == int(made)
    assert content(store) == [f"r1 {DAYS[0]}", *([f"r2 {DAYS[1]}"] if made else [])]
    assert record_of(store, "sessions") == {"runs": ["r1", *(["r2"] if made else [])]}
    assert store.clean("sessions", older_than_s=-1).files == 1 - made


@pytest.mark.parametrize("kind", ["glue"], indirect=True)
@pytest.mark.parametrize("losing", ["request", "answer"])
def test_a_commit_that_amazons_library_sends_again(
    store: IcebergStore, proxy: Proxy, losing: str
) -> None:
    namespace = ".".join(store.namespace)
    behind = IcebergStore(store.name, f"{namespace}_again", {"glue.endpoint": proxy.address})
    # The first commit makes the table, the second changes it, and the third goes back.
    for run, day in enumerate(DAYS[:2]):
        proxy.losing, proxy.times = losing, 1
        # If the first request was carried out, the second is refused, but not by another's commit.
        assert publish_to(behind, by_hand(behind, f"r{run}", day), []) == run
        assert proxy.times == 0
    assert content(behind) == [f"r0 {DAYS[0]}", f"r1 {DAYS[1]}"]
    assert record_of(behind, "sessions") == {"runs": ["r0", "r1"]}
    proxy.times = 1
    assert behind.restore("sessions", 0, run_id="back", metadata={}) == 2
    assert proxy.times == 0
    assert content(behind) == [f"r0 {DAYS[0]}"]


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        ("rest", {"error": {"message": f"not {SECRET}", "type": "Forbidden", "code": 403}}),
        ("glue", {"__type": "AccessDeniedException", "message": f"not {SECRET}"}),
    ],
    indirect=["kind"],
)
def test_a_commit_that_is_refused(
    store: FileStore, behind: FileStore, proxy: Proxy, answer: dict[str, object]
) -> None:
    staged = by_hand(behind, "r2", DAYS[1])
    proxy.answer = json.dumps(answer).encode()
    with pytest.raises(TableError, match=r"the commit failed: .*not …") as caught:
        publish_to(behind, staged, [])
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    behind.discard(staged)
    proxy.answer = None
    # It is certain that no commit was made, and nothing is left, not even the library's own files.
    assert store.clean("sessions", older_than_s=-1).files == 0
    metadata = folder_of(store, "sessions") / "metadata"
    assert len(list(metadata.glob("snap-*.avro"))) == 1
    assert len(list(metadata.glob("*-m*.avro"))) == 1
    assert publish_to(behind, by_hand(behind, "r3", DAYS[2]), []) == 1
    assert content(store) == [f"r1 {DAYS[0]}", f"r3 {DAYS[2]}"]

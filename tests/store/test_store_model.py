"""Any sequence of runs, deaths, restores and clean-ups, against a model in plain Python."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from deltalake import DeltaTable
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from backfill.errors import TableError
from backfill.folders import LocalFolder
from backfill.store.files.record import write_record
from backfill.store.files.staging import move_files
from tests.lake import store_in
from tests.store.by_hand import by_hand, content, day, publish_to
from tests.tables import folder_of, paths_of, record_of, version_of

DAYS = ("2024-01-01", "2024-01-02", "2024-01-03")
fractions = st.floats(0, 1)


@dataclass(frozen=True)
class Version:
    """What a version holds, and which days its commit replaced (None: all)."""

    rows: tuple[str, ...]
    runs: tuple[str, ...]
    replaced: frozenset[str] | None


class Store(RuleBasedStateMachine):
    place = "out"

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.store = store_in(self.root / self.place)
        self.versions: list[Version] = []
        self.started = 0

    def teardown(self) -> None:
        shutil.rmtree(self.root)

    @property
    def folder(self) -> Path:
        return folder_of(self.store, "sessions")

    def run_id(self) -> str:
        self.started += 1
        return f"r{self.started:03}"

    def base(self, share: float) -> int | None:
        """A version that a run may have begun from, mostly one of the newest."""
        back = int(share**3 * (len(self.versions) + 1))
        newest = len(self.versions) - 1
        return newest - back if newest >= back else None

    def came(self, version: int | None) -> list[Version]:
        return self.versions[0 if version is None else version + 1 :]

    @rule(date=st.sampled_from(DAYS), share=fractions, adds=st.booleans())
    def replace_a_day(self, date: str, share: float, adds: bool) -> None:
        """Or only add to it, if `adds`."""
        base, run_id = self.base(share), self.run_id()
        old = [] if base is None else paths_of(self.store, "sessions", version=base)
        files = [] if adds else [path for path in old if date in path]
        staged = by_hand(self.store, run_id, date)
        now = paths_of(self.store, "sessions") if self.versions else ()
        conflict = any(
            newer.replaced is None or date in newer.replaced for newer in self.came(base)
        )
        if conflict or not set(files) <= set(now):
            with pytest.raises(TableError, match="published version"):
                publish_to(self.store, staged, files, dates=day(date), base=base)
            self.store.discard(staged)
            return
        version = publish_to(self.store, staged, files, dates=day(date), base=base)
        assert version == len(self.versions)
        before = self.versions[-1] if self.versions else Version((), (), None)
        kept = [row for row in before.rows if adds or date not in row]
        self.versions.append(
            Version(
                tuple(sorted([*kept, f"{run_id} {date}"])),
                (*before.runs, run_id),
                frozenset([date]),
            )
        )

    @rule(share=fractions)
    def replace_everything(self, share: float) -> None:
        base, run_id = self.base(share), self.run_id()
        staged = by_hand(self.store, run_id, *DAYS)
        # If files were only joined meanwhile, nothing has changed.
        if any(newer.replaced != frozenset() for newer in self.came(base)):
            with pytest.raises(TableError, match="published version"):
                publish_to(self.store, staged, base=base)
            self.store.discard(staged)
            return
        assert publish_to(self.store, staged, base=base) == len(self.versions)
        runs = self.versions[-1].runs if self.versions else ()
        rows = tuple(f"{run_id} {date}" for date in DAYS)
        self.versions.append(Version(rows, (*runs, run_id), None))

    @precondition(lambda self: self.versions)
    @rule(share=fractions)
    def restore(self, share: float) -> None:
        version = int(share * (len(self.versions) - 1))
        made = self.store.restore("sessions", version, run_id=self.run_id(), metadata={})
        if version < len(self.versions) - 1:
            old = self.versions[version]
            self.versions.append(Version(old.rows, old.runs, None))
        assert made == len(self.versions) - 1

    @precondition(lambda self: self.versions and self.place == "out")
    @rule()
    def others_join_files(self) -> None:
        DeltaTable(self.folder).optimize.compact()
        if version_of(self.store, "sessions") == len(self.versions):
            old = self.versions[-1]
            self.versions.append(Version(old.rows, old.runs, frozenset()))

    @rule(date=st.sampled_from(DAYS), moved=st.booleans())
    def die(self, date: str, moved: bool) -> None:
        run_id = self.run_id()
        staged = by_hand(self.store, run_id, date)
        if moved:
            move_files(staged, LocalFolder(self.folder))
            write_record(LocalFolder(self.folder), run_id, {"runs": ["dead"]})

    @rule()
    def clean(self) -> None:
        # Every other run is dead by now.
        self.store.clean("sessions", older_than_s=-1)
        folder = self.folder
        assert not list((folder / "_staging").glob("*"))
        if self.versions:
            named = {
                path
                for version in range(len(self.versions))
                for path in paths_of(self.store, "sessions", version=version)
            }
            left = {path.relative_to(folder).as_posix() for path in folder.glob("date=*/*.parquet")}
            assert left == named

    @invariant()
    def every_version_is_as_it_was(self) -> None:
        assert version_of(self.store, "sessions") == (
            len(self.versions) - 1 if self.versions else None
        )
        for version in {0, len(self.versions) // 2, len(self.versions) - 1}:
            if 0 <= version < len(self.versions):
                expected = self.versions[version]
                assert content(self.store, version=version) == list(expected.rows)
                record = record_of(self.store, "sessions", version=version)
                assert record == ({"runs": list(expected.runs)} if expected.runs else None)


class Lake(Store):
    place = "lake"


class Hadoop(Store):
    place = "hadoop"


TestStore = Store.TestCase
TestStore.settings = settings(deadline=None, max_examples=20, stateful_step_count=20)
TestLake = Lake.TestCase
TestLake.settings = settings(deadline=None, max_examples=10, stateful_step_count=20)
TestHadoop = Hadoop.TestCase
TestHadoop.settings = settings(deadline=None, max_examples=10, stateful_step_count=20)

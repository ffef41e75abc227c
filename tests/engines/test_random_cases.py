"""The replay gives what the engines gave on a fixed selection of random small streams."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engines.random_cases.comparing import differing, smallest
from tests.engines.recordings import RANDOM, random_recordings

pytestmark = pytest.mark.one_lane


@pytest.mark.parametrize("file", sorted(RANDOM.glob("*.jsonl.gz")), ids=lambda file: file.name)
def test_the_replay_gives_what_the_engine_gave(file: Path) -> None:
    recordings = random_recordings(file)
    assert len(recordings) >= 300
    assert not [recording.name for recording in recordings if recording.failed is not None]
    differences = list(differing(file.name.removesuffix(".jsonl.gz"), recordings))
    assert not differences, (
        f"{len(differences)} of {len(recordings)} differ, such as {smallest(differences)}"
    )

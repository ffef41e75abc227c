"""The replay gives, window by window, what a task of Storm's windowed bolts was given."""

from __future__ import annotations

import pytest

from tests.engines.random_cases.storm import difference
from tests.engines.recordings import Recording, recordings

pytestmark = pytest.mark.one_lane

STORM = recordings("windowed-bolt")


@pytest.mark.parametrize("recording", STORM, ids=lambda recording: recording.name)
def test_windowed_bolt(recording: Recording) -> None:
    assert difference(recording) is None

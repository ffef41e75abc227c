"""The replay gives, pane by pane, what Beam's direct runner wrote."""

from __future__ import annotations

import pytest

from tests.engines.random_cases.beam import difference
from tests.engines.recordings import Recording, recordings

pytestmark = pytest.mark.one_lane

BEAM = recordings("direct")


@pytest.mark.parametrize("recording", BEAM, ids=lambda recording: recording.name)
def test_direct_runner(recording: Recording) -> None:
    assert difference(recording) is None

"""The replay gives, pane by pane, what Samza's window operator gave.

Its windows are of processing time: here, the events come in order of their times.
"""

from __future__ import annotations

import pytest

from tests.engines.random_cases.samza import difference
from tests.engines.recordings import Recording, recordings

pytestmark = pytest.mark.one_lane

SAMZA = recordings("window-operator")


@pytest.mark.parametrize("recording", SAMZA, ids=lambda recording: recording.name)
def test_window_operator(recording: Recording) -> None:
    assert difference(recording) is None

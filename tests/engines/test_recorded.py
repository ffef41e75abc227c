"""Every recording is compared with the replay, or is listed with the reason why not."""

from __future__ import annotations

import pytest

from tests.engines.recordings import FOLDER, NOT_MODELLED, all_recordings
from tests.engines.test_recorded_beam import BEAM
from tests.engines.test_recorded_flink import DATASTREAM, SQL
from tests.engines.test_recorded_joins import INTERVALS, JOINS
from tests.engines.test_recorded_kafka import BROKER, DRIVER
from tests.engines.test_recorded_samza import SAMZA
from tests.engines.test_recorded_storm import STORM

pytestmark = pytest.mark.one_lane


def test_each_recording_is_compared_or_listed() -> None:
    folders = {
        f"{folder.parent.name}/{folder.name}" for folder in FOLDER.glob("*/*") if folder.is_dir()
    }
    kafka = [*DRIVER, *BROKER, *JOINS]
    flink = [*DATASTREAM, *SQL, *INTERVALS]
    compared = {recording.name for recording in [*kafka, *flink, *BEAM, *STORM, *SAMZA]}
    assert compared | set(NOT_MODELLED) == folders
    assert not compared & set(NOT_MODELLED)


#: A store in memory with the default retention has deleted each session as it closes.
EMPTY = {"kafka-driver/session-10s-memory-close"}


def test_no_recording_is_empty() -> None:
    for recording in all_recordings():
        rows = len(recording.rows("output"))
        assert rows == recording.settings["observed"]["output_rows"]
        assert (rows == 0) == (recording.name in EMPTY)

"""Kafka Streams through TopologyTestDriver: windowed aggregates, and joins of two streams."""

from __future__ import annotations

import random
from typing import Any

from tests.engines.random_cases import kafka_joins, kafka_windows
from tests.engines.recordings import Recording


def draw(chance: random.Random) -> dict[str, Any]:
    if chance.random() < 1 / 3:
        return kafka_joins.draw(chance)
    return kafka_windows.draw(chance)


def difference(recording: Recording) -> str | None:
    if recording.settings["runner"] == "joins":
        return kafka_joins.difference(recording)
    return kafka_windows.difference(recording)

"""Kafka Streams through TopologyTestDriver: windowed aggregates, and joins of two streams."""

from __future__ import annotations

import random
from typing import Any

from tests.engines.random_cases import kafka_joins, kafka_windows
from tests.engines.recordings import Recording


def draw(chance: random.Random) -> dict[str, Any]:
    return chance.choice((kafka_windows, kafka_windows, kafka_joins)).draw(chance)


def difference(recording: Recording) -> str | None:
    of = kafka_joins if recording.settings["runner"] == "joins" else kafka_windows
    return of.difference(recording)

"""One broker for the tests of a process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kafka.broker import Broker, served


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with served(tmp_path_factory.mktemp("broker")) as server:
        yield server


@pytest.fixture
def topic(broker: Broker, request: pytest.FixtureRequest) -> str:
    """A topic of the test's own, with two partitions."""
    name = request.node.name.replace("[", "-").replace("]", "")
    broker.create(name, partitions=2)
    return str(name)

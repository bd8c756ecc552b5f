"""Fixtures of the API's tests."""

from collections.abc import Iterator

import pytest

from integration.api.kit import Api, TestHost
from support.worlds.services import ServiceBench


@pytest.fixture
def api() -> Iterator[Api]:
    """The function on ports of its own."""
    world = ServiceBench()
    host = TestHost(world)
    yield Api(world, host)
    host.close()

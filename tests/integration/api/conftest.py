"""Fixtures of the API's tests."""

from collections.abc import Iterator

import pytest

from integration.api.kit import Api, TestHost
from support.worlds.services import ServiceBench


@pytest.fixture
def world() -> ServiceBench:
    """The ports below the function; a file may have others."""
    return ServiceBench()


@pytest.fixture
def api(world: ServiceBench) -> Iterator[Api]:
    """The function on ports of its own."""
    host = TestHost(world)
    yield Api(world, host)
    host.close()

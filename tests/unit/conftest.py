"""Fixtures of all unit tests."""

import pytest

from support.worlds.services import ServiceBench


@pytest.fixture
def world() -> ServiceBench:
    """In-memory ports."""
    return ServiceBench()

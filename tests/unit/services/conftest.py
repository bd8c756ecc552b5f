"""Fixtures of the services' tests."""

import pytest

from service_kit import World


@pytest.fixture
def world() -> World:
    """In-memory ports."""
    return World()

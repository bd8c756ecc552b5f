"""Fixtures of the services' tests."""

import pytest

from support.worlds.services import World


@pytest.fixture
def world() -> World:
    """In-memory ports."""
    return World()

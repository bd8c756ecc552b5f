"""One system for the whole session; tests keep apart by users and keys of their own."""

from collections.abc import Iterator

import pytest

from e2e_kit import Brain, Caller, System
from fake_openai import FakeOpenAI


@pytest.fixture(scope="session")
def brain() -> Iterator[Brain]:
    """The provider, and what it is to answer."""
    with FakeOpenAI() as provider:
        yield Brain(provider)


@pytest.fixture(scope="session")
def system(brain: Brain, tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """The session's system."""
    with System(tmp_path_factory.mktemp("e2e"), brain) as running:
        yield running


@pytest.fixture
def ann(system: System) -> Caller:
    """A user of this test alone."""
    return system.caller()


@pytest.fixture
def bob(system: System) -> Caller:
    """Another one."""
    return system.caller()

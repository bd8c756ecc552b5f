"""One system for all torture tests; users of their own keep them apart."""

from collections.abc import Iterator

import pytest

from e2e_kit import Brain
from fake_openai import FakeOpenAI
from folders import folder
from torture_kit import Torture


@pytest.fixture(scope="session")
def brain() -> Iterator[Brain]:
    """The provider, and what it is to answer."""
    with FakeOpenAI() as provider:
        yield Brain(provider)


@pytest.fixture(scope="session")
def system(brain: Brain) -> Iterator[Torture]:
    """The session's system, with points to die at."""
    with folder("torture") as data, Torture(data, brain) as running:
        yield running

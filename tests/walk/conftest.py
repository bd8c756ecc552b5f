"""The walk's one system, whose processes can be told where to die."""

from collections.abc import Iterator

import pytest

from support.kills.learning import EMBEDDER, teach
from support.kills.torture import Torture
from support.providers.openai import FakeOpenAI
from support.system.folders import folder
from support.system.system import Brain


@pytest.fixture(scope="session")
def system() -> Iterator[Torture]:
    """`layover dev`, with a provider that says what the tests plan."""
    with FakeOpenAI() as provider, folder("walk") as data:
        teach(provider)
        with Torture(data, Brain(provider), **EMBEDDER) as made:
            yield made

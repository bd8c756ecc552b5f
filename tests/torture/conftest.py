"""One system for all torture tests; users of their own keep them apart."""

from collections.abc import Iterator

import pytest

from support.kills.accounts import accounts
from support.kills.tool_server import tool_server
from support.kills.torture import Torture
from support.providers.openai import FakeOpenAI
from support.system.folders import folder
from support.system.system import Brain


@pytest.fixture(scope="session")
def brain() -> Iterator[Brain]:
    """The provider, and what it is to answer."""
    with FakeOpenAI() as provider:
        yield Brain(provider)


@pytest.fixture(scope="session")
def system(brain: Brain) -> Iterator[Torture]:
    """The session's system, with points to die at."""
    with (
        folder("torture") as data,
        tool_server(data),
        accounts(data),
        Torture(data, brain) as running,
    ):
        yield running

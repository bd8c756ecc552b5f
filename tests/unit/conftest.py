"""Fixtures of all unit tests."""

from collections.abc import AsyncIterator, Iterator

import pytest

from layover.plugins.models.openai_chat import OpenAIChat
from support.providers.openai import FakeOpenAI
from support.worlds.services import ServiceBench


@pytest.fixture
def world() -> ServiceBench:
    """In-memory ports."""
    return ServiceBench()


@pytest.fixture
def server() -> Iterator[FakeOpenAI]:
    """A model provider on loopback."""
    with FakeOpenAI() as fake:
        yield fake


@pytest.fixture
async def chat(server: FakeOpenAI) -> AsyncIterator[OpenAIChat]:
    """Its client, which repeats a request at once."""

    async def at_once(_: float) -> None:
        return

    made = OpenAIChat("key", server.base_url, sleep=at_once)
    yield made
    await made.aclose()

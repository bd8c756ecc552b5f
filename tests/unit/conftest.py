"""Fixtures of all unit tests."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from layover.plugins.models.openai_chat import OpenAIChat
from layover.runs.cancel import cancel
from layover.runs.seizure import end_by_force
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


@pytest.fixture
def hurried_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever ends a run by force waits for nobody: in such a test, whoever held it has died."""

    async def at_once(_: float) -> None:
        await asyncio.sleep(0)

    for function, name, value in (
        (cancel, "holder_has_s", 0.0),
        (cancel, "sleep", at_once),
        (end_by_force, "sleep", at_once),
    ):
        assert function.__kwdefaults__ is not None
        monkeypatch.setitem(function.__kwdefaults__, name, value)

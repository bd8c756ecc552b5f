"""A provider that answers as a report says, and a thread with an agent behind its wire."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from layover import Agent
from layover.adapters.http.client import Client, Response
from layover.adapters.http.request import Url
from layover.ids import SequentialIds
from layover.plugins.models.openai_chat import OpenAIChat
from layover.values.runs.views import Run
from support.providers.odd import OddResponse
from support.worlds.runs import Bench

Json = dict[str, Any]
Said = bytes | Json | tuple[int, bytes | Json]
"""A stream of events as bytes or a JSON answer, with the status 200 or another one."""


def events(*chunks: Json | str, done: bool = True) -> bytes:
    """Server-sent events, each of a chunk or of a text."""
    texts = [c if isinstance(c, str) else json.dumps(c) for c in chunks]
    return "".join(f"data: {t}\n\n" for t in [*texts, *(["[DONE]"] if done else [])]).encode()


def delta(content: Json, finish: str | None = None) -> Json:
    """A chunk of a streamed answer of Chat Completions."""
    choice = {"index": 0, "delta": content, "finish_reason": finish}
    return {
        "id": "c1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [choice],
    }


def said(text: str) -> bytes:
    """A streamed answer of one text."""
    return events(delta({"role": "assistant", "content": text}), delta({}, "stop"))


class Provider(Client):
    """Answers the nth request of a turn, from 1, as `answer(request, n)` says. `requests`: their bodies."""

    def __init__(self, answer: Callable[[Json, int], Said]) -> None:
        self.answer = answer
        self.requests: list[Json] = []

    def dial(self, url: Url) -> None:
        """Nothing to connect."""

    async def aclose(self) -> None:
        """Nothing is open."""

    async def post(
        self, url: Url, headers: Mapping[str, str], body: bytes, silence_s: float
    ) -> Response:
        request = json.loads(body)
        self.requests.append(request)
        given = self.answer(request, len(self.requests))
        status, content = given if isinstance(given, tuple) else (200, given)
        if isinstance(content, bytes):
            return OddResponse(status, "text/event-stream", [content])
        return OddResponse(status, "application/json", [json.dumps(content).encode()])


async def no_pause(_: float) -> None:
    """Waits of the adapter pass at once."""


class Asked:
    """A thread of one user with `agent`, whose model is behind Chat Completions at `provider`."""

    def __init__(self, agent: Agent[Any], provider: Provider) -> None:
        self.provider = provider
        model = OpenAIChat(
            "key", "https://model.example/v1", make_client=lambda: provider,
            ids=SequentialIds(), sleep=no_pause,
        )  # fmt: skip
        self.bench = Bench(agent, model)

    async def say(self, text: str, *, stream: bool = True) -> Run:
        """The run of a message, as far as it goes by itself."""
        return await self.bench.go(text, stream=stream)

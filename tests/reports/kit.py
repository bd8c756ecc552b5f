"""A provider that answers as a report says, a thread with an agent behind its wire, and pages of the API."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

from functions.api.app import answer
from integration.api.kit import Api, TestHost, http_event
from layover import Agent
from layover.adapters.http.client import Response
from layover.adapters.http.request import Url
from layover.approvals.token_answer import DECIDED
from layover.ids import SequentialIds
from layover.plugins.models.openai_chat import OpenAIChat
from layover.values.runs.views import Run
from support.providers.odd import ClientOfFake, OddResponse
from support.worlds.runs import ANN, Bench

Json = dict[str, Any]
Said = bytes | Json | tuple[int, bytes | Json] | Response
"""A stream of events as bytes or a JSON answer, with the status 200 or another one; or any answer."""


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


def calls(name: str, args: str | Json, id: str = "call_1") -> bytes:
    """A streamed answer of one call of a tool. `args`: as they are, or an object."""
    text = args if isinstance(args, str) else json.dumps(args)
    function = {"name": name, "arguments": text}
    call = {"index": 0, "id": id, "type": "function", "function": function}
    return events(delta({"role": "assistant", "tool_calls": [call]}), delta({}, "tool_calls"))


def in_turn(*answers: Said) -> Callable[[Json, int], Said]:
    """Each answer once, then the last one for ever."""
    return lambda _, n: answers[min(n, len(answers)) - 1]


class Provider(ClientOfFake):
    """Answers the nth request of a turn, from 1, as `answer(request, n)` says. `requests`: their bodies."""

    def __init__(self, answer: Callable[[Json, int], Said]) -> None:
        self.answer = answer
        self.requests: list[Json] = []

    async def post(
        self, url: Url, headers: Mapping[str, str], body: bytes, silence_s: float
    ) -> Response:
        request = json.loads(body)
        self.requests.append(request)
        given = self.answer(request, len(self.requests))
        if isinstance(given, Response):
            return given
        status, content = given if isinstance(given, tuple) else (200, given)
        if isinstance(content, bytes):
            arrivals = content.splitlines(keepends=True)
            return OddResponse(status, "text/event-stream", arrivals)
        return OddResponse(status, "application/json", [json.dumps(content).encode()])


async def no_pause(_: float) -> None:
    """Waits of the adapter pass at once."""


class Asked:
    """A thread of one user with `agent`, whose model is behind Chat Completions at `provider`."""

    def __init__(self, agent: Agent[Any], provider: Provider, **world: Any) -> None:
        self.provider = provider
        model = OpenAIChat(
            "key", "https://model.example/v1", make_client=lambda: provider,
            ids=SequentialIds(), sleep=no_pause,
        )  # fmt: skip
        self.bench = Bench(agent, model, **world)

    async def say(self, text: str, *, stream: bool = True) -> Run:
        """The run of a message, as far as it goes by itself."""
        return await self.bench.go(text, stream=stream)

    async def expire(self, run_id: str) -> None:
        """Let the one call that waits expire, as the state machine does, and the run go on."""
        run = await self.bench.run(run_id)
        item = await self.bench.item(run_id, run.pending[0].tool_call_id)
        await self.bench.drive(run_id, call=item, output={"Error": "States.Timeout"})

    async def go_on(self, run_id: str) -> None:
        """Advance a run as the state machine does, its decided calls settled, until it is over or waits."""
        bench = self.bench
        snapshot = await bench.plain.journal.runs.snapshot(ANN, run_id)
        assert snapshot is not None
        decided = [c for c in snapshot.calls if c.decision is not None and c.result is None]
        if len(decided) == len(snapshot.meta.waiting) == 1:
            item = await bench.item(run_id, decided[0].tool_call_id)
            await bench.drive(run_id, call=item, output=DECIDED)
            return
        for call in decided:
            await bench.branch(run_id, call.tool_call_id)
        if not snapshot.meta.status.over:
            await bench.drive(run_id)


class Page:
    """A page in a browser, which the API answers. Runs that its requests begin go as far as they get."""

    def __init__(self, asked: Asked, host: TestHost) -> None:
        self.asked, self.host = asked, host
        self.api = Api(cast(Any, asked.bench), host)

    def do(self, work: Any) -> Any:
        """Drive the world on the function's loop."""
        return self.host.run(work)

    def stream(
        self, method: str, path: str, body: Any = None, sub: str | None = ANN, **headers: str
    ) -> Json:
        """Return the answer of the function that streams; its body is not read yet."""
        sent = None if body is None else json.dumps(body)
        return answer(http_event(method, path, sent, headers, sub), None, self.host, streams=True)

    def whole(self, answered: Json) -> str:
        """Let runs go on, then return the body of a stream that ends."""
        self.do(self.go_on())
        body: AsyncIterator[bytes] = answered["body"]

        async def read() -> bytes:
            async with asyncio.timeout(30):
                return b"".join([piece async for piece in body])

        text: str = self.do(read()).decode()
        return text

    def read(self, answered: Json, status: int = 200) -> list[Json]:
        """Let runs go on, then return the chunks of a stream that ends, or the problem."""
        assert answered["statusCode"] == status, answered["body"]
        if isinstance(answered["body"], str):
            return [json.loads(answered["body"])] if answered["body"] else []
        lines = self.whole(answered).split("\n")
        found = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
        return [json.loads(line) for line in found if line != "[DONE]"]

    async def go_on(self) -> None:
        """Advance all runs that are not over."""
        runtime = self.asked.bench.plain
        threads = (await runtime.journal.heads.page(ANN, 100, None)).items
        for thread in threads:
            for run_id in (*thread.waiting_runs, thread.active_run):
                if run_id is not None:
                    await self.asked.go_on(run_id)

    def chat(
        self, *messages: Json, status: int = 200, id: str = "chat-1", **more: Any
    ) -> list[Json]:
        """Return the chunks that `useChat` gets for its messages, or the problem."""
        body = {"id": id, "messages": list(messages), "trigger": "submit-message", **more}
        return self.read(self.stream("POST", f"/chat/{self.agent}", body), status)

    def loaded(self, id: str = "chat-1") -> list[Json]:
        """Return the messages of a chat as a page loads them."""
        items: list[Json] = self.api.get(f"/chat/{self.agent}/{id}/messages").json["items"]
        return items

    def ag_ui(self, *messages: Json, status: int = 200, **more: Any) -> list[Json]:
        """Return the events that a client of AG-UI gets for its messages, or the problem."""
        body = {"threadId": "chat-1", "runId": "r1", "state": {}, "messages": list(messages)}
        body |= {"tools": [], "context": [], "forwardedProps": {}, **more}
        return self.read(self.stream("POST", f"/ag-ui/{self.agent}", body), status)

    def prompt(self) -> list[tuple[str, Any]]:
        """Return the roles and contents of the newest prompt."""
        messages = self.asked.provider.requests[-1]["messages"]
        return [(message["role"], message.get("content")) for message in messages]

    @property
    def agent(self) -> str:
        """The name of the agent that the page is for."""
        return self.asked.bench.agent.name


@contextmanager
def page_of(agent: Agent[Any], provider: Provider, **world: Any) -> Iterator[Page]:
    """Yield a page of an agent whose model is at `provider`. `world`: as `Bench` takes it."""
    asked = Asked(agent, provider, **world)
    host = TestHost(cast(Any, asked.bench))
    try:
        yield Page(asked, host)
    finally:
        host.close()


def user(text: str, id: str = "u1") -> Json:
    """A user's message as `useChat` keeps it."""
    return {"id": id, "role": "user", "parts": [{"type": "text", "text": text}]}

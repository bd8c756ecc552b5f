"""Anthropic's Messages API: Claude without anybody in between."""

import asyncio
from collections.abc import AsyncGenerator, Iterator

from layover.adapters.http.client import MakeClient, Response
from layover.adapters.http.direct import DirectClient
from layover.ids import RandomIds
from layover.plugins.models import wire
from layover.plugins.models.anthropic import request
from layover.plugins.models.anthropic.content import CALL, CONTENT, LENGTH, TEXT
from layover.plugins.models.anthropic.reply import PAUSED, MessagesReply
from layover.plugins.models.endpoint import Endpoint, Key, header_with
from layover.plugins.models.http_chat import HttpChat, typed_chunks
from layover.plugins.models.retrying import Requests, Sleep
from layover.ports import Ids, OnDelta, send_deltas
from layover.values.deployment.providers import ANTHROPIC_BASE_URL, ANTHROPIC_VERSION
from layover.values.prompt import Delta, Prompt, Reply
from layover.values.runs.usage import Usage

MAX_PAUSES = 8
"""Times that one answer is sent back to go on. Anthropic's own tools pause it after some rounds."""
_LAST = frozenset({"message_stop"})


class AnthropicChat(HttpChat):
    """`api_key`: sent as `x-api-key`. Models are named as Anthropic names them, with or without
    `anthropic/`."""

    PATH = "/v1/messages"

    def __init__(
        self,
        api_key: Key,
        base_url: str | None = None,
        *,
        make_client: MakeClient = DirectClient,
        ids: Ids | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        url = (base_url or ANTHROPIC_BASE_URL).rstrip("/").removesuffix("/v1")
        endpoint = Endpoint(url, header_with(api_key, "x-api-key"), make_client=make_client)
        super().__init__(endpoint, ids or RandomIds(), sleep)

    def _name(self, prompt: Prompt) -> str:
        return request.name_of(prompt)

    def _request(self, prompt: Prompt, left_out: frozenset[str]) -> wire.Body:
        self._say_unsent(self._name(prompt), request.unsupported_settings(prompt))
        return request.body(prompt, left_out, self._provider)

    def _removable(self, prompt: Prompt, request_: wire.Body) -> frozenset[str]:
        return request.removable(prompt, request_)

    def _has_format(self, request_: wire.Body) -> bool:
        return "format" in request_.get(request.OUTPUT_CONFIG, {})

    def _headers(self, prompt: Prompt, *, stream: bool) -> dict[str, str]:
        headers = {
            **super()._headers(prompt, stream=stream),
            "anthropic-version": ANTHROPIC_VERSION,
        }
        if betas := request.betas(prompt):
            headers["anthropic-beta"] = ",".join(betas)
        return headers

    def _assembly(self, prompt: Prompt) -> MessagesReply:
        return MessagesReply(self._ids, self._name(prompt), self._provider)

    def _chunks(self, response: Response) -> AsyncGenerator[Iterator[object], None]:
        return typed_chunks(response, _LAST)

    async def _complete(
        self, prompt: Prompt, request: wire.Body, on_delta: OnDelta | None, requests: Requests
    ) -> Reply:
        """Return the reply to a request. One that Anthropic paused is sent back as it is, and goes on."""
        whole = await super()._complete(prompt, request, on_delta, requests)
        paused = whole.state.get(PAUSED)
        for _ in range(MAX_PAUSES):
            if paused is None or requests.are_used_up:
                break
            turn = {"role": "assistant", "content": paused}
            again = {**request, "messages": [*request["messages"], turn]}
            listener = None if on_delta is None else _Continued(on_delta, whole).take
            rest = await super()._complete(prompt, again, listener, requests)
            whole = _joined(whole, rest)
            more = rest.state.get(PAUSED)
            paused = None if more is None else [*paused, *more]
        state = {name: value for name, value in whole.state.items() if name != PAUSED}
        return whole.model_copy(update={"state": state})


class _Continued:
    """Passes on the pieces of an answer that goes on. If its stream breaks, what came before the pause is
    said again first: whoever follows has dropped it."""

    def __init__(self, on_delta: OnDelta, before: Reply) -> None:
        self._on_delta = on_delta
        self._before = before

    async def take(self, delta: Delta) -> None:
        """Take a piece."""
        if delta.kind != "restart":
            await send_deltas(self._on_delta, delta)
            return
        again = [delta]
        if self._before.reasoning:
            again.append(Delta(kind="reasoning", text=self._before.reasoning))
        if self._before.text:
            again.append(Delta(kind="text", text=self._before.text))
        await send_deltas(self._on_delta, *again)


def _joined(one: Reply, other: Reply) -> Reply:
    """Return an answer that goes on where it paused."""
    thoughts = [thought for thought in (one.reasoning, other.reasoning) if thought]
    layout = [*_layout(one), *_layout(other)]
    is_news = any(entry["type"] not in (TEXT, CALL) for entry in layout)
    return other.model_copy(
        update={
            "text": one.text + other.text,
            "reasoning": "\n\n".join(thoughts),
            "usage": Usage.total([one.usage, other.usage]),
            "data": (*one.data, *other.data),
            "state": {CONTENT: layout} if is_news else {},
        }
    )


def _layout(reply: Reply) -> list[wire.Body]:
    if (layout := reply.state.get(CONTENT)) is not None:
        return list(layout)
    text = [{"type": TEXT, LENGTH: len(reply.text)}] if reply.text else []
    return [*text, *({"type": CALL} for _ in reply.calls)]

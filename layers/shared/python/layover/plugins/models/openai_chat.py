"""Any provider that speaks OpenAI's Chat Completions; its Responses API where a prompt wants that.

The `openai` package is the reference of the tests and is not imported here: it costs 0.2 s of a cold start,
its parameter transforms 4 ms at 20 messages, and its stream objects throw the connection away
(docs/performance.md#openai-client)."""

import asyncio
import re

from layover.adapters.http.client import MakeClient
from layover.adapters.http.direct import DirectClient
from layover.errors import ModelError
from layover.ids import RandomIds
from layover.plugins.models import wire
from layover.plugins.models.endpoint import Endpoint, Key, Transport, bearer
from layover.plugins.models.http_chat import HttpChat, logger
from layover.plugins.models.replies import Assembly
from layover.plugins.models.retrying import Requests, Sleep
from layover.ports import Ids, OnDelta
from layover.values.prompt import Prompt, Reply

OPENAI_BASE_URL = "https://api.openai.com/v1"


class OpenAIChat(HttpChat):
    """`prompt_cache_key`: whether to send that field. A provider that refuses an optional field by name is
    not sent it again. `endpoint`: instead of the key and the base URL. `streams_always`: see HttpChat."""

    PATH = "/chat/completions"

    def __init__(
        self,
        api_key: Key,
        base_url: str | None = None,
        *,
        endpoint: Transport | None = None,
        make_client: MakeClient = DirectClient,
        prompt_cache_key: bool = True,
        ids: Ids | None = None,
        sleep: Sleep = asyncio.sleep,
        streams_always: bool = False,
    ) -> None:
        resolved_endpoint = endpoint or Endpoint(
            base_url or OPENAI_BASE_URL, bearer(api_key), make_client=make_client
        )
        super().__init__(
            resolved_endpoint, ids or RandomIds(), sleep, streams_always=streams_always
        )
        self._responses: HttpChat | None = None
        self._warned = False
        self._want_thoughts: set[str] = set()
        """Models that have refused an answer without thoughts."""
        self._left_out = frozenset() if prompt_cache_key else frozenset({"prompt_cache_key"})

    async def answer(self, prompt: Prompt, on_delta: OnDelta | None, requests: Requests) -> Reply:
        """Return one reply by the API that the prompt names."""
        if prompt.api == "responses":
            return await self._responses_api().answer(prompt, on_delta, requests)
        if prompt.provider_tools and not self._warned:
            self._warned = True
            logger.warning("Chat Completions has no tools of the provider's: not sent")
        try:
            return await super().answer(prompt, on_delta, requests)
        except ModelError as error:
            name = self._name(prompt)
            if name in self._want_thoughts or not _misses_thoughts(error):
                raise
            self._want_thoughts.add(name)
            if requests.are_used_up:
                raise
            return await super().answer(prompt, on_delta, requests)

    def _responses_api(self) -> HttpChat:
        if self._responses is None:
            from layover.plugins.models.responses.chat import ResponsesChat

            self._responses = ResponsesChat(
                self._endpoint, self._ids, self._sleep, streams_always=self._streams_always
            )
        return self._responses

    def _request(self, prompt: Prompt, left_out: frozenset[str]) -> wire.Body:
        thoughts = wire.model(prompt) in self._want_thoughts
        return wire.body(prompt, left_out, self._provider, thoughts=thoughts)

    def _removable(self, prompt: Prompt, request: wire.Body) -> frozenset[str]:
        return wire.removable(prompt, request)

    def _unknown_fields(self, error: ModelError, request: wire.Body) -> frozenset[str]:
        """Return the fields that the host does not know. Some hosts (Mistral, Gemini) refuse such fields by
        name. A body that was sent without the field is refused for another reason."""
        if error.status not in (400, 422):
            return frozenset()
        return frozenset(f for f in wire.OPTIONAL if f in request and f in error.message)

    def _has_format(self, request: wire.Body) -> bool:
        return wire.RESPONSE_FORMAT in request

    def _assembly(self, prompt: Prompt) -> Assembly:
        tools = [tool.name for tool in prompt.tools]
        return Assembly(self._ids, wire.model(prompt), self._provider, tools)


_MISSING_THOUGHTS = re.compile(
    r"reasoning_content.*(passed back|missing|required)|missing.*reasoning_content", re.I | re.S
)


def _misses_thoughts(error: ModelError) -> bool:
    """Return whether the provider wants thoughts with each answer, those of other models included."""
    return error.status in (400, 422) and _MISSING_THOUGHTS.search(error.message) is not None

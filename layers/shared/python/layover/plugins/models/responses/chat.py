"""OpenAI's Responses API. The provider stores nothing (`store: false`): a run's items are in its own
journal."""

import re
from collections.abc import AsyncGenerator, Iterator

from layover.adapters.http.client import Response
from layover.errors import ModelError
from layover.plugins.models import wire
from layover.plugins.models.http_chat import HttpChat, logger, typed_chunks
from layover.plugins.models.responses import request
from layover.plugins.models.responses.reply import LAST, ResponsesReply
from layover.plugins.models.retrying import Requests
from layover.ports import OnDelta
from layover.values.prompt import Prompt, Reply


class ResponsesChat(HttpChat):
    """`endpoint`: a base URL below which `/responses` is."""

    PATH = "/responses"

    async def answer(self, prompt: Prompt, on_delta: OnDelta | None, requests: Requests) -> Reply:
        """Return one reply. If the provider refuses the items of earlier answers, it is asked
        once more without them: the thread goes on, without the thoughts that nobody can read any more."""
        try:
            return await super().answer(prompt, on_delta, requests)
        except ModelError as error:
            plain = request.without_items(prompt)
            if plain == prompt or not _refuses_items(error) or requests.are_used_up:
                raise
            logger.warning("%s refuses its own items: asked again without", wire.model(prompt))
            return await super().answer(plain, on_delta, requests)

    def _request(self, prompt: Prompt, left_out: frozenset[str]) -> wire.Body:
        self._say_unsent("the Responses API", request.unsupported_settings(prompt))
        return request.body(prompt, left_out, self._provider)

    def _removable(self, prompt: Prompt, request_: wire.Body) -> frozenset[str]:
        return request.removable(prompt)

    def _has_format(self, request_: wire.Body) -> bool:
        return "format" in request_.get("text", {})

    def _assembly(self, prompt: Prompt) -> ResponsesReply:
        return ResponsesReply(self._ids, wire.model(prompt), self._provider)

    def _chunks(self, response: Response) -> AsyncGenerator[Iterator[object], None]:
        return typed_chunks(response, LAST)


_ITEMS_REFUSED = re.compile(
    r"without its required|items are not persisted|item with id .* not found"
    r"|encrypted[_ ]content.*(verified|decrypt|parse)|invalid_encrypted_content",
    re.I | re.S,
)


def _refuses_items(error: ModelError) -> bool:
    return error.status in (400, 404) and _ITEMS_REFUSED.search(error.message) is not None

"""Requests to models, seen at the port of the model: after the hooks, and with the retries inside."""

from contextvars import ContextVar
from dataclasses import dataclass, field

from layover.plugins.traces import attributes as names
from layover.plugins.traces.content import as_input, as_instructions
from layover.ports import ChatModel, OnDelta
from layover.values.prompt import Prompt, Reply


@dataclass
class OpenRequest:
    """The facts of a request until its reply is journaled. Of several for one step, those of the last."""

    run_id: str
    attributes: names.Attributes = field(default_factory=dict)
    reply: Reply | None = None


open_request: ContextVar[OpenRequest | None] = ContextVar("layover_open_request", default=None)
"""The request of the step, or of the work of memory, that this task is about."""


class TracedModel:
    """`ports.ChatModel` that notes its requests. `content`: also what they say."""

    def __init__(self, model: ChatModel, *, content: bool) -> None:
        self._model = model
        self._content = content

    async def complete(self, prompt: Prompt, on_delta: OnDelta | None = None) -> Reply:
        """See `ports.ChatModel`."""
        request = open_request.get()
        if request is None:
            return await self._model.complete(prompt, on_delta)
        request.attributes = names.of_request(prompt)
        if self._content:
            request.attributes["gen_ai.input.messages"] = as_input(prompt.messages)
            if prompt.system:
                request.attributes["gen_ai.system_instructions"] = as_instructions(prompt.system)
        request.reply = await self._model.complete(prompt, on_delta)
        return request.reply

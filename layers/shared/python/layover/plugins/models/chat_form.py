"""Requests and replies in the form of Chat Completions, for models of one's own whose client speaks it."""

from typing import Any

from layover.ids import RandomIds
from layover.plugins.models import wire
from layover.plugins.models.replies import Assembly
from layover.values.prompt import Delta, Prompt, Reply


def chat_request(prompt: Prompt) -> dict[str, Any]:
    """Return a request in the form of Chat Completions, which most providers' clients take.

    Args:
        prompt: The request of a model of one's own.

    Example:
        ```python
        from datetime import UTC, datetime

        from layover import Message, Role, TextPart
        from layover.models import Prompt, chat_request

        hello = Message(
            id="m1",
            thread_id="t1",
            role=Role.USER,
            content=(TextPart(text="Hello"),),
            created_at=datetime(2026, 1, 1, tzinfo=UTC),
        )
        request = chat_request(Prompt(model="acme/large", system="Be brief.", messages=(hello,)))
        assert request["messages"][1] == {"role": "user", "content": "Hello"}
        ```
    """
    return wire.body(prompt, provider=prompt.model)


class ChatReply:
    """A reply in the form of Chat Completions, in the making: from the chunks of a stream, or from one
    completion. It reads whatever deviations Layover knows of providers.

    Args:
        prompt: The request that it answers.

    Example:
        ```python
        from layover.models import ChatReply, Prompt

        answer = ChatReply(Prompt(model="acme/large"))
        for text in ("Good ", "morning."):
            deltas = answer.add({"choices": [{"index": 0, "delta": {"content": text}}]})
            assert deltas[0].text == text
        answer.add({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        assert answer.reply().text == "Good morning."
        ```
    """

    def __init__(self, prompt: Prompt) -> None:
        tools = [tool.name for tool in prompt.tools]
        self._assembly = Assembly(RandomIds(), wire.model(prompt), prompt.model, tools)

    def add(self, chunk: dict[str, Any]) -> list[Delta]:
        """Take a chunk, or a whole completion; return what followers are to be told.

        Args:
            chunk: The decoded JSON.
        """
        return self._assembly.add(chunk)

    def reply(self) -> Reply:
        """Return the whole reply."""
        return self._assembly.reply()

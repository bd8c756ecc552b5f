"""Replies that answer nothing: the provider is asked again, and then it is told
(docs/behaviour.md#empty-answers)."""

from collections.abc import Awaitable, Callable

from layover.errors import INVALID_RESPONSE, ModelError
from layover.values.prompt import Reply

ATTEMPTS = 3
"""As for an answer that is not JSON: the model may say nothing each time."""


async def ask_until_answered(
    model: str, ask: Callable[[], Awaitable[Reply]], restart: Callable[[], None]
) -> Reply:
    """Return the first reply that answers. `restart` is called before the model is asked again. Raises
    ModelError if none answers: a run that ended with such a reply would be a success without an answer."""
    problem = ""
    for attempt in range(ATTEMPTS):
        if attempt:
            restart()
        reply = await ask()
        fault = what_is_missing(reply)
        if fault is None:
            return reply
        problem = fault
    message = f"The provider of {model} {problem} (attempt {ATTEMPTS})"
    raise ModelError(message, type=INVALID_RESPONSE)


def what_is_missing(reply: Reply) -> str | None:
    """Return what the provider did instead of answering; None if the reply answers. One that was cut short
    or filtered is what its finish reason says; a text of blanks is what a model has left to say after its
    tools."""
    if reply.calls:
        return None
    if reply.finish_reason == "tool-calls":
        return "ended its answer for tool calls and sent none"
    if reply.text or reply.data or reply.finish_reason != "stop":
        return None
    return "answered with thoughts and nothing else" if reply.reasoning else "answered with nothing"

"""Replies that answer nothing, or lack the call that a setting forces: the provider is asked again, and then
it is told (docs/behaviour.md#empty-answers)."""

from collections.abc import Awaitable, Callable

from layover.engine.models.fallback import Complete
from layover.errors import INVALID_RESPONSE, ModelError
from layover.values.prompt import Prompt, Reply

ATTEMPTS = 3
"""As for an answer that is not JSON: the model may say nothing each time."""


FORCED_ATTEMPTS = 2
"""As many as a call that a setting forces gets: a provider that does not know the setting never keeps it."""


async def ask_until_answered(
    prompt: Prompt,
    ask: Complete,
    restart: Callable[[], None],
    on_unused: Callable[[Reply], Awaitable[None]],
) -> Reply:
    """Return the first reply that answers `prompt`. `on_unused` is called with every reply that does not, and
    `restart` before the model is asked again. Raises ModelError if none answers: a run that ended with such a
    reply would be a success without an answer, or without the call that its author has forced."""
    without_call = 0
    for attempt in range(1, ATTEMPTS + 1):
        if attempt > 1:
            restart()
        reply = await ask(prompt)
        problem = what_is_missing(reply)
        if problem is None:
            problem = forced_call_missing(prompt, reply)
            without_call += 1
        if problem is None:
            return reply
        await on_unused(reply)
        if without_call == FORCED_ATTEMPTS:
            break
    message = f"The provider of {prompt.model} {problem} (attempt {attempt})"
    raise ModelError(message, type=INVALID_RESPONSE)


def what_is_missing(reply: Reply) -> str | None:
    """Return what the provider did instead of answering; None if the reply answers. One that was cut short
    or filtered is what its finish reason says; a text of blanks is what a model has left to say after its
    tools."""
    if reply.calls:
        return None
    if reply.finish_reason == "tool-calls":
        return "ended its answer for tool calls and sent none"
    if reply.text or reply.has_provider_work or reply.finish_reason != "stop":
        return None
    return "answered with thoughts and nothing else" if reply.reasoning else "answered with nothing"


def forced_call_missing(prompt: Prompt, reply: Reply) -> str | None:
    """Return what the provider did instead of the call that `tool_choice` forces; None if it made the call,
    or if nothing forces one. A setting that the model refuses was not sent, and a filter leaves no call."""
    choice = prompt.settings.tool_choice
    if reply.chooses_freely or reply.finish_reason == "content-filter":
        return None
    if choice == "required" and prompt.tools and not (reply.calls or reply.has_provider_work):
        return "was told to call a tool (tool_choice: required) and called none"
    is_offered = any(tool.name == choice for tool in prompt.tools)
    if is_offered and not any(call.name == choice for call in reply.calls):
        return f"was told to call {choice!r} (tool_choice) and did not"
    return None

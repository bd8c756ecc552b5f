"""Replies that answer nothing, or lack the call that a setting forces (docs/behaviour.md#empty-answers)."""

from collections.abc import Callable

from layover.errors import INVALID_RESPONSE, ModelError
from layover.values.json_answer import read_json
from layover.values.prompt import Prompt, Reply

ATTEMPTS = 3
"""As for an answer that is not JSON: the model may say nothing each time."""
FORCED_ATTEMPTS = 2
"""As many as a call that a setting forces gets: a provider that does not know the setting never keeps it."""


class NotAnAnswer(ModelError):
    """A reply that answers nothing: a run that ended with it would be a success without an answer.
    `is_forced`: it lacks only the call that its author has forced."""

    def __init__(self, message: str, *, is_forced: bool) -> None:
        super().__init__(message, type=INVALID_RESPONSE)
        self.is_forced = is_forced


def not_an_answer(prompt: Prompt, reply: Reply, attempt: int) -> NotAnAnswer | None:
    """Return the problem of a reply; None if it answers the prompt."""
    missing = what_is_missing(reply)
    is_forced = missing is None
    problem = missing or forced_call_missing(prompt, reply)
    if problem is None:
        return None
    message = f"The provider of {prompt.model} {problem} (attempt {attempt})"
    return NotAnAnswer(message, is_forced=is_forced)


def with_thoughts_as_answer(reply: Reply, fits: Callable[[Reply], bool]) -> Reply:
    """Return the reply with its thoughts as its text if they are nothing but the JSON of the output and
    nothing else answers: some servers file a whole answer under the thoughts. Else the same reply. `fits`:
    whether a reply's text is the output."""
    if reply.text.strip() or reply.calls or not reply.reasoning or reply.finish_reason != "stop":
        return reply
    try:
        read_json(reply.reasoning)
    except ValueError:
        return reply
    # What the provider wants back belongs to thoughts.
    changes = {"text": reply.reasoning.strip(), "reasoning": "", "state": {}}
    meant = reply.model_copy(update=changes)
    return meant if fits(meant) else reply


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

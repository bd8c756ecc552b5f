"""Estimated tokens of messages."""

from collections.abc import Iterable

from layover.values.message import FilePart, Message, ReasoningPart, TextPart, ToolCallPart
from layover.values.tokens import CHARACTERS_A_TOKEN as CHARACTERS_A_TOKEN
from layover.values.tokens import FILE_TOKENS, OVERHEAD
from layover.values.tokens import estimate as estimate


def counted_tokens(message: Message) -> int:
    """Return the tokens as counted when the message was stored: a turn never recounts a thread
    (docs/behaviour.md#token-estimates)."""
    return message_tokens(message) if message.token_count is None else message.token_count


def total_tokens(messages: Iterable[Message]) -> int:
    """Return the tokens of these messages. A long run asks for them at every step."""
    return sum([m.token_count or counted_tokens(m) for m in messages])


def output_tokens(message: Message) -> int:
    """Return the tokens of a message as a model wrote it, with its thoughts."""
    plain = message.model_copy(update={"provider_state": None})
    return message_tokens(plain) + thought_tokens(message)


def thought_tokens(message: Message) -> int:
    """Return the tokens of the thoughts that a message shows."""
    return sum(estimate(p.text) for p in message.content if isinstance(p, ReasoningPart))


def with_token_count(message: Message) -> Message:
    """Return the message with its tokens, as it is stored."""
    return message.model_copy(update={"token_count": message_tokens(message)})


def message_tokens(message: Message) -> int:
    """Return the tokens of a message as a model reads it: counted once, when it is stored. Thoughts that no
    provider wants back are in no prompt."""
    if message.model_output is not None:
        total = OVERHEAD + estimate(message.model_output)
        return total if len(message.content) < 2 else total + _file_tokens(message)
    state = message.provider_state
    thoughts = thought_tokens(message) if state is not None and state.fields else 0
    total = OVERHEAD + thoughts
    for part in message.content:
        if isinstance(part, TextPart):
            total += estimate(part.text)
        elif isinstance(part, ToolCallPart):
            total += estimate(part.tool_name) + estimate(str(part.args))
        elif isinstance(part, FilePart):
            total += FILE_TOKENS
    return total


def _file_tokens(message: Message) -> int:
    from layover.context.results import shown_files  # Few results have files.

    return FILE_TOKENS * len(shown_files(message))

"""Estimated tokens, where no tokenizer is at hand: characters / 4 (BEHAVIOUR 3.4)."""

from layover.values.message import Message, ReasoningPart, TextPart, ToolCallPart

CHARACTERS_A_TOKEN = 4
OVERHEAD = 4
"""Tokens that a message costs beside its text."""


def estimate(text: str) -> int:
    """Tokens of a text, rounded up."""
    return -(-len(text) // CHARACTERS_A_TOKEN)


def message_tokens(message: Message) -> int:
    """Tokens of a message as a model reads it: counted once, when it is stored."""
    if message.model_output is not None:
        return OVERHEAD + estimate(message.model_output)
    total = OVERHEAD
    for part in message.content:
        if isinstance(part, TextPart | ReasoningPart):
            total += estimate(part.text)
        elif isinstance(part, ToolCallPart):
            total += estimate(part.tool_name) + estimate(str(part.args))
    return total

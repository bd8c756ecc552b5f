"""Estimated tokens, where no tokenizer is at hand: characters / 4 (BEHAVIOUR 3.4)."""

from layover.values.message import FilePart, Message, ReasoningPart, TextPart, ToolCallPart

CHARACTERS_A_TOKEN = 4
FILE_TOKENS = 1_000
"""What an image costs, about; nobody knows it of other files."""
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
        elif isinstance(part, FilePart):
            total += FILE_TOKENS
    return total

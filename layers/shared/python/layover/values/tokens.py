"""Estimated tokens, where no tokenizer is at hand: characters / 4 (BEHAVIOUR 3.4)."""

CHARACTERS_A_TOKEN = 4
FILE_TOKENS = 1_000
"""What an image costs, about; nobody knows it of other files."""
OVERHEAD = 4
"""Tokens that a message costs beside its text."""


def estimate(text: str) -> int:
    """Tokens of a text, rounded up."""
    return -(-len(text) // CHARACTERS_A_TOKEN)

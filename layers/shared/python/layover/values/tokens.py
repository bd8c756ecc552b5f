"""Estimated tokens, for prompts without a tokenizer: characters / 4 (docs/behaviour.md#token-estimates), and
0.7 for a character of the scripts that write without letters.

A tokenizer's vocabulary is megabytes to load and belongs to one provider. The estimate is corrected by the
provider's own count of each prompt (`engine.prompter`)."""

from layover.lazy import lazy_pattern

CHARACTERS_A_TOKEN = 4
WIDE_TOKENS = 0.7
"""Tokens of a Chinese, Japanese or Korean character (measured: 0.70 and 0.73 with o200k_base)."""
FILE_TOKENS = 1_000
"""An image's cost, about; that of other files is unknown."""
OVERHEAD = 4
"""Tokens that a message costs in addition to its text."""

_WIDE = lazy_pattern("[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef]")


def estimate(text: str) -> int:
    """Return the tokens of a text, rounded up."""
    if text.isascii():
        return -(-len(text) // CHARACTERS_A_TOKEN)
    wide = len(_WIDE.findall(text))
    return -(-(len(text) - wide) // CHARACTERS_A_TOKEN) + round(wide * WIDE_TOKENS)

"""Settings for requests whose answers are to be literal, by what is known of a model from its name. Pure."""

import re

from layover.lazy import lazy_pattern
from layover.values.runs.model_settings import ModelSettings

ROOM_TO_THINK = 4_000
"""Tokens on top of an answer's, for a model that may think: a limit counts thoughts, too."""
_PLAIN = lazy_pattern(
    r"^(?!.*(?:think|reason)).*(?:gpt-3\.5|gpt-4|claude|llama-?\d|command-r|gemini-(?:1\.|2\.0|2\.5-flash-lite)"
    r"|nova-(?:micro|lite|pro|premier)|mi(?:s|nis|x)tral|codestral|-instruct|-it\b)",
    re.IGNORECASE,
)
"""Models that think only if they are asked to."""
_SPARING = lazy_pattern(
    r"(?:^|[/.:])(?:gpt-5(?:-mini|-nano)?(?:-20\d\d-\d\d-\d\d)?$|o[134](?:-mini)?(?:-20\d\d-\d\d-\d\d)?$|gpt-oss"
    r"|grok-3-mini|gemini-2\.5-(?:pro|flash(?!-lite))|gemini-3)",
    re.IGNORECASE,
)
"""Models that think unless they are told to think less. They take no temperature, or are better without."""


def literal_settings(model: str, tokens: int) -> ModelSettings:
    """Return settings for an answer of so many tokens: literal, and with few thoughts."""
    if _SPARING.search(model):
        return ModelSettings(max_tokens=tokens + ROOM_TO_THINK, reasoning="low")
    return ModelSettings(max_tokens=tokens + room_to_think(model), temperature=0)


def room_to_think(model: str) -> int:
    """Return the tokens that this model has on top of an answer's."""
    may_think = bool(_SPARING.search(model)) or not _PLAIN.search(model)
    return ROOM_TO_THINK if may_think else 0

"""The capabilities of Claude's models by their names at Anthropic. They are those that Bedrock serves, under
names of their own (`layover.plugins.models.bedrock.families`).

- Output limits: https://docs.claude.com/en/docs/about-claude/models/overview"""

import re

from layover.plugins.models.bedrock import families
from layover.plugins.models.family import Family

_MAX_OUTPUT = (
    (re.compile(r"claude-3-(opus|sonnet|haiku)-"), 4_096),
    (re.compile(r"claude-3-5-"), 8_192),
)
OUTPUT = 32_000
"""Tokens of an answer of any later model: all of them may say as much, and the API has no default."""


def family_of(model: str) -> Family:
    """Return the capabilities of a model. An alias (`claude-sonnet-4-5`) has those of the model behind it."""
    name = f"{model}-".replace("-4-0-", "-4-20")
    return families.family_of(f"anthropic.{name}")


def max_output(model: str) -> int:
    """Return the tokens of an answer that are allowed where the author sets no limit."""
    name = f"{model}-"
    return next((most for pattern, most in _MAX_OUTPUT if pattern.match(name)), OUTPUT)

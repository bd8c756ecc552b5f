"""The capabilities of Bedrock's models, by their ids. A model that is unknown here is sent the least; a
setting that a model still refuses is not sent to it again.

- Caching: https://docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html
- Thinking: https://docs.aws.amazon.com/bedrock/latest/userguide/claude-messages-adaptive-thinking.html
- Statuses of results: botocore's model of `ToolResultBlock`"""

import re

from layover.plugins.models.family import Family, Place, Thinking

PROFILE = re.compile(r"(?:[a-z]{2}|apac|us-gov|global)\.")
"""The prefix of an inference profile's id; the rest is the model's id."""

_NO_CACHE = re.compile(r"anthropic\.claude-(v2|instant|3-(haiku|sonnet|opus)|3-5-sonnet-20240620)")
_NO_THINKING = re.compile(r"anthropic\.claude-(v2|instant|3-(haiku|sonnet|opus|5))")
_BUDGET = re.compile(r"anthropic\.claude-(3-7|(opus|sonnet|haiku)-4-(20|1-|5-))")
"""Later models of Claude's decide themselves how long they think."""
_NO_XHIGH = re.compile(r"anthropic\.claude-(opus|sonnet|haiku)-4-6")
_ALL: frozenset[Place] = frozenset({"tools", "system", "history", "last"})


def speaks_chat_completions(model: str) -> bool:
    """True for OpenAI's models: Bedrock serves them with Chat Completions, and no other maker's."""
    return _bare(model).startswith("openai.")


def family_of(model: str) -> Family:
    """Return the capabilities of a model. `model`: its id, or that of an inference profile."""
    name = _bare(model)
    if name.startswith("anthropic."):
        caches = frozenset() if _NO_CACHE.match(name) else _ALL
        thinking = _thinking(name)
        knows_xhigh = thinking == "adaptive" and not _NO_XHIGH.match(name)
        return Family(caches, thinking, "xhigh" if knows_xhigh else "high", result_status=True)
    if name.startswith("amazon.nova-"):
        thinks: Thinking | None = "effort" if name.startswith("amazon.nova-2-") else None
        return Family(frozenset({"system", "last"}), thinks, result_status=True)
    return Family()


def _thinking(claude: str) -> Thinking | None:
    if _NO_THINKING.match(claude):
        return None
    return "budget" if _BUDGET.match(claude) else "adaptive"


def _bare(model: str) -> str:
    return PROFILE.sub("", model, count=1) if PROFILE.match(model) else model

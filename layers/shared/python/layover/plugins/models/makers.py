"""Demands of the makers of models on a request, whoever serves their models: by the model's name."""

import re

_MISTRAL = re.compile(r"(mis|mix|minis|magis|codes|devs|maths|leans|pix|vox)tral", re.I)
_CLAUDE = re.compile(r"(^|[/.@-])claude\b", re.I)
_GEMINI = re.compile(r"(^|[/.])gemini-(?![12]([.-]|$))", re.I)
_GOOGLE = re.compile(r"(^|\.)googleapis\.com$", re.I)
_ANY_GEMINI = re.compile(r"(^|[/.])gemini-", re.I)
_DEEPSEEK = re.compile(r"(^|[/.])deepseek-v([4-9]|\d\d)", re.I)


def is_mistral(provider: str, model: str) -> bool:
    """Return whether ids of calls have to be 9 letters or digits: Mistral's API refuses all others, and so
    does what serves its models elsewhere
    (https://docs.mistral.ai/capabilities/function_calling; mistral-common's `validate_tool_calls`)."""
    host = provider.lower()
    return host == "mistral.ai" or host.endswith(".mistral.ai") or bool(_MISTRAL.search(model))


def caches_by_points(model: str) -> bool:
    """Return whether a request has to say what a cache keeps: Claude's does, and gateways hand the points on
    (https://openrouter.ai/docs/features/prompt-caching, https://docs.litellm.ai/docs/completion/prompt_caching)."""
    return _CLAUDE.search(model) is not None


def takes_few_names(model: str) -> bool:
    """Return whether names of arguments have to be plain (`layover.plugins.models.argument_names`): Claude's
    do, whoever serves it."""
    return _CLAUDE.search(model) is not None


def wants_signatures(model: str) -> bool:
    """Return whether each step of calls has to have a signature of thoughts: Gemini 3 and later refuse a step
    without one (https://ai.google.dev/gemini-api/docs/thought-signatures)."""
    return _GEMINI.search(model) is not None


def takes_few_keywords(provider: str) -> bool:
    """Return whether the provider refuses JSON schemas with keywords beyond its own subset: Google's hosts
    do (`layover.plugins.models.google_schema`)."""
    return _GOOGLE.search(provider) is not None


def wants_one_answer(model: str) -> bool:
    """Return whether calls may not follow a text of the assistant's in a message of their own: Gemini takes
    them right after a user or a result (https://github.com/google-gemini/gemini-cli/issues/11814)."""
    return _ANY_GEMINI.search(model) is not None


def wants_thoughts(model: str) -> bool:
    """Return whether each answer has to have `reasoning_content`: DeepSeek V4 refuses a thread in which one
    has none (https://api-docs.deepseek.com/guides/thinking_mode)."""
    return _DEEPSEEK.search(model) is not None

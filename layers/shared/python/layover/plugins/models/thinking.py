"""Claude's thinking, as the Messages API and Converse take it.

- Budgets: https://docs.claude.com/en/docs/build-with-claude/extended-thinking
- Adaptive: https://docs.aws.amazon.com/bedrock/latest/userguide/claude-messages-adaptive-thinking.html"""

from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Any

from layover.plugins.models.family import Family
from layover.values.message import Message, Role
from layover.values.runs.model_settings import Reasoning

Body = dict[str, Any]

MIN_TOP_P = 0.95
"""The lowest `top_p` that a Claude that thinks takes. It takes no `temperature` but 1."""

_BUDGETS = {"minimal": 1024, "low": 1024, "medium": 4096, "high": 16_384, "xhigh": 24_576}
"""Tokens that Claude may think, where it has to be told."""
_MIN_BUDGET = 1024


def thinking_fields(level: Reasoning, family: Family, *, may_think: bool, most: int | None) -> Body:
    """Return `thinking` and `output_config`, as far as a Claude of this family expects them. `most`: the
    tokens that it may answer with, which its thoughts are a part of."""
    if level == "none":
        return {"thinking": {"type": "disabled"}} if family.thinks == "adaptive" else {}
    if not may_think:
        return {}
    if family.thinks == "adaptive":
        effort = {"effort": family.effort(level)}
        return {"thinking": {"type": "adaptive"}, "output_config": effort}
    budget = _BUDGETS[level]
    if most is not None:
        budget = max(_MIN_BUDGET, min(budget, most * 3 // 4))
        if budget >= most:
            return {}
    return {"thinking": {"type": "enabled", "budget_tokens": budget}}


def thinks(fields: Body) -> bool:
    """Return whether the model thinks. `fields`: those of the request."""
    return fields.get("thinking", {}).get("type") in ("enabled", "adaptive")


def may_think(messages: Iterable[Message], has_thoughts: Callable[[Message], bool]) -> bool:
    """Return whether the model may think. One that thinks wants its thoughts back with the calls whose
    results are in the last turn. If another model made these (a fallback), it goes on without thinking until
    users have said something else. `has_thoughts`: whether an answer has thoughts of the model's."""
    sendable = [m for m in messages if not _is_left_out(m)]
    for is_answer, turn in groupby(reversed(sendable), lambda m: m.role is Role.ASSISTANT):
        if is_answer:
            if not all(has_thoughts(m) for m in turn if m.tool_calls):
                return False
        elif all(m.role is not Role.TOOL for m in turn):
            # What users say behind results is in one turn with them.
            return True
    return True


def _is_left_out(message: Message) -> bool:
    """Return whether nothing of a message is sent: an answer that a filter emptied, or of blanks, separates
    no turns."""
    says_nothing = not message.text.strip() and not message.tool_calls
    return message.role is Role.CUSTOM or (message.role is Role.ASSISTANT and says_nothing)

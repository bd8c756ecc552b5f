"""Says which options of an agent send texts that its hooks do not see."""

import logging
from collections.abc import Iterable, Sequence
from typing import Any

from layover.declare.hooks.base import defines, inherited_hooks, is_everywhere, name_of
from layover.declare.memory import Memory

logger = logging.getLogger("layover")

_EMBEDDED = ("semantic_recall", "episodic")
"""Parts of `Memory` whose texts an embedder reads."""


def warn_of_embedded(name: str, hooks: Sequence[Any], memory: Memory) -> None:
    """Log the parts of the agent's memory that send an embedder texts which an `everywhere` hook leaves."""
    parts = [part for part in _EMBEDDED if getattr(memory, part)]
    for hook in (h for h in hooks if is_everywhere(h) and not defines(h, "before_embedding")):
        for part in parts:
            message = "agent %r: %s does not change what Memory(%s=...) sends to the embedder"
            logger.warning(message, name, name_of(hook), part)


def warn_of_handoffs(name: str, hooks: Sequence[Any], others: Iterable[Any]) -> None:
    """Log the agents that would get the conversation without the `everywhere` hooks that it had so far."""
    for other in others:
        for hook in inherited_hooks(hooks, other.hooks):
            message = "agent %r: %s is not a hook of %r, which reads the whole conversation after a hand-off"
            logger.warning(message, name, name_of(hook), other.name)

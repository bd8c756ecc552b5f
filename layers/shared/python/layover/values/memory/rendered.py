"""Memory's part of a prompt, as text."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class RenderedMemory:
    """Memory's part of a run's prompts, as text. `instructions`: in place of the agent's own text; `system`:
    behind the instructions; `block`: compacted older messages, before the history; `through`: the last
    message that `block` stands for; `left_out`: ids of messages up to that one that stay in the prompt;
    `volatile`: placed before the input's text; `volatile_without_recall`: the same without what was
    recalled, None if nothing was."""

    system: str = ""
    block: str = ""
    through: str | None = None
    left_out: frozenset[str] = frozenset()
    volatile: str = ""
    instructions: str | None = None
    volatile_without_recall: str | None = None

    def without_recall(self) -> "RenderedMemory | None":
        """Return the same without recalled messages and entries; None: it has none."""
        if self.volatile_without_recall is None:
            return None
        less = self.volatile_without_recall
        return replace(self, volatile=less, volatile_without_recall=None)

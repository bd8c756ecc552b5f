"""The part of `ports.MemoryStore` that is about semantic recall."""

from collections.abc import Sequence
from typing import Protocol

from layover.values.memory.context import IndexedText, Recalled, RecallQuery, StepUsage


class RecallStore(Protocol):
    """The texts of an owner's messages, with their words and vectors, under row security."""

    async def index_messages(
        self,
        owner: str,
        rows: Sequence[IndexedText],
        run_id: str = "",
        usage: Sequence[StepUsage] = (),
    ) -> None:
        """Store texts of a thread for recall, and the usage of their vectors (`usage`, of `run_id`), in one
        transaction. Repeatable: a text that was indexed only by words gets its vector; a message that no
        longer exists is left out; a row of usage keeps its first value."""
        ...

    async def common_words(
        self, owner: str, agent: str, thread_id: str | None, words: Sequence[str]
    ) -> frozenset[str]:
        """Return the words (of `memory.semantic.query.query_words`) that more than a quarter of the newest
        texts of the scope have."""
        ...

    async def recall(self, owner: str, query: RecallQuery) -> tuple[Recalled, ...]:
        """Return the best matches with their neighbours in the order of the conversation, from the newest
        path of each thread. A turn asks with `TurnQuery.recall` instead, in its one round trip."""
        ...

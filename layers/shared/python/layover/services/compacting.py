"""What both modes of compaction share: whose branch it is, how a memory model is asked."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from layover.context.compaction import Limits
from layover.context.fit import room
from layover.context.tokens import estimate
from layover.errors import LayoverError
from layover.ports import Runtime
from layover.services.spending import spent
from layover.values.compaction import Compacted, Generation, NewGeneration
from layover.values.message import Message
from layover.values.metrics import Metric
from layover.values.prompt import Prompt, Reply
from layover.values.run import RunMeta

logger = logging.getLogger("layover")


@dataclass(frozen=True)
class Work:
    """The compaction of one branch, on behalf of a run. `leaf_id`: the branch's newest message;
    `asked_through`: the last message of the slices that are observed ahead, ready or not."""

    runtime: Runtime
    meta: RunMeta
    limits: Limits
    leaf_id: str
    asked_through: str | None = None

    @property
    def model(self) -> str:
        """The model that observes and summarises."""
        settings = self.runtime.settings
        return settings.observer_model or settings.model

    @property
    def readable(self) -> int:
        """Tokens that this model reads at once."""
        window = self.runtime.window
        return int(room(window(self.model) if window else None) * 0.75)

    def new_id(self) -> str:
        """For an observation."""
        return self.runtime.ids.new("obs")

    async def compacted(self, leaf_id: str | None = None) -> Compacted:
        """As the branch stands."""
        return await self.runtime.memory.compacted(
            self.meta.owner, self.meta.thread_id, leaf_id or self.leaf_id, self.limits.kind
        )

    async def messages(self, after_id: str | None, through_id: str | None = None) -> list[Message]:
        """The branch's messages after one; none where it is not on the branch."""
        if after_id == (through_id or self.leaf_id):
            return []
        span = await self.runtime.memory.span(
            self.meta.owner, self.meta.thread_id, after_id, through_id or self.leaf_id
        )
        return list(span.messages) if span else []

    async def ask(self, prompt: Prompt) -> Reply | None:
        """The memory model's answer; None where it fails."""
        try:
            return await self.runtime.model.complete(prompt)
        except LayoverError as error:
            self.failed(type(error).__name__)
            return None

    def failed(self, cause: str) -> None:
        """Count a compaction that changed nothing though it should have."""
        extra = {"run_id": self.meta.id, "thread_id": self.meta.thread_id, "cause": cause}
        logger.warning("nothing was compacted", extra=extra)
        self.runtime.metrics.count(Metric.COMPACTION_FAILED, agent=self.meta.agent)

    def spared(self, taken: Sequence[Message], block: str, before: str) -> None:
        """Count what a compaction took out of prompts."""
        tokens = sum(m.token_count or 0 for m in taken) - estimate(block) + estimate(before)
        if tokens > 0:
            self.runtime.metrics.count(Metric.TOKENS_COMPACTED, tokens, agent=self.meta.agent)

    async def add_slice(self, slice: NewGeneration, reply: Reply) -> Generation | None:
        """Keep observations made ahead, with what they cost."""
        usage = [spent(self.runtime, self.meta, f"observer:{slice.through_message_id}", reply)]
        return await self.runtime.memory.add_slice(
            self.meta.owner, self.meta.thread_id, slice, self.meta.id, usage
        )

    async def replace(
        self, made: NewGeneration, expected: Generation | None, reply: Reply
    ) -> Generation | None:
        """Put a reflection or a summary in the place of `expected`, with what it cost."""
        number = expected.number if expected else None
        usage = [spent(self.runtime, self.meta, f"{made.kind}:{number or 0}", reply)]
        return await self.runtime.memory.replace(
            self.meta.owner, self.meta.thread_id, made, number, self.meta.id, usage
        )

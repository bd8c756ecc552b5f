"""The shared part of both compaction modes: the branch, and requests to a memory model."""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from layover.context.compaction import Limits, Path, count_within
from layover.context.fit import ASSUMED_WINDOW, room
from layover.context.tokens import estimate, total_tokens
from layover.context.withheld import for_models
from layover.declare.agent import Agent
from layover.errors import LayoverError
from layover.plugins.memory.learns.requests import ask, is_cut, memory_model
from layover.plugins.memory.usage import usage_row
from layover.runtime import Runtime
from layover.values.memory.compaction import Compacted, Generation, NewGeneration
from layover.values.memory.context import StepUsage
from layover.values.message import Message
from layover.values.metrics import Metric
from layover.values.prompt import Prompt, Reply
from layover.values.runs.run import RunMeta

MAX_ATTEMPTS = 2
"""Attempts with a memory model whose answer cannot be used."""

Parsed = TypeVar("Parsed")
logger = logging.getLogger("layover")


@dataclass(frozen=True)
class ParsedReply(Generic[Parsed]):
    """A parsed answer of a memory model. `replies`: every attempt; the last one is the answer."""

    value: Parsed
    replies: tuple[Reply, ...]

    @property
    def model(self) -> str:
        """The model that answered."""
        return self.replies[-1].model


@dataclass(frozen=True)
class CompactionJob:
    """The compaction of one branch, on behalf of a run. `leaf_id`: the branch's newest message;
    `asked_through`: the last message of the slices that are observed ahead, ready or not; `waited_through`:
    the last message of those that the run waited for before; `names`: of the speakers, by role;
    `waiting`: the other runs whose results may still come; `windows`: as `ThreadHead.windows`."""

    runtime: Runtime
    agent: Agent
    meta: RunMeta
    limits: Limits
    leaf_id: str
    asked_through: str | None = None
    waited_through: str | None = None
    names: Mapping[str, str] | None = None
    waiting: Collection[str] = ()
    windows: Mapping[str, int] = field(default_factory=dict)

    @property
    def model(self) -> str:
        """The model that observes and summarises."""
        return memory_model(self.runtime, self.agent, self.runtime.settings.observer_model)

    @property
    def readable(self) -> int:
        """The tokens that this model reads at once."""
        agent = self.agent
        # The window that an agent's settings name is that of its own model.
        settings = agent.model_settings if self.model == agent.model else None
        window = self.runtime.window_of(self.model, settings, self.windows)
        return int(room(window or ASSUMED_WINDOW) * 0.75)

    def new_id(self) -> str:
        """Return an id for an observation."""
        return self.runtime.ids.new("obs")

    def is_under_way(self, missing: Sequence[Message]) -> bool:
        """Return whether a slice of these uncovered messages may still arrive. A slice that the run waited
        for in vain is lost, and the slices after it cannot be used."""
        ids = {m.id for m in missing}
        return self.asked_through in ids and self.waited_through not in ids

    async def read_compacted(self, leaf_id: str | None = None) -> Compacted:
        """Return the branch's compaction as it stands."""
        return await self.runtime.memory.compacted(
            self.meta.owner, self.meta.thread_id, leaf_id or self.leaf_id, self.limits.kind
        )

    async def path(self, after_id: str | None, through_id: str | None = None) -> Path:
        """Return the branch's messages after this one; an empty path if it is not on the branch."""
        if after_id == (through_id or self.leaf_id):
            return Path(())
        span = await self.runtime.memory.span(
            self.meta.owner, self.meta.thread_id, after_id, through_id or self.leaf_id
        )
        return Path(for_models(span.messages) if span else (), self.waiting)

    def left_before(self, current: Compacted, piece: Sequence[Message]) -> list[Message]:
        """Return what was left out before and need not be any more, oldest first: as much of it as can be
        read with this piece. Places that nothing has taken are among it."""
        taken_ids = {id for slice in current.slices for id in slice.taken}
        left = [
            m for m in current.left_out if m.run_id not in self.waiting and m.id not in taken_ids
        ]
        room = self.readable - total_tokens(piece)
        return for_models(left[: count_within(left, room)]) if room > 0 else []

    async def ask(
        self, prompt: Prompt, read: Callable[[str], Parsed | None], useless: str
    ) -> ParsedReply[Parsed] | None:
        """Return the memory model's answer as `read` parses it; None if the model fails, or if its answers
        cannot be used (`useless` says so in the log). Such answers cost something as well."""
        replies: list[Reply] = []
        cause = useless
        while len(replies) < MAX_ATTEMPTS:
            try:
                replies.append(await ask(self.runtime, self.agent, self.meta, prompt))
            except LayoverError as error:
                cause = type(error).__name__
                break
            if value := read(replies[-1].text):
                return ParsedReply(value, tuple(replies))
            if is_cut(replies[-1]):
                break
        self.count_failure(cause)
        if replies:
            await self._record_waste([usage_row(self.runtime, self.meta, prompt.task, *replies)])
        return None

    async def improve(
        self,
        before: ParsedReply[Parsed],
        prompt: Prompt,
        read: Callable[[str], Parsed | None],
    ) -> ParsedReply[Parsed]:
        """Ask once for something better than an answer that there is. If the model fails, or its answer
        cannot be used, the answer from before stays; it costs something nevertheless."""
        try:
            reply = await ask(self.runtime, self.agent, self.meta, prompt)
        except LayoverError as error:
            extra = {"run_id": self.meta.id, "cause": type(error).__name__}
            logger.warning("an answer for memory was not improved", extra=extra)
            return before
        value = read(reply.text) or before.value
        # The model that answered is that of the last reply.
        return ParsedReply(value, (*before.replies, reply))

    def count_failure(self, cause: str) -> None:
        """Count a compaction that should have changed the branch and did not."""
        extra = {"run_id": self.meta.id, "thread_id": self.meta.thread_id, "cause": cause}
        logger.warning("nothing was compacted", extra=extra)
        self.runtime.metrics.count(Metric.COMPACTION_FAILED, agent=self.meta.agent)

    def count_savings(self, messages: Sequence[Message], block: str, before: str) -> None:
        """Count the tokens that a compaction removed from prompts."""
        tokens = sum(m.token_count or 0 for m in messages) - estimate(block) + estimate(before)
        if tokens > 0:
            self.runtime.metrics.count(Metric.TOKENS_COMPACTED, tokens, agent=self.meta.agent)

    async def add_slice(self, slice: NewGeneration, replies: Sequence[Reply]) -> Generation | None:
        """Store observations made ahead, with their usage."""
        usage = [
            usage_row(self.runtime, self.meta, f"observer:{slice.through_message_id}", *replies)
        ]
        generation = await self.runtime.memory.add_slice(
            self.meta.owner, self.meta.thread_id, slice, self.meta.id, usage
        )
        if generation is None:
            await self._record_waste(usage)
        return generation

    async def replace(
        self, new: NewGeneration, previous: Generation | None, replies: Sequence[Reply]
    ) -> Generation | None:
        """Replace `previous` with a reflection or a summary, and store the usage of the replies that it was
        made from; none if no model made it."""
        number = previous.number if previous else None
        usage = (
            [usage_row(self.runtime, self.meta, f"{new.kind}:{number or 0}", *replies)]
            if replies
            else []
        )
        generation = await self.runtime.memory.replace(
            self.meta.owner, self.meta.thread_id, new, number, self.meta.id, usage
        )
        if generation is None and usage:
            await self._record_waste(usage)
        return generation

    async def _record_waste(self, usage: Sequence[StepUsage]) -> None:
        """Store the usage of attempts that failed, apart from that of a later attempt."""
        rows = [
            u.model_copy(update={"step": f"{u.step}/{self.runtime.ids.new('use')}"}) for u in usage
        ]
        await self.runtime.memory.spend(self.meta.owner, self.meta.thread_id, self.meta.id, rows)


def without_places(messages: Iterable[Message]) -> list[Message]:
    """Return the messages that a memory model reads: those that say something."""
    return [message for message in messages if not message.is_place]

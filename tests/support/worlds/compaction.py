"""Short words for compaction in tests of its stores."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Literal

from layover.values.memory.compaction import (
    Compacted,
    CompactionKind,
    CompactionQuery,
    Generation,
    Marker,
    NewGeneration,
    Observation,
)
from layover.values.memory.context import StepUsage, TurnContext
from layover.values.message import Message
from layover.values.runs.usage import Usage
from support.worlds.threads import START, Conversation, Stores

AT = START + timedelta(days=1)
A_TO_F = ("a", "b", "c", "d", "e", "f")


def observation(id: str, parent: str | None = None) -> Observation:
    return Observation(
        id=id, at=AT, marker=Marker.IMPORTANT, text=f"text of {id}", parent_id=parent
    )


def spent(task: str) -> StepUsage:
    return StepUsage(
        step=task, agent="support", model="memory-model", usage=Usage(input_tokens=7), at=AT
    )


def new(
    kind: Literal["observations", "reflection", "summary"],
    after: str | None,
    through: str,
    *observed: str,
    summary: str | None = None,
    left_out: Sequence[str] = (),
    taken: Sequence[str] = (),
) -> NewGeneration:
    return NewGeneration(
        kind=kind,
        after_message_id=after,
        through_message_id=through,
        observations=tuple(observation(id) for id in observed),
        summary=summary,
        left_out=tuple(left_out),
        taken=tuple(taken),
        token_count=10,
        prompt_version="v1",
        model="memory-model",
        at=AT,
    )


class Branches(Conversation):
    """A conversation that is compacted. A slice's only observation is called after its last message."""

    def __init__(self, stores: Stores, owner: str, id: str = "thread") -> None:
        super().__init__(stores.threads, owner, id)
        self.memory = stores.memory

    async def line(self, parent: str | None, *ids: str) -> None:
        """Save a chain of messages."""
        await self.say(parent, *ids)

    async def slice(
        self, after: str | None, through: str, *observed: str, **more: Any
    ) -> Generation | None:
        """Observe a stretch ahead. `more`: `left_out`, `taken`."""
        made = new("observations", after, through, *(observed or (f"o-{through}",)), **more)
        return await self.memory.add_slice(self.owner, self.id, made, "run", [spent(through)])

    async def activate(self, *numbers: int, expected: int | None = None) -> bool:
        return await self.memory.activate(self.owner, self.id, numbers, expected)

    async def observe(self, after: str | None, through: str, *observed: str, **more: Any) -> int:
        """A slice that takes effect at once; its number."""
        made = await self.slice(after, through, *observed, **more)
        assert made is not None
        found = await self.compacted(through)
        expected = found.generation.number if found.generation else None
        assert await self.activate(made.number, expected=expected)
        return made.number

    async def reflect(
        self, through: str, *observed: str, expected: int | None
    ) -> Generation | None:
        made = new("reflection", None, through, *observed)
        return await self.memory.replace(self.owner, self.id, made, expected, "run")

    async def summarise(
        self, after: str | None, through: str, expected: int | None = None
    ) -> Generation | None:
        made = new("summary", after, through, summary=f"until {through}")
        usage = [spent(f"summary/{through}")]
        return await self.memory.replace(self.owner, self.id, made, expected, "run", usage)

    async def compacted(self, leaf: str, kind: CompactionKind = "observations") -> Compacted:
        return await self.memory.compacted(self.owner, self.id, leaf, kind)

    async def shows(self, leaf: str) -> list[str]:
        """The ids of the observations that a prompt of this path shows."""
        return [o.id for o in (await self.compacted(leaf)).observations]

    async def turn(
        self,
        input: Message,
        pinned: int | None = None,
        kind: CompactionKind = "observations",
        shown: Sequence[str] = (),
        run_id: str = "run",
        **fields: object,
    ) -> TurnContext:
        asked = CompactionQuery(kind=kind, pinned=pinned)
        update = {"compaction": asked, "pinned": tuple(shown), "run_id": run_id, **fields}
        return await self.store.open_turn(self.query(input).model_copy(update=update))


def ids(context: TurnContext) -> list[str]:
    return [m.id for m in context.history]


def left_out(found: Compacted | None) -> list[str]:
    """Return the ids of the messages that stay in the prompt."""
    assert found is not None
    return [m.id for m in found.left_out]


def slices(found: Compacted | None) -> list[str]:
    """Return the ids of the messages at which the slices end."""
    assert found is not None
    return [g.through_message_id for g in found.slices]

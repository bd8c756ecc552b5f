"""Any script of compaction does the same on Postgres as in memory."""

import itertools
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from layover.adapters.store.postgres.database import Database
from layover.adapters.store.postgres.threads import PostgresThreads
from layover.inmemory.stores.memory import InMemoryMemory
from layover.inmemory.stores.threads import InMemoryThreads
from layover.plugins.memory.postgres.additions import MemoryAdditions
from layover.plugins.memory.postgres.memory import PostgresMemory
from layover.values.memory.compaction import Compacted, CompactionKind
from support.examples import examples
from support.postgres.server import fresh_owner
from support.worlds.compaction import Branches
from support.worlds.threads import Stores

PLACE = st.integers(0, 60)
# A kind of move, two messages, a number that bends what would be right (0: nothing is bent).
MOVES = st.tuples(
    st.sampled_from(
        [
            "grow",
            "grow",
            "slice",
            "slice",
            "slice",
            "activate",
            "activate",
            "reflect",
            "summary",
            "turn",
        ]
    ),
    PLACE,
    PLACE,
    st.integers(0, 5),
)
Asked = Callable[[Branches], Coroutine[Any, Any, Any]]


@dataclass
class Pair:
    """The same thread in both stores."""

    here: Branches
    there: Branches
    ids: list[str] = field(default_factory=list)
    numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    def at(self, place: int) -> str:
        return self.ids[place % len(self.ids)]

    async def same(self, asked: Asked) -> Any:
        """Ask both; they answer the same."""
        answer = await asked(self.here)
        assert await asked(self.there) == answer
        return answer

    async def compacted(self, leaf: str, kind: CompactionKind = "observations") -> Compacted:
        found: Compacted = await self.same(lambda talk: talk.compacted(leaf, kind))
        return found

    async def grow(self, parent: str | None, length: int) -> None:
        new = [f"m{next(self.numbers)}" for _ in range(length)]
        chain = self.here.chain(parent, *new)
        for talk in (self.here, self.there):
            await talk.save(*chain)
        self.ids += new


async def _slice(pair: Pair, leaf: str, other: str, bent: int) -> None:
    found = await pair.compacted(leaf)
    end = found.slices[-1].through_message_id if found.slices else found.through
    after = end if bent < 4 else other
    name = f"o{next(pair.numbers)}"
    await pair.same(lambda talk: talk.slice(after, leaf, name))


async def _activate(pair: Pair, leaf: str, _: str, bent: int) -> None:
    found = await pair.compacted(leaf)
    numbers = [g.number for g in found.slices][: bent or None]
    expected = found.generation.number if found.generation else None
    if bent == 4:
        numbers = numbers[1:]
    if bent == 5:
        expected = (expected or 0) + 1
    await pair.same(lambda talk: talk.activate(*numbers, expected=expected))


async def _reflect(pair: Pair, leaf: str, other: str, bent: int) -> None:
    found = await pair.compacted(leaf)
    through = other if bent > 3 else found.through or leaf
    kept = [o.id for o in found.observations[::2]]
    expected = found.generation.number if found.generation else None
    await pair.same(lambda talk: talk.reflect(through, *kept, expected=expected))


async def _summarise(pair: Pair, leaf: str, other: str, bent: int) -> None:
    found = await pair.compacted(leaf, "summary")
    after = other if bent == 5 else found.through
    expected = found.generation.number if found.generation and bent < 4 else None
    await pair.same(lambda talk: talk.summarise(after, leaf, expected=expected))


async def _turn(pair: Pair, leaf: str, _: str, bent: int) -> None:
    found = await pair.compacted(leaf)
    last = found.generation.number if found.generation else 0
    pinned = (None, None, 0, last, max(last - 1, 0), None)[bent]
    listed = [g.number for g, _ in await pair.same(_listed(leaf))]
    pinned = pinned if pinned in (None, 0, *listed) else None
    asked = pair.here.message(f"m{next(pair.numbers)}", leaf)
    pair.ids.append(asked.id)
    run_id = "other" if bent == 5 else "run"
    await pair.same(lambda talk: talk.turn(asked, pinned, run_id=run_id))


async def _grow(pair: Pair, leaf: str, _: str, bent: int) -> None:
    await pair.grow(leaf, bent + 1)


def _span(after: str, through: str) -> Asked:
    return lambda talk: talk.memory.span(talk.owner, talk.id, after, through)


def _listed(leaf: str) -> Asked:
    return lambda talk: talk.memory.observations(talk.owner, talk.id, leaf)


_MOVES = {
    "grow": _grow,
    "slice": _slice,
    "activate": _activate,
    "reflect": _reflect,
    "summary": _summarise,
    "turn": _turn,
}


@examples(60, HealthCheck.function_scoped_fixture)
@given(moves=st.lists(MOVES, min_size=4, max_size=25))
async def test_any_script_of_compaction_does_the_same(
    database: Database, moves: list[tuple[str, int, int, int]]
) -> None:
    owner = fresh_owner()
    threads = InMemoryThreads()
    here = Branches(Stores(threads, InMemoryMemory(threads)), owner)
    there = Branches(
        Stores(PostgresThreads(database, MemoryAdditions()), PostgresMemory(database)), owner
    )
    pair = Pair(here, there)
    await pair.grow(None, 6)
    for kind, one, other, bent in moves:
        await _MOVES[kind](pair, pair.at(one), pair.at(other), bent)
    for leaf in pair.ids:
        await pair.compacted(leaf)
        await pair.compacted(leaf, "summary")
        await pair.same(_listed(leaf))
        after = pair.ids[0]
        await pair.same(_span(after, leaf))

"""What memory costs in a support conversation with titles, a profile, session notes and entries.

`python tests/benchmarks/memory_cost.py` plays twelve turns with scripted models in this process and prints a
line for each task of memory: requests, estimated tokens of what is sent, of the answers' schemas, which some
providers count, and of the answers. Then it prints what a turn writes with memory and without: write units of
DynamoDB, counted by a table in memory, and rows and bytes of WAL of a Postgres that it starts. It needs no
key, and runs on releases of before as well, to compare them."""

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1])]

import psycopg

from layover import Agent, EpisodicMemory, Memory
from layover import tool as declared
from layover.adapters.store.postgres.database import Database
from layover.adapters.store.postgres.migrate import PostgresMigrations
from layover.adapters.store.postgres.threads import PostgresThreads
from layover.context.tokens import estimate
from layover.inmemory.journal import in_memory_journal
from layover.plugins.memory.postgres.additions import MemoryAdditions
from layover.plugins.memory.postgres.memory import PostgresMemory
from layover.testing import ScriptedModel, call, say
from layover.wiring import in_memory_runtime
from support.postgres.server import TestPostgres, running_postgres
from support.worlds.write_units import CountingTable


@dataclass(frozen=True)
class Turn:
    """A turn of the conversation, and what memory's models learn from it: (quote, sentence)."""

    user: str
    assistant: str
    looks_up: bool = False
    entry: tuple[str, str] | None = None
    profile: tuple[str, str] | None = None
    session: tuple[str, str] | None = None


TURNS = (
    Turn("Hello!", "Hello, what can I do for you?"),
    Turn(
        "My coffee machine from order A-1003 leaks at the bottom since Monday. It worked for two weeks.",
        "I am sorry. Order A-1003 was delivered on 2 November and has a warranty of two years.",
        looks_up=True,
        entry=(
            "My coffee machine from order A-1003 leaks at the bottom since Monday",
            "The coffee machine of order A-1003 leaks at the bottom since Monday, after two weeks.",
        ),
        session=(
            "My coffee machine from order A-1003 leaks at the bottom since Monday",
            "the leaking coffee machine of order A-1003 is to be settled",
        ),
    ),
    Turn(
        "I tried another seal and cleaned the tank, but it still leaks.",
        "Thank you for trying. Does it leak while it heats, or all the time?",
        entry=(
            "I tried another seal and cleaned the tank, but it still leaks",
            "Another seal and a clean tank did not stop the leak of the coffee machine.",
        ),
    ),
    Turn(
        "Only while it heats. A cup of water is on the table after each coffee.",
        "That points to the boiler. It has to be replaced by the workshop, or you get a new machine.",
        entry=(
            "Only while it heats. A cup of water is on the table after each coffee",
            "The coffee machine leaks only while it heats, a cup of water for each coffee.",
        ),
    ),
    Turn(
        "I run a small office with six people, so I cannot do without it for three weeks.",
        "Then a new machine is better. I can send one with the same order number.",
        profile=("I run a small office with six people", "runs a small office with six people"),
    ),
    Turn(
        "Yes, please do that.",
        "Done: a new machine will be sent to the address of order A-1003.",
        session=("Yes, please do that.", "a new machine is sent for order A-1003"),
    ),
    Turn("Thanks!", "You are welcome. Is there anything else?"),
    Turn(
        "The address has changed: we moved to 14 Mill Lane in October.",
        "I have noted 14 Mill Lane for this delivery.",
        profile=("we moved to 14 Mill Lane in October", "moved to 14 Mill Lane in October"),
        session=("we moved to 14 Mill Lane in October", "deliver to 14 Mill Lane"),
    ),
    Turn(
        "And how do I return the old one?",
        "With the label that comes with the new machine. The pick-up is free.",
    ),
    Turn(
        "The carrier must come before noon, the office is closed in the afternoon.",
        "I have asked the carrier to come before noon.",
        profile=("the office is closed in the afternoon", "the office is closed in the afternoon"),
        session=("The carrier must come before noon", "the carrier comes before noon"),
    ),
    Turn(
        "When will the new machine arrive?",
        "Order A-1003 says Thursday, 19 November.",
        looks_up=True,
    ),
    Turn("Thank you very much, have a nice day!", "The same to you."),
)
TASKS = ("title", "lesson", "profile", "session", "extractor")


@dataclass
class Cost:
    """What the requests of a task took, in tokens."""

    requests: int = 0
    sent: int = 0
    schema: int = 0
    answers: int = 0


@dataclass
class Memories:
    """Memory's models: they answer as they are asked to, and everything is counted."""

    turn: Turn = TURNS[0]
    costs: dict[str, Cost] = field(default_factory=lambda: {task: Cost() for task in TASKS})

    def answer(self, prompt: Any) -> Any:
        """Return the answer to a request, and count both."""
        text = self._text(prompt.task, prompt.system)
        cost = self.costs[prompt.task]
        output = getattr(prompt, "output", None)
        cost.requests += 1
        cost.sent += estimate(prompt.system) + sum(estimate(m.text) for m in prompt.messages)
        cost.schema += estimate(json.dumps(output.json_schema)) if output else 0
        cost.answers += estimate(text)
        return say(text)

    def _text(self, task: str, asked: str) -> str:
        if task == "title":
            return "Leaking coffee machine"
        if task == "lesson":
            lists = [("entries", self._text("extractor", asked))]
            lists += [(name, self._text(name, asked)) for name in ("profile", "session")]
            return json.dumps({name: next(iter(json.loads(t).values())) for name, t in lists})
        if task == "extractor":
            return json.dumps({"entries": [*self._entry(asked)]})
        if task == "profile":
            return json.dumps({"facts": [*self._fact(self.turn.profile, "key", "office")]})
        return json.dumps({"facts": [*self._fact(self.turn.session, "field", "decisions")]})

    def _entry(self, asked: str) -> Iterator[dict[str, str]]:
        if self.turn.entry:
            evidence, content = self.turn.entry
            has_kinds = "`kind`" in asked
            said_by = {"kind": "symptom"} if has_kinds else {"source": "user_assertion"}
            yield {"evidence": evidence, **said_by, "content": content}

    def _fact(
        self, fact: tuple[str, str] | None, name: str, value: str
    ) -> Iterator[dict[str, str]]:
        if fact:
            evidence, content = fact
            yield {"evidence": evidence, name: value, "content": content}


@declared
def lookup_order(order_id: str) -> str:
    """Look an order up."""
    return f"{order_id}: coffee machine, 189 euros, delivered on 2 November, warranty of two years"


REMEMBERS = Memory(titles=True, profile=True, session=True, episodic=EpisodicMemory())
NOTHING = Memory()


class Desk:
    """The agent of the conversation, with its stores: a table that counts, and Postgres."""

    def __init__(self, memory: Memory, database: Database) -> None:
        self.memories = Memories()
        self.table = CountingTable()
        self._steps: list[Any] = []
        background = dict.fromkeys(TASKS, self.memories.answer)
        model = ScriptedModel(lambda _: self._steps.pop(0), background=background)
        self._agent = Agent("desk", instructions="You help.", tools=[lookup_order], memory=memory)
        runtime = in_memory_runtime(self._agent, model=model)
        self._agent.runtime = replace(
            runtime,
            journal=in_memory_journal(runtime.clock, runtime.blobs, table=self.table),
            threads=PostgresThreads(database, MemoryAdditions()),
            memory=PostgresMemory(database),
        )

    async def play(self, owner: str) -> None:
        """Play the conversation with a user, until memory has learned of each turn."""
        for turn in TURNS:
            self.memories.turn = turn
            self._steps += [call("lookup_order", order_id="A-1003")] if turn.looks_up else []
            self._steps.append(say(turn.assistant))
            await self._agent.generate(turn.user, thread_id=f"t-{owner}", resource_id=owner)
            await self._agent.wait_for_memory()


@dataclass(frozen=True)
class Writes:
    """The writes of the conversation: units of DynamoDB, rows and bytes of WAL in Postgres."""

    units: int
    rows: int
    wal: int


class Counters:
    """Counters of a database: rows that were inserted, updated or deleted, and bytes of WAL."""

    def __init__(self, postgres: TestPostgres) -> None:
        self._postgres = postgres

    def read(self) -> tuple[int, int]:
        """Return both so far. Whoever wrote has closed its connections: a backend counts when it ends."""
        query = """select (select coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0)::bigint
            from pg_stat_user_tables), (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint"""
        with psycopg.connect(self._postgres.superuser) as connection:
            row = connection.execute(query).fetchone()
        assert row is not None
        return int(row[0]), int(row[1])

    def settle(self) -> None:
        """Write all pages, so that none is written whole for the first time while it is counted."""
        with psycopg.connect(self._postgres.superuser, autocommit=True) as connection:
            connection.execute("vacuum analyze")
            connection.execute("checkpoint")


async def measure(postgres: TestPostgres, memory: Memory, name: str) -> tuple[Writes, Memories]:
    """Play the conversation with a user after another one who has filled the caches."""
    counters = Counters(postgres)
    counters.settle()
    database = Database(postgres.runtime)
    await Desk(memory, database).play(f"{name}-before")
    await database.close()
    rows, wal = counters.read()
    database = Database(postgres.runtime)
    desk = Desk(memory, database)
    await desk.play(name)
    await database.close()
    rows_after, wal_after = counters.read()
    return Writes(desk.table.total, rows_after - rows, wal_after - wal), desk.memories


async def main() -> None:
    """Play the conversation with and without memory, and print what memory took."""
    with running_postgres() as server:
        postgres = server.new_database("bench")
        await PostgresMigrations(postgres.admin).apply()
        without, _ = await measure(postgres, NOTHING, "ben")
        learned, memories = await measure(postgres, REMEMBERS, "ann")
    _print(memories.costs)
    print(f"\n{'writes of a turn':<18}{'write units':>12}{'rows':>8}{'WAL bytes':>12}")
    pairs = zip(vars(learned).values(), vars(without).values(), strict=True)
    own = Writes(*(a - b for a, b in pairs))
    for name, writes in (("without memory", without), ("with memory", learned), ("of memory", own)):
        units, rows, wal = (n / len(TURNS) for n in vars(writes).values())
        print(f"{name:<18}{units:>12.2f}{rows:>8.2f}{wal:>12,.0f}")


def _print(costs: dict[str, Cost]) -> None:
    whole: Counter[str] = Counter()
    print(f"{'task':<12}{'requests':>10}{'sent':>10}{'schema':>10}{'answers':>10}")
    for task, cost in costs.items():
        print(f"{task:<12}{cost.requests:>10}{cost.sent:>10}{cost.schema:>10}{cost.answers:>10}")
        whole.update(vars(cost))
    figures = "".join(f"{whole[name]:>10}" for name in ("requests", "sent", "schema", "answers"))
    print(f"{'all':<12}{figures}")
    all_tokens = whole["sent"] + whole["answers"]
    print(
        f"a turn: {whole['requests'] / len(TURNS):.2f} requests, {all_tokens / len(TURNS):.0f} tokens,"
        f" {(all_tokens + whole['schema']) / len(TURNS):.0f} with schemas"
    )


if __name__ == "__main__":
    asyncio.run(main())

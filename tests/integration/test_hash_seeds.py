"""What is written does not depend on the order of sets, which is another in each process."""

from support.hash_seeds import printed_with

STORY = """
import asyncio

from layover.inmemory.blobs import InMemoryBlobs
from layover.inmemory.table import InMemoryTable
from layover.adapters.journal.allowance import TableAllowance
from layover.adapters.journal.journal import table_journal
from layover.clock import ManualClock
from layover.dice import SeededDice
from layover.ids import SequentialIds
from layover.plugins.memory.ranking import Candidate, fuse
from layover.runs.accept import StartRun, start_run
from layover.runs.cancel import cancel
from layover.sockets.delivery import DeliveryQueue
from layover.threads import threads
from layover.values.deployment.access import Actor
from layover.values.runs.usage import Usage
from support.worlds.builder import build_runtime
from support.worlds.loops import played
from support.worlds.services import SUPPORT

GROUPS = frozenset(f"group{n}" for n in range(9))


class Told(InMemoryTable):
    async def get(self, pk, sk, *, consistent=True):
        print("get", pk, sk)
        return await super().get(pk, sk, consistent=consistent)

    async def query(self, pk, low, high, **options):
        print("query", pk, low)
        return await super().query(pk, low, high, **options)

    async def write(self, action):
        print("write", action.pk, action.sk, list(vars(action)))
        return await super().write(action)

    async def transact(self, actions, token):
        print("transact", token, [(a.pk, a.sk) for a in actions])
        return await super().transact(actions, token)


class Slow:
    async def deliver(self, subscription, keep_going):
        print("deliver", subscription)
        await asyncio.sleep(0)
        return False

    async def defer(self, subscription):
        print("defer", subscription)


async def story():
    clock, table = ManualClock(), Told()
    journal = table_journal(table, InMemoryBlobs(clock), clock, dice=SeededDice(1))
    allowance = TableAllowance(table, clock, counts=True)
    runtime = build_runtime(
        SUPPORT, journal=journal, clock=clock, ids=SequentialIds(), allowance=allowance
    )
    ann = Actor(sub="ann", groups=GROUPS, scopes=GROUPS)
    thread = await threads.create(runtime, "ann", "support", None, {})
    run = await start_run(runtime, ann, thread.id, StartRun("one"))
    await cancel(runtime, "ann", run.id)
    await journal.inbox.page(GROUPS, 10, None)
    for n in range(9):
        allowance.note(f"owner{n}", Usage(input_tokens=1, output_tokens=1))
    await allowance.flush()
    words = [f"word{n}" for n in range(40)]
    scope = [Candidate(frozenset(words[n // 2 : 40 - n // 3]), None) for n in range(40)]
    print([scores.lexical for scores in fuse(words, scope)])
    queue = DeliveryQueue(Slow())
    queue.notify("ann", "run_1", frozenset(f"c{n}" for n in range(9)))
    await queue.finish()


played(story())
"""


def test_a_story_is_the_same_under_every_hash_seed() -> None:
    first = printed_with(1, STORY)
    assert {line.split()[0] for line in first.splitlines()} >= {"transact", "deliver", "defer"}
    for seed in (2, 3):
        assert printed_with(seed, STORY) == first

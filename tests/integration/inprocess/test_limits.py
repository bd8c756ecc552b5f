"""Limits of a user's day and rate hold in process as they do when deployed."""

from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest

from layover import Agent, Memory, wiring
from layover.clock import ManualClock
from layover.errors import DayUsedUp, LimitReached
from layover.inmemory.table import InMemoryTable
from layover.ports.allowance import NoAllowance
from layover.testing import ScriptedModel, say
from layover.values.prompt import Prompt, Reply
from layover.values.runs.usage import Usage
from layover.wiring import in_memory_runtime

Environ = Callable[..., None]


@pytest.fixture
def environ(monkeypatch: pytest.MonkeyPatch) -> Iterator[Environ]:
    """`environ(LAYOVER_DAILY_TOKENS="5")`: a process with these variables."""

    def given(**variables: str) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        wiring.environment.cache_clear()

    yield given
    monkeypatch.undo()
    wiring.environment.cache_clear()


class Shop:
    """An agent whose every answer costs two tokens."""

    def __init__(self, memory: Memory | None = None, table: InMemoryTable | None = None) -> None:
        self.clock = ManualClock()
        self.agent = Agent("shop", model="m", memory=memory or Memory())
        model = ScriptedModel(self._answer)
        self.agent.runtime = in_memory_runtime(
            self.agent, model=model, clock=self.clock, table=table
        )

    def _answer(self, prompt: Prompt) -> Reply:
        return say("hello", usage=Usage(input_tokens=1, output_tokens=1))


async def test_run_of_a_user_whose_day_is_used_up_is_refused(environ: Environ) -> None:
    environ(LAYOVER_DAILY_TOKENS="4")
    shop = Shop()
    for _ in range(2):
        assert (await shop.agent.generate("hi", resource_id="ada")).status == "success"
    with pytest.raises(DayUsedUp, match="4 tokens"):
        await shop.agent.generate("hi", resource_id="ada")
    assert (await shop.agent.generate("hi", resource_id="bob")).status == "success"
    shop.clock.advance(timedelta(days=1))
    assert (await shop.agent.generate("hi", resource_id="ada")).status == "success"


async def test_more_runs_than_the_minute_may_have_are_refused(environ: Environ) -> None:
    environ(LAYOVER_RUNS_PER_MINUTE="1")
    shop = Shop()
    await shop.agent.generate("hi")
    with pytest.raises(LimitReached, match="1 runs a minute"):
        await shop.agent.generate("hi")
    shop.clock.advance(timedelta(minutes=1))
    assert (await shop.agent.generate("hi")).status == "success"


async def test_what_memory_asks_afterwards_counts(environ: Environ) -> None:
    environ(LAYOVER_DAILY_TOKENS="3")
    shop = Shop(Memory(titles=True))
    await shop.agent.generate("what is there to know of the weather", thread_id="t")
    await shop.agent.wait_for_memory()
    with pytest.raises(DayUsedUp):
        await shop.agent.generate("hi", thread_id="t")


async def test_users_days_are_in_the_table_that_has_the_journal(environ: Environ) -> None:
    environ(LAYOVER_RUNS_PER_MINUTE="1")
    table = InMemoryTable()
    await Shop(table=table).agent.generate("hi")
    with pytest.raises(LimitReached):
        await Shop(table=table).agent.generate("hi")


def test_without_a_limit_nothing_is_counted(environ: Environ) -> None:
    environ()
    assert isinstance(in_memory_runtime().allowance, NoAllowance)

"""A turn connects ahead: to the database while it takes its run, to the model's provider while it reads."""

from typing import Any

from layover import Agent
from layover.adapters.dialer import ClientDialer
from layover.inmemory.model import say
from layover.plugins.models.openai_chat import OpenAIChat
from layover.plugins.models.providers import Providers
from layover.ports import Dialer
from layover.ports.table import Update
from layover.values.deployment.providers import ProviderAddress
from layover.values.runs.model_settings import RunChoice
from support.worlds.runs import Bench
from support.worlds.writes import Proceed, around_writes


class Noting(Dialer):
    """Notes what it is to connect to, among other things that happen."""

    def __init__(self) -> None:
        self.order: list[str] = []

    def dial_database(self) -> None:
        self.order.append("dials the database")

    def dial_model(self, model: str) -> None:
        self.order.append(f"dials {model}")


def watched(dialer: Noting) -> Bench:
    """A bench that notes when a run is to be taken and when the database is asked, too."""
    agent = Agent("helper", model="m", overridable=["model"])
    bench = Bench(agent, [say("hi")], dialer=dialer)
    open_turn = bench.threads.open_turn

    async def opened(query: Any) -> Any:
        dialer.order.append("asks the database")
        return await open_turn(query)

    async def wrote(actions: Any, proceed: Proceed) -> None:
        takes = [a for a in actions if isinstance(a, Update) and "takes" in a.add]
        if takes:
            dialer.order.append("takes the run")
        await proceed()

    bench.threads.open_turn = opened  # type: ignore[method-assign]
    around_writes(bench, wrote)
    return bench


async def test_a_turn_connects_before_it_needs_to() -> None:
    dialer = Noting()
    bench = watched(dialer)
    await bench.go()
    steps = ["dials the database", "takes the run", "dials m", "asks the database"]
    assert dialer.order == steps


async def test_the_model_that_the_run_chose_is_the_one_that_is_dialled() -> None:
    dialer = Noting()
    await watched(dialer).go(choice=RunChoice(model="openai/other"))
    assert "dials openai/other" in dialer.order


async def test_a_turn_that_finds_its_run_over_needs_no_model() -> None:
    dialer = Noting()
    bench = watched(dialer)
    run = await bench.go()
    dialer.order.clear()
    await bench.turn(run.id)
    assert dialer.order == ["dials the database", "takes the run"]


async def test_the_dialer_asks_the_clients_that_are_used_later() -> None:
    calls: list[str] = []

    class Database:
        def dial(self) -> None:
            calls.append("database")

    class Chat(OpenAIChat):
        def dial(self, model: str) -> None:
            calls.append(model)

    address = ProviderAddress(base_url="https://d.example/v1")
    providers = Providers(Chat("key"), {"deepseek": address}, lambda name: None)
    providers._models["deepseek"] = Chat("key", address.base_url)
    dialer = ClientDialer(Database, lambda: providers)
    dialer.dial_database()
    dialer.dial_model("gpt-4o")
    dialer.dial_model("deepseek/chat")
    assert calls == ["database", "gpt-4o", "openai/chat"]

"""A step's prompt that is made again is the one that its model was sent, or says why it may not be."""

from collections.abc import Iterator
from typing import Any

import pytest

from layover import (
    Agent,
    Hook,
    HookContext,
    Memory,
    ModelRequest,
    RunContext,
    WorkingMemory,
    tool,
)
from layover.errors import NotFound
from layover.inmemory.model import ScriptedModel
from layover.plugins.operate.actions import read_prompt
from layover.runs.accept import StartRun, start_run
from layover.runs.prompts import Remade, remake_prompt
from layover.testing import call, fail, say
from layover.threads import threads
from layover.values.deployment.access import Actor
from layover.values.prompt import Prompt
from support.worlds.driven import Driven

ANN = Actor(sub="ann")
OLGA = Actor(sub="olga")


@tool
def look_up(order_id: str) -> dict[str, str]:
    """Look up an order."""
    return {"order": order_id, "state": "paid"}


PLAIN = Agent("plain", instructions="Help.", tools=[look_up])
REMEMBERS = Agent(
    "remembers",
    instructions="Help.",
    tools=[look_up],
    memory=Memory(working_memory=WorkingMemory()),
)


class Asked:
    """A world in which one agent answers by a script; the model keeps its prompts."""

    def __init__(self, agent: Agent) -> None:
        self.script: list[Any] = []
        self.model = ScriptedModel(lambda _: self.script.pop(0))
        self.world = Driven(agent, model=self.model)
        self.agent = agent
        self.thread = self.world.run(
            threads.create(self.world.runtime(), "ann", agent.name, None, {})
        ).id

    def run(self, text: str, *script: Any) -> str:
        """The id of a run of the one thread that has come to its end."""
        self.script = [*script]
        wish = StartRun(text)
        run = self.world.run(start_run(self.world.runtime(), ANN, self.thread, wish))
        return run.id

    def remade(self, run_id: str, number: int) -> Remade:
        """The prompt of a step, made again."""
        journal = self.world.runtime().journal
        snapshot = self.world.run(journal.runs.snapshot("ann", run_id))
        head = self.world.run(journal.heads.get("ann", self.thread))
        assert snapshot is not None
        assert head is not None
        return self.world.run(remake_prompt(self.world.runtime(), head, snapshot, number))


@pytest.fixture(params=[PLAIN, REMEMBERS], ids=lambda agent: str(agent.name))
def asked(request: pytest.FixtureRequest) -> Iterator[Asked]:
    made = Asked(request.param)
    yield made
    made.world.close()


def core(prompt: Prompt) -> dict[str, Any]:
    """What a provider is sent, without what only this process knows."""
    said = [(m.role, m.content, m.model_output) for m in prompt.messages]
    return {"system": prompt.system, "messages": said, "tools": prompt.tools, "model": prompt.model}


def test_step_that_the_run_does_not_have_is_not_found(asked: Asked) -> None:
    run_id = asked.run("hello", say("hi"))
    for number in (0, 3):
        with pytest.raises(NotFound, match="the run has 1 steps"):
            asked.remade(run_id, number)


def test_each_prompt_is_the_one_that_was_sent_whatever_came_after(asked: Asked) -> None:
    asked.run("the first", say("one"))
    sent = len(asked.model.turns)
    run_id = asked.run("where is A-1?", call("look_up", order_id="A-1"), say("paid"))
    prompts = asked.model.turns[sent:]
    asked.run("and now?", say("later"))
    before = len(asked.model.prompts)
    for number, prompt in enumerate(prompts, 1):
        made = asked.remade(run_id, number)
        assert made.problem is None
        assert made.prompt is not None
        assert core(made.prompt) == core(prompt)
    assert len(asked.model.prompts) == before


def test_step_without_a_reply_is_what_it_would_be_sent_now(asked: Asked) -> None:
    run_id = asked.run("hello", call("look_up", order_id="A-1"), fail("no", status=401))
    made = asked.remade(run_id, 2)
    assert made.prompt is not None
    assert made.problem is not None
    assert "no reply" in made.problem
    assert core(made.prompt) == core(asked.model.turns[-1])


def test_run_that_failed_at_its_first_step_shows_what_would_be_sent(asked: Asked) -> None:
    run_id = asked.run("hello", fail("no", status=401))
    made = asked.remade(run_id, 1)
    assert made.prompt is not None
    assert "no step of the run was journaled" in str(made.problem)


def test_agent_that_has_changed_since_is_said_to_have() -> None:
    asked = Asked(Agent("plain", instructions="Help."))
    run_id = asked.run("hello", say("hi"))
    # The deployment after it has the same journal, and another agent of that name.
    longer = Agent("plain", instructions="Help, and be very much longer than before.")
    asked.world.deploy_agents(longer)
    assert "has changed since" in str(asked.remade(run_id, 1).problem)
    asked.world.close()


def test_text_of_a_function_is_the_one_that_was_pinned_and_no_function_is_called_again() -> None:
    told: list[str] = []

    def instructions(ctx: RunContext) -> str:
        told.append(ctx.run_id)
        return f"Call {len(told)}."

    asked = Asked(Agent("made", instructions=instructions))
    run_id = asked.run("hello", say("hi"))
    made = asked.remade(run_id, 1)
    assert made.prompt is not None
    assert (made.prompt.system, made.problem) == ("Call 1.", None)
    failed = asked.run("hello", fail("no", status=401))
    called = len(told)
    made = asked.remade(failed, 1)
    assert made.prompt is None
    assert "was not kept" in str(made.problem)
    assert len(told) == called
    asked.world.close()


class Watches(Hook):
    async def before_model(self, ctx: HookContext, request: ModelRequest) -> None:
        """Change nothing."""


def test_hooks_may_have_changed_what_was_sent() -> None:
    asked = Asked(Agent("hooked", instructions="Help.", hooks=[Watches()]))
    run_id = asked.run("hello", say("hi"))
    assert "hooks may have changed it" in str(asked.remade(run_id, 1).problem)
    asked.world.close()


def test_operator_reads_results_as_the_model_did_behind_a_row(asked: Asked) -> None:
    run_id = asked.run("where is A-1?", call("look_up", order_id="A-1"), say("paid"))
    runtime = asked.world.runtime()
    read = asked.world.run(read_prompt(runtime, OLGA, run_id, 2))
    assert read.as_sent
    assert read.prompt is not None
    [part] = read.prompt.messages[-1].content
    assert isinstance(getattr(part, "result", None), str)
    page = asked.world.run(runtime.journal.operations.page_actions(None, None, 9, None))
    assert [(row.operation.value, row.by, row.run_id) for row in page.items] == [
        ("read", "olga", run_id)
    ]

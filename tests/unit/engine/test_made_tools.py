"""Tools that a function gives, and tools that the model finds by words."""

from typing import Any

import pytest

from layover import Agent, DefinitionError, ModelSettings, RunContext, tool
from layover.engine.tools.search import find_tools
from layover.testing import call, say
from layover.values.runs.run import Status
from layover.values.runs.views import Run
from support.worlds.runs import ANN, Bench, words_of


def named(name: str, description: str = "Does it.", **options: Any) -> Any:
    async def act() -> str:
        return f"{name} done"

    return tool(name=name, description=description, **options)(act)


def results(run: Run) -> list[Any]:
    return [p.result for m in run.messages for p in m.content if p.type == "tool_result"]


def shown(bench: Bench) -> list[list[str]]:
    return [[t.name for t in prompt.tools] for prompt in bench.model.prompts]


# tools=callable


async def test_a_function_gives_the_tools_of_a_run() -> None:
    async def tools(ctx: RunContext) -> list[Any]:
        return [named(f"of_{ctx.resource_id}")]

    bench = Bench(Agent("a", model="m", tools=tools), [call("of_ann"), say("ok")])
    run = await bench.go()
    assert results(run) == ["of_ann done"]
    assert shown(bench) == [["of_ann"], ["of_ann"]]


async def test_a_run_keeps_the_names_of_its_first_step() -> None:
    names = ["one", "two"]

    def tools(ctx: RunContext) -> list[Any]:
        return [named(name, needs_approval=name == "two") for name in names]

    script = [call("two", tool_call_id="c1"), call("one"), say("ok")]
    bench = Bench(Agent("a", model="m", tools=tools), script)
    run = await bench.go()
    assert run.status is Status.SUSPENDED
    names[:] = ["zero", "two", "three"]
    assert await bench.answer(run.id, "c1", "approve") == "over"
    run = await bench.run(run.id)
    assert results(run) == ["two done", "Tool one not found"]
    assert shown(bench) == [["one", "two"], ["two"], ["two"]]
    assert "definition-changed" not in [e.type for e in await bench.events(run.id)]


async def test_the_function_is_asked_about_what_the_run_pinned() -> None:
    seen: list[RunContext] = []

    def tools(ctx: RunContext) -> list[Any]:
        seen.append(ctx)
        return [named("pay", needs_approval=True)]

    bench = Bench(Agent("a", model="m", tools=tools), [call("pay", tool_call_id="c1"), say("ok")])
    run = await bench.go()
    await bench.plain.journal.heads.edit(ANN, "t1", metadata={"plan": "other"})
    assert await bench.answer(run.id, "c1", "approve") == "over"
    assert len(seen) >= 2
    assert {(c.now, str(c.metadata), c.run_id) for c in seen} == {(seen[0].now, "{}", run.id)}


async def test_a_sub_agent_may_be_given_and_have_a_function_of_its_own() -> None:
    low = Agent("low", model="m", tools=lambda ctx: [named("pay", needs_approval=True)])
    top = Agent("top", model="m", tools=lambda ctx: [low.as_tool("x")])
    script = [call("low", input="a"), call("pay", tool_call_id="c1"), say("below"), say("ok")]
    bench = Bench(top, script)
    run = await bench.go()
    assert [p.agent_path for p in run.pending] == [("top", "low")]
    assert await bench.answer(run.id, "c1", "approve") == "over"
    assert results(await bench.run(run.id)) == [{"result": "below"}]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (lambda ctx: 3, "did not return a list of tools"),
        (lambda ctx: [named("x"), named("x")], "another tool is called 'x', too"),
        (lambda ctx: 1 / 0, "the tools of agent 'a' failed: division by zero"),
    ],
    ids=["no list", "twice", "raises"],
)
async def test_a_function_that_gives_no_tools_fails_the_run(given: Any, told: str) -> None:
    run = await Bench(Agent("a", model="m", tools=given), [say("ok")]).go()
    assert run.status is Status.FAILED
    assert run.error is not None
    assert told in words_of(run)


async def test_a_tool_that_a_function_gives_may_be_forced() -> None:
    forced = ModelSettings(tool_choice="look")
    agent = Agent("a", model="m", tools=lambda ctx: [named("look")], model_settings=forced)
    bench = Bench(agent, [call("look"), say("ok")])
    assert (await bench.go()).status is Status.SUCCESS
    assert [p.settings.tool_choice for p in bench.model.prompts] == ["look", "auto"]


async def test_a_run_that_is_not_given_the_forced_tool_fails_before_its_model_is_asked() -> None:
    forced = ModelSettings(tool_choice="look")
    agent = Agent("a", model="m", tools=lambda ctx: [named("see")], model_settings=forced)
    bench = Bench(agent, [say("never")])
    run = await bench.go()
    assert run.error is not None
    assert "tool_choice: no tool 'look'" in words_of(run)
    assert bench.model.prompts == []


async def test_a_forced_tool_that_is_gone_later_does_not_matter() -> None:
    names = ["look", "pay"]

    def tools(ctx: RunContext) -> list[Any]:
        return [named(name, needs_approval=name == "pay") for name in names]

    forced = ModelSettings(tool_choice="look")
    agent = Agent("a", model="m", tools=tools, model_settings=forced)
    bench = Bench(agent, [call("look"), call("pay", tool_call_id="c1"), say("ok")])
    run = await bench.go()
    names.remove("look")
    assert await bench.answer(run.id, "c1", "approve") == "over"
    assert (await bench.run(run.id)).status is Status.SUCCESS


def test_a_single_tool_is_no_function_that_gives_tools() -> None:
    with pytest.raises(DefinitionError, match="a list of tools"):
        Agent("a", tools=named("x"))


# Search


SUBJECTS = [
    "invoice",
    "customer",
    "order",
    "ticket",
    "product",
    "supplier",
    "warehouse",
    "employee",
]
VERBS = {
    "create": "Make a new",
    "delete": "Remove an old",
    "list": "Show every",
    "archive": "Put away an",
}
MANY = [
    named(f"{verb}_{subject}", f"{told} {subject}.")
    for subject in SUBJECTS
    for verb, told in VERBS.items()
]


def test_words_find_the_tools_that_fit_best() -> None:
    assert find_tools(MANY, "archive tickets")[0].name == "archive_ticket"
    assert find_tools(MANY, "show the suppliers")[0].name == "list_supplier"
    assert find_tools(MANY, "fly to the moon") == []
    assert len(find_tools(MANY, "order customer invoice")) == 5


async def test_with_many_tools_the_model_is_shown_those_that_it_found() -> None:
    script = [call("search_tools", query="remove a customer"), call("delete_customer"), say("ok")]
    bench = Bench(Agent("a", model="m", tools=MANY, tool_search=True), script)
    run = await bench.go()
    first, *later = shown(bench)
    assert first == ["search_tools"]
    for names in later:
        assert names[:2] == ["search_tools", "delete_customer"]
        assert len(names) == 6
    assert results(run)[0][0] == {
        "name": "delete_customer",
        "description": "Remove an old customer.",
    }
    assert results(run)[1] == "delete_customer done"


async def test_what_was_found_is_shown_after_a_suspension_too() -> None:
    asks = named("pay_bill", "Pay a bill.", needs_approval=True)
    script = [call("search_tools", query="bill"), call("pay_bill", tool_call_id="c1"), say("ok")]
    bench = Bench(Agent("a", model="m", tools=[*MANY, asks], tool_search=True), script)
    run = await bench.go()
    assert await bench.answer(run.id, "c1", "approve") == "over"
    assert shown(bench)[-1] == ["search_tools", "pay_bill"]


async def test_few_tools_and_agents_that_did_not_ask_show_all_of_them() -> None:
    for tools, search in ((MANY[:30], True), (MANY, False)):
        bench = Bench(Agent("a", model="m", tools=tools, tool_search=search), [say("ok")])
        await bench.go()
        assert shown(bench) == [[t.name for t in tools]]


def test_a_tool_of_the_searchs_name_is_refused() -> None:
    with pytest.raises(DefinitionError, match="search_tools"):
        Agent("a", tools=[named("search_tools")], tool_search=True)
    Agent("a", tools=[named("search_tools")])

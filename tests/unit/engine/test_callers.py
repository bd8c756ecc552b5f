"""The groups and scopes of the caller who started a run, as the author's functions see them."""

from typing import Any

import pytest
from pydantic import BaseModel

from layover import Agent, Hook, HookContext, RunContext, ToolContext, tool
from layover.errors import InvalidRequest
from layover.inmemory.model import ScriptedModel, call, say
from layover.keys import INPUT, META, Keys
from layover.ports.table import Put
from layover.runs.accept import StartRun, start_run
from layover.values.deployment.access import Actor
from layover.values.runs.run import OnBusy, RunMeta
from support.worlds.runs import ANN, Bench

FINANCE = frozenset({"finance", "berlin"})
USE = frozenset({"layover/use", "openid"})
CALLER = Actor(sub=ANN, groups=FINANCE, scopes=USE)
NOBODY: frozenset[str] = frozenset()
Seen = list[tuple[str, frozenset[str], frozenset[str]]]


class Receipt(BaseModel):
    """A structured output."""

    euros: int


class Notes(Hook):
    """Notes what each function of an agent sees."""

    def __init__(self) -> None:
        self.seen: Seen = []

    def note(self, where: str, ctx: Any) -> None:
        self.seen.append((where, ctx.groups, ctx.scopes))

    def before_model(self, ctx: HookContext, request: Any) -> None:
        self.note("hook", ctx)

    def at_end(self, ctx: HookContext, result: Any) -> None:
        self.note("end", ctx)

    def instructions(self, ctx: RunContext) -> str:
        self.note("instructions", ctx)
        return "Help."

    def validator(self, output: Any, ctx: RunContext) -> Any:
        self.note("validator", ctx)
        return output

    def agent(self, name: str = "helper", *, waits: bool = False, **options: Any) -> Agent:
        def waits_for_a_person(args: dict[str, Any], ctx: ToolContext) -> bool:
            self.note("predicate", ctx)
            return waits

        @tool(needs_approval=waits_for_a_person)
        def pay(amount: int, ctx: ToolContext) -> str:
            """Pay."""
            self.note("tool", ctx)
            return "paid"

        def tools(ctx: RunContext) -> list[Any]:
            self.note("tools", ctx)
            return [pay]

        return Agent(
            name, model="m", instructions=self.instructions, tools=tools, hooks=[self], **options
        )


async def accepted(bench: Bench, actor: Actor = CALLER, **options: Any) -> str:
    """Accept a run of this caller; its id."""
    if await bench.plain.journal.heads.get(ANN, "t1") is None:
        await bench.start(thread="t1")
        page = await bench.plain.journal.runs.page_ids(ANN, "t1", 1, None)
        await bench.drive(page.items[0])
    run = await start_run(bench.plain, actor, "t1", StartRun("hello", **options))
    return run.id


async def meta_of(bench: Bench, run_id: str) -> RunMeta:
    meta = await bench.plain.journal.runs.get(ANN, run_id)
    assert meta is not None
    return meta


async def test_each_function_of_an_agent_sees_who_started_the_run() -> None:
    notes = Notes()
    agent = notes.agent(output_validator=notes.validator, output=Receipt)
    paid = say('{"euros": 5}')
    bench = Bench(agent, [paid, call("pay", amount=5), paid])
    run_id = await accepted(bench)
    notes.seen.clear()
    await bench.drive(run_id)
    assert {where for where, _, _ in notes.seen} == {
        *("instructions", "tools", "hook", "predicate", "tool", "validator", "end")
    }
    assert {(groups, scopes) for _, groups, scopes in notes.seen} == {(FINANCE, USE)}


async def test_a_sub_agent_works_for_the_same_caller() -> None:
    notes = Notes()
    desk = notes.agent("desk")
    top = Agent("top", model="m", tools=[desk.as_tool("Pays.")])
    script = [say("before"), call("desk", input="pay"), call("pay", amount=5), say("x"), say("y")]
    bench = Bench(top, script)
    await bench.drive(await accepted(bench))
    assert ("tool", FINANCE, USE) in notes.seen
    assert {(groups, scopes) for _, groups, scopes in notes.seen} == {(FINANCE, USE)}


async def test_whoever_decides_lends_no_rights_to_the_run() -> None:
    notes = Notes()
    bench = Bench(notes.agent(waits=True), [say("before"), call("pay", amount=5), say("paid")])
    run_id = await accepted(bench, Actor(sub=ANN))
    await bench.drive(run_id)
    [pending] = (await bench.run(run_id)).pending
    notes.seen.clear()
    # `decide` acts as an owner who has groups by now.
    await bench.decide(run_id, pending.tool_call_id, "approve", actor=CALLER)
    await bench.drive(run_id)
    assert ("tool", NOBODY, NOBODY) in notes.seen
    assert {(groups, scopes) for _, groups, scopes in notes.seen} == {(NOBODY, NOBODY)}


async def test_a_queued_run_keeps_the_rights_that_it_was_accepted_with() -> None:
    notes = Notes()
    script = [say("before"), call("pay", amount=1), say("a"), call("pay", amount=2), say("b")]
    bench = Bench(notes.agent(), script)
    first = await accepted(bench, Actor(sub=ANN, groups=frozenset({"sales"})))
    second = await accepted(bench, CALLER, on_busy=OnBusy.ENQUEUE)
    notes.seen.clear()
    await bench.drive(first)
    await bench.drive(second)
    assert [groups for where, groups, _ in notes.seen if where == "tool"] == [{"sales"}, FINANCE]


@pytest.mark.parametrize("text", ["hello", "a long input " * 2000], ids=["in META", "on its own"])
@pytest.mark.parametrize(
    "groups",
    [NOBODY, FINANCE, frozenset(f"group-{n}-{'x' * 110}" for n in range(100))],
    ids=["none", "some", "many"],
)
async def test_rights_are_journaled_where_no_step_writes_them_again(
    text: str, groups: frozenset[str]
) -> None:
    bench = Bench(Notes().agent(), [say("before")])
    await accepted(bench)
    actor = Actor(sub=ANN, groups=groups, scopes=USE)
    run = await start_run(bench.plain, actor, "t1", StartRun(text, on_busy=OnBusy.INTERRUPT))
    meta = await meta_of(bench, run.id)
    assert (meta.groups, meta.scopes) == (groups, USE)
    assert meta.input.text == text
    snapshot = await bench.plain.journal.runs.snapshot(ANN, run.id)
    assert snapshot is not None
    assert (snapshot.meta.groups, snapshot.meta.scopes) == (groups, USE)
    item = await bench.table.get(Keys(ANN).run(run.id), META)
    assert len(str(item)) < 1500


async def test_a_run_of_an_earlier_release_has_neither() -> None:
    bench = Bench(Notes().agent(), [say("before")])
    run_id = await accepted(bench)
    pk = Keys(ANN).run(run_id)
    item = await bench.table.get(pk, META)
    assert item is not None
    assert await bench.table.get(pk, INPUT) is None
    assert "caller" in item
    old = {name: value for name, value in item.items() if name not in ("pk", "sk", "caller")}
    await bench.table.transact([Put(pk, META, old)], "t")
    meta = await meta_of(bench, run_id)
    assert (meta.groups, meta.scopes) == (NOBODY, NOBODY)


async def test_a_process_says_for_whom_it_runs_an_agent() -> None:
    notes = Notes()
    agent = notes.agent()
    with agent.override(model=ScriptedModel([call("pay", amount=5), say("paid")])):
        await agent.generate("Pay.", groups=["finance"], scopes={"shop/pay"})
    assert {seen[1:] for seen in notes.seen} == {(frozenset({"finance"}), frozenset({"shop/pay"}))}
    notes.seen.clear()
    with agent.override(model=ScriptedModel([call("pay", amount=5), say("paid")])):
        async for _ in agent.stream("Pay.", groups=["finance"]):
            pass
    assert {seen[1:] for seen in notes.seen} == {(frozenset({"finance"}), NOBODY)}
    notes.seen.clear()
    with agent.override(model=ScriptedModel([call("pay", amount=5), say("paid")])):
        await agent.generate("Pay.")
    assert {seen[1:] for seen in notes.seen} == {(NOBODY, NOBODY)}


@pytest.mark.parametrize("groups", ["finance", [1], [None]], ids=str)
async def test_one_text_is_not_a_group_for_each_letter(groups: Any) -> None:
    with pytest.raises(InvalidRequest, match="groups has to be a collection of texts"):
        await Notes().agent().generate("Pay.", groups=groups)

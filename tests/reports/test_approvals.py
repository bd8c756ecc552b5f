"""Approvals: who is asked, what they are shown, and what a decision does."""

import json
from datetime import timedelta
from typing import Any

import pytest

from layover import Agent, Approval, DecisionInvalid, Hook, HookContext, ToolCall, mcp, tool
from layover.testing import ScriptedModel, call, say, tool_results
from layover.values.runs.run import Status
from reports import Found, report
from reports.kit import Asked, Json, Provider, calls, in_turn, page_of, said, user
from support.mcp_servers import ScriptedServer, listed, serving, text

FRUIT = [{"const": "sku-1", "title": "Apple"}, {"const": "sku-2", "title": "Fig"}]


def paying(ran: list[Any], **options: Any) -> Any:
    """A tool that pays, and notes what it paid."""

    @tool(**options)
    def pay(amount: int = 1, to: str = "ann") -> str:
        """Pay."""
        ran.append((amount, to))
        return f"paid {amount} to {to}"

    return pay


@report("openai/openai-agents-python#4845", Found.MENDED)
@pytest.mark.parametrize("unanswered", [None, "", 0])
async def test_a_predicate_that_gives_no_answer_lets_nothing_run(unanswered: Any) -> None:
    """A call waits if the predicate that decides about its approval ends without an answer."""
    for rule in (lambda *_: unanswered, Approval(by=["finance"], when=lambda *_: unanswered)):
        ran: list[Any] = []
        agent = Agent("desk", model="m", tools=[paying(ran, needs_approval=rule)])
        run = await Asked(agent, Provider(lambda *_: calls("pay", {"amount": 9}))).say("pay")
        assert (run.status, ran) == (Status.SUSPENDED, [])


class Shop(ScriptedServer):
    """A server whose tool asks for one field, then says what it was answered."""

    def __init__(self, field: Json) -> None:
        schema = {"type": "object", "properties": {"fruit": field}, "required": ["fruit"]}
        ask = {"mode": "form", "message": "Which?", "requestedSchema": schema}
        about = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        tools = [listed("order", readOnlyHint=True)]
        asks = {
            "resultType": "input_required",
            "inputRequests": {"q": {"method": "elicitation/create", "params": ask}},
        }
        answers = iter([asks, text("ordered", resultType="complete")])
        found = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
        super().__init__(
            on={
                "server/discover": lambda _: about | found,
                "tools/list": lambda _: about | {"tools": tools},
                "tools/call": lambda _: next(answers),
            }
        )


@report("PrefectHQ/fastmcp#3731, modelcontextprotocol/go-sdk#795", Found.MENDED)
async def test_a_server_may_ask_for_several_of_a_list_and_people_read_their_names() -> None:
    """A server asks for several of a list whose choices have titles: people read the titles, and the server
    gets the values."""
    field = {"type": "array", "items": {"anyOf": FRUIT}, "default": ["sku-1"]}
    async with serving(Shop(field)) as server:
        shop = mcp(server.url, name="shop", private=True, elicitation=True)
        clerk = Agent("clerk", tools=[*shop])
        with clerk.override(model=ScriptedModel([call("shop_order"), say("Done.")])):
            waiting = await clerk.generate("Order.")
            (pending,) = waiting.pending
            shown = pending.resume_schema["properties"]["fruit"]
            assert shown["items"]["enumNames"] == ["Apple", "Fig"]
            assert shown["default"] == ["sku-1"]
            with pytest.raises(DecisionInvalid):
                await clerk.resume(waiting.run_id, pending.tool_call_id, {"fruit": ["Apple"]})
            data = {"fruit": ["sku-1", "sku-2"]}
            done = await clerk.resume(waiting.run_id, pending.tool_call_id, data)
        answered = server.requests("tools/call")[-1].params["inputResponses"]
    assert tool_results(done) == ["ordered"]
    assert answered["q"] == {"action": "accept", "content": data}


@report("runvendo/vendo#1440, NousResearch/hermes-agent#77234", Found.MENDED)
def test_nobody_has_denied_a_request_that_expired() -> None:
    """The model reads that nobody decided in time, and a page does not show it as somebody's no."""
    pay = paying([], needs_approval=True, expires_after=timedelta(hours=1))
    provider = Provider(in_turn(calls("pay", {}), said("Nobody answered.")))
    with page_of(Agent("desk", model="m", tools=[pay]), provider) as page:
        run_id = page.chat(user("pay"))[0]["messageId"]
        page.asked.bench.clock.advance(timedelta(hours=2))
        page.do(page.asked.expire(run_id))
        _, answer = page.loaded()
    part = next(part for part in answer["parts"] if part["type"] == "tool-pay")
    assert (part["state"], json.loads(part["errorText"])["expired"]) == ("output-error", True)
    assert "Nobody decided in time" in provider.requests[-1]["messages"][-1]["content"]


@report("langchain-ai/langchain#33787", Found.RIGHT)
async def test_the_model_reads_that_a_person_changed_its_arguments() -> None:
    """With the result, the model reads that a person changed the arguments, and which ones ran."""
    ran: list[Any] = []
    agent = Agent("desk", model="m", tools=[paying(ran, needs_approval=True)])
    asked = Asked(agent, Provider(in_turn(calls("pay", {"to": "alice"}), said("Done."))))
    run = await asked.say("pay alice")
    edited = {"amount": 1, "to": "bob"}
    await asked.bench.answer(run.id, "call_1", "approve", args=edited, attempt=1)
    read = asked.provider.requests[-1]["messages"][-1]["content"]
    assert ran == [(1, "bob")]
    assert "A person changed the arguments" in read
    assert json.dumps(edited) in read


@report("MoonshotAI/kimi-code#2908", Found.RIGHT)
async def test_a_call_whose_id_was_used_before_waits_for_its_own_approval() -> None:
    """A provider gives each call the same id: each waits for its own decision, and runs once."""
    ran: list[Any] = []
    agent = Agent("desk", model="m", tools=[paying(ran, needs_approval=True)])
    first, second = (calls("pay", {"amount": n}, "pay_0") for n in (1, 2))
    asked = Asked(agent, Provider(in_turn(first, second, said("Done."))))
    run = await asked.say("pay twice")
    for n in (1, 2):
        run = await asked.bench.run(run.id)
        assert ([p.args["amount"] for p in run.pending], len(ran)) == ([n], n - 1)
        await asked.bench.answer(run.id, run.pending[0].tool_call_id, "approve", attempt=1)
    assert ((await asked.bench.run(run.id)).status, ran) == (
        Status.SUCCESS,
        [(1, "ann"), (2, "ann")],
    )


@report("open-webui/open-webui#29323", Found.RIGHT)
@pytest.mark.parametrize("args", ['"foo"', "[1]", "3", "true"])
async def test_nobody_is_asked_about_arguments_that_are_not_an_object(args: str) -> None:
    """Nobody is asked about a call whose arguments are not an object: the model reads it, and the run goes
    on."""
    ran: list[Any] = []
    agent = Agent("desk", model="m", tools=[paying(ran, needs_approval=True)])
    asked = Asked(agent, Provider(in_turn(calls("pay", args), said("Sorry."))))
    run = await asked.say("pay")
    assert (run.status, run.text, ran) == (Status.SUCCESS, "Sorry.", [])
    assert "should be an object" in asked.provider.requests[-1]["messages"][-1]["content"]


@report("pydantic/pydantic-ai#6968", Found.RIGHT, held_back=True)
async def test_people_approve_what_a_hook_has_made_of_the_arguments() -> None:
    """A hook lowers the amount: people are shown the lower one, and it is what is paid."""

    class AtMostFifty(Hook):
        def before_tool(self, ctx: HookContext, call: ToolCall) -> ToolCall:
            args = {**call.args, "amount": min(call.args["amount"], 50)}
            return call.model_copy(update={"args": args})

    ran: list[Any] = []
    pay = paying(ran, needs_approval=True, summary=lambda args, _: f"Pay {args['amount']}")
    agent = Agent("desk", model="m", tools=[pay], hooks=[AtMostFifty()])
    asked = Asked(agent, Provider(in_turn(calls("pay", {"amount": 100}), said("Done."))))
    run = await asked.say("pay 100")
    (pending,) = run.pending
    assert (pending.args["amount"], pending.summary) == (50, "Pay 50")
    await asked.bench.answer(run.id, "call_1", "approve", attempt=1)
    assert ran == [(50, "ann")]


@report("microsoft/agent-framework#8247", Found.RIGHT, held_back=True)
async def test_an_approved_call_runs_in_the_agent_that_was_handed_over_to() -> None:
    """A call of the agent that was handed over to waits: once it is approved, this agent's function runs."""
    ran: list[Any] = []
    worker = Agent("worker", model="m", tools=[paying(ran, needs_approval=True)])
    desk = Agent("desk", model="m", handoffs=[worker])
    asked = Asked(
        desk,
        Provider(in_turn(calls("transfer_to_worker", {}, "h"), calls("pay", {}), said("Done."))),
    )
    asked.bench.agents["worker"] = worker
    run = await asked.say("pay")
    assert [p.agent_path for p in run.pending] == [("worker",)]
    await asked.bench.answer(run.id, "call_1", "approve", attempt=1)
    assert ((await asked.bench.run(run.id)).text, ran) == ("Done.", [(1, "ann")])

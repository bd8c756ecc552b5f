"""One run of a case: what the agent did against what was expected."""

import asyncio
from typing import Any

import pytest

from layover import Agent, BlockTopics, ToolContext, mcp, tool
from layover.desk.evals.cases import Case
from layover.desk.evals.play import Play, play
from layover.desk.evals.stubs import StubsInvalid, check_stubs
from support.mcp_servers import ScriptedServer, listed, serving

PAID: list[float] = []


@pytest.fixture(autouse=True)
def _nothing_paid() -> None:
    PAID.clear()


@tool
def look_up(order_id: str) -> str:
    """Look an order up."""
    return f"{order_id} is shipped"


@tool(needs_approval=True)
def refund(order_id: str, amount: float) -> str:
    """Pay money back."""
    PAID.append(amount)
    return f"Refunded {amount:.2f} euros."


@tool
async def hang() -> None:
    """Never end."""
    await asyncio.Event().wait()


shop = Agent("shop", instructions="You sell furniture.", tools=[look_up, refund, hang])
LOOK = {"call": "look_up", "args": {"order_id": "A1"}}
PAY = {"call": "refund", "args": {"order_id": "A1", "amount": 60}}
SAY = {"say": "It is shipped."}


async def failures(
    expect: dict[str, Any], script: list[Any], agent: Agent = shop, **more: Any
) -> list[str]:
    stubs_only = more.pop("stubs_only", False)
    fields = {"name": "a", "input": "hi", "expect": expect, "script": script, **more}
    case = Case.model_validate(fields)
    return list((await play(Play(agent, stubs_only=stubs_only), case)).failures)


# What does not hold


@pytest.mark.parametrize(
    ("expect", "script", "begin"),
    [
        ({}, [{"fail": "no", "status": 400}], "the run failed: "),
        ({}, [LOOK], "the run failed: "),
        ({}, [SAY, SAY], "script: 1 steps are left"),
        ({"tools": []}, [LOOK, SAY], "tools: expected no call, and the calls were look_up("),
        ({"tools": [{"name": "look_up"}]}, [SAY], "tools: expected look_up(...), and the calls"),
        (
            {"tools": [{"name": "look_up", "args": {"order_id": "A2"}}]},
            [LOOK, SAY],
            'tools: expected look_up({"order_id": "A2"})',
        ),
        ({}, [PAY], "approvals: refund("),
        ({"approvals": [{"tool": "refund", "decide": "deny"}]}, [SAY], "approvals: no call of ref"),
        (
            {"approvals": [{"tool": "refund", "decide": "approve", "args": {"amount": 5}}]},
            [PAY],
            "approvals: refund(",
        ),
        ({"finish_reason": "refused"}, [SAY], "finish_reason: expected refused, and it is stop"),
        ({"output": {"contains": "lost"}}, [SAY], "output.contains: 'lost' is not in"),
        ({"output": {"matches": "^Lost"}}, [SAY], "output.matches: "),
        ({"output": {"equals": "It is"}}, [SAY], "output.equals: "),
        ({"output": {"equals": {"a": 1}}}, [{"say": '{"a": true}'}], "output.equals: "),
        ({"output": {"schema": {"type": "object"}}}, [SAY], "output.schema: at $: "),
        ({"max": {"steps": 1}}, [LOOK, SAY], "max.steps: it needed 2, and 1 is the most"),
        ({"max": {"tokens": 29}}, [LOOK, SAY], "max.tokens: it needed 30, and 29 is the most"),
        ({"max": {"seconds": 0.05}}, [{"call": "hang"}], "max.seconds: it was cut off"),
    ],
)
async def test_expectation_that_is_not_kept_is_said(
    expect: dict[str, Any], script: list[Any], begin: str
) -> None:
    first = (await failures(expect, script))[0]
    assert first.startswith(begin)
    assert PAID == []


async def test_cost_is_not_kept_where_no_price_is_known() -> None:
    unpriced = Agent("unpriced", model="openai/nobody-sells-this")
    (problem,) = await failures({"max": {"cost_usd": 1}}, [SAY], unpriced)
    assert problem.startswith("max.cost_usd: the price of its model is unknown")


@tool(suspend=str, resume=str)
def choose(ctx: ToolContext) -> str:
    """Choose a colour."""
    return ctx.suspend("red or blue?") if ctx.resume is None else str(ctx.resume)


decorator = Agent("decorator", instructions="You decorate.", tools=[choose])
CHOOSE = {"call": "choose"}


async def test_question_is_never_approved_and_denied_only_where_a_case_says_so() -> None:
    for expect in ({}, {"approvals": [{"tool": "choose", "decide": "approve"}]}):
        (problem, *_) = await failures(expect, [CHOOSE, SAY], decorator)
        assert problem.startswith("approvals: choose(")
        assert "input" in problem


# What holds


async def test_question_is_declined() -> None:
    expect = {
        "approvals": [{"tool": "choose", "decide": "deny"}],
        "output": {"contains": "shipped"},
    }
    assert await failures(expect, [CHOOSE, SAY], decorator) == []


@pytest.mark.parametrize(
    ("expect", "script"),
    [
        ({}, [SAY]),
        ({"tools": []}, [SAY]),
        ({"tools": [{"name": "look_up", "args": {"order_id": "A1"}}]}, [LOOK, SAY]),
        ({"output": {"contains": ["is", "shipped"], "matches": "shipped.$"}}, [SAY]),
        ({"output": {"equals": "It is shipped."}}, [SAY]),
        ({"output": {"equals": {"a": 1.0}, "schema": {"required": ["a"]}}}, [{"say": '{"a": 1}'}]),
        ({"max": {"steps": 2, "tokens": 30, "seconds": 60}}, [LOOK, SAY]),
    ],
)
async def test_expectation_that_is_kept_is_silent(expect: dict[str, Any], script: Any) -> None:
    assert await failures(expect, script) == []


async def test_refusal_of_a_hook_is_expected_by_the_reason_for_its_end() -> None:
    guarded = Agent("guarded", hooks=[BlockTopics(["gold"])])
    expect = {"finish_reason": "refused", "tools": []}
    assert await failures(expect, [], guarded, input="Sell me gold.") == []
    wrong = await failures({"finish_reason": "stop"}, [SAY], guarded, input="Sell me gold.")
    assert wrong[-1] == "finish_reason: expected stop, and it is refused"


@pytest.mark.parametrize(("decide", "paid"), [("approve", [60]), ("deny", [])])
async def test_call_that_asks_is_decided_as_written(decide: str, paid: list[float]) -> None:
    approvals = [{"tool": "refund", "decide": decide, "args": {"amount": 60}}]
    assert await failures({"approvals": approvals}, [PAY, SAY]) == []
    assert paid == PAID


# Stubs


async def test_tool_with_a_stub_asks_and_does_not_run() -> None:
    expect = {"approvals": [{"tool": "refund", "decide": "approve"}]}
    stubs = [{"tool": "refund", "result": "paid"}]
    assert await failures(expect, [PAY, SAY], stubs=stubs) == []
    assert PAID == []


async def test_call_that_no_stub_fits_fails_and_does_not_run() -> None:
    expect = {"approvals": [{"tool": "refund", "decide": "approve"}]}
    stubs = [{"tool": "refund", "args": {"amount": 5}, "result": "paid"}]
    assert await failures(expect, [PAY, SAY], stubs=stubs) == [
        "stubs: no stub fits a call of refund: add one"
    ]
    assert PAID == []


async def test_with_stubs_only_no_tool_runs() -> None:
    expect = {"approvals": [{"tool": "refund", "decide": "approve"}]}
    assert (await failures(expect, [PAY, SAY], stubs_only=True)) != []
    assert PAID == []


async def test_stub_answers_in_sub_agents_and_in_tools_of_a_function() -> None:
    below = Agent("below", tools=[refund])
    lead = Agent("lead", tools=lambda ctx: [look_up, below.as_tool("Pays.")])
    script = [LOOK, {"call": "below", "args": {"input": "pay"}}, PAY, SAY, SAY]
    stubs = [{"tool": name, "result": "stub"} for name in ("refund", "look_up")]
    expect = {"approvals": [{"tool": "refund", "decide": "approve"}]}
    assert await failures(expect, script, lead, stubs=stubs) == []
    assert PAID == []


@pytest.mark.parametrize("as_function", [False, True])
async def test_stubs_answer_for_the_tools_of_a_server(as_function: bool) -> None:
    note = {"type": "object", "properties": {"id": {"type": "string"}}}
    server = ScriptedServer(listed("find", note, readOnlyHint=True), listed("drop", note))
    async with serving(server):
        servers = mcp(server.url, name="till", private=True, approve=lambda _: False)
        agent = Agent("till", tools=(lambda ctx: [*servers]) if as_function else [*servers])
        script = [
            {"call": "till_find", "args": {"id": "1"}},
            {"call": "till_drop", "args": {"id": "1"}},
            SAY,
        ]
        stubs = [{"tool": "till_find", "result": "stub"}, {"tool": "till_drop", "result": "stub"}]
        case = Case.model_validate(
            {"name": "a", "input": "x", "expect": {}, "script": script, "stubs": stubs}
        )
        check_stubs(agent, case.stubs)
        assert await failures({}, script, agent, stubs=stubs) == []
        assert await failures({}, script, agent, stubs_only=True) != []
    assert not server.requests("tools/call")


async def test_several_stubs_answer_once_each_and_the_last_goes_on() -> None:
    stubs = [{"tool": "look_up", "result": "packed"}, {"tool": "look_up", "error": "gone"}]
    fields = {"name": "a", "input": "hi", "expect": {}, "script": [LOOK, LOOK, LOOK, SAY]}
    outcome = await play(Play(shop), Case.model_validate({**fields, "stubs": stubs}))
    assert [(c.result, c.is_error) for c in outcome.calls] == [
        ("packed", False),
        ("StubError: gone", True),
        ("StubError: gone", True),
    ]


def test_stub_of_a_tool_that_there_is_not_is_refused() -> None:
    case = Case.model_validate(
        {"name": "a", "input": "x", "expect": {}, "stubs": [{"tool": "refnd", "result": 1}]}
    )
    with pytest.raises(StubsInvalid, match="no tool 'refnd': did you mean 'refund'"):
        check_stubs(shop, case.stubs)


# The thread


async def test_model_reads_the_messages_before_and_the_agent_stays_as_it_was() -> None:
    from layover.testing import ScriptedModel, say

    model = ScriptedModel([say("A1.")])
    history = [
        {"role": "user", "content": "I am Ada."},
        {"role": "assistant", "content": "Hello, Ada."},
    ]
    case = Case.model_validate({"name": "a", "input": "hi", "expect": {}, "history": history})
    assert (await play(Play(shop, model=model), case)).holds
    assert [m.text for m in model.turns[0].messages] == ["I am Ada.", "Hello, Ada.", "hi"]
    assert shop.runtime is None

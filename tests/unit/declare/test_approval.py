"""`Approval`: people who may let a call run."""

from datetime import timedelta
from typing import Any

import pytest

from layover import Agent, Approval, DefinitionError, tool
from layover.inmemory.model import ScriptedModel, call, say
from layover.wiring import in_memory_runtime


@pytest.mark.parametrize(
    "wrong",
    [
        {"by": []},
        {"by": "finance"},
        {"by": [""]},
        {"by": ["the finance team"]},
        {"by": ["a,b"]},
        {"by": ["[a]"]},
        {"by": [7]},
        {"by": [f"g{n}" for n in range(21)]},
        {"by": ["finance"], "quorum": 0},
        {"by": ["finance"], "quorum": 21},
        {"by": ["finance"], "quorum": True},
        {"by": ["finance"], "requester": "yes"},
        {"by": ["finance"], "reason_required": 1},
        {"by": ["finance"], "after_denial": "stop"},
        {"by": ["finance"], "after_denial": "Refuse"},
        {"by": ["finance"], "after_denial": None},
        {"by": ["finance"], "after_denial": True},
        {"by": ["finance"], "after_denial": ["ask"]},
        {"by": ["finance"], "remind_after": timedelta(seconds=59)},
        {"by": ["finance"], "remind_after": timedelta(days=366)},
        {"by": ["finance"], "remind_after": timedelta(0)},
        {"by": ["finance"], "remind_after": "1h"},
        {"by": ["finance"], "remind_after": True},
        {"by": ["finance"], "escalate_after": timedelta(hours=1)},
        {"by": ["finance"], "escalate_to": ["board"]},
        {"by": ["finance"], "escalate_after": timedelta(seconds=59), "escalate_to": ["board"]},
        {"by": ["finance"], "escalate_after": timedelta(days=366), "escalate_to": ["board"]},
        {"by": ["finance"], "escalate_after": timedelta(hours=1), "escalate_to": []},
        {"by": ["finance"], "escalate_after": timedelta(hours=1), "escalate_to": "board"},
        {"by": ["finance"], "escalate_after": timedelta(hours=1), "escalate_to": ["the board"]},
        {"by": ["finance"], "escalate_after": timedelta(hours=1), "escalate_to": ["finance"]},
        {"by": ["finance"], "escalate_after": timedelta(hours=1), "escalate_to": ["x"] * 21},
    ],
    ids=str,
)
def test_rule_that_nobody_could_satisfy_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError, match="Approval: "):
        Approval(**wrong)


@pytest.mark.parametrize("when", [lambda args: True, "always", 5])
def test_predicate_that_cannot_be_asked_is_refused(when: Any) -> None:
    with pytest.raises(DefinitionError, match="needs_approval"):
        tool(needs_approval=Approval(by=["finance"], when=when))(pay)


def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def payer(**rule: Any) -> Agent:
    given = Approval(by=["finance"], **rule)
    agent = Agent("payer", tools=[tool(needs_approval=given)(pay)])
    script = [call("pay", amount=50), say("done")]
    agent.runtime = in_memory_runtime(agent, model=ScriptedModel(script))
    return agent


async def test_call_waits_where_the_predicate_says_so() -> None:
    free = await payer(when=lambda args, ctx: args["amount"] > 100).generate("hi")
    assert (free.status, free.text) == ("success", "done")
    held = await payer(when=lambda args, ctx: args["amount"] > 10).generate("hi")
    assert held.status == "suspended"


async def test_pending_call_says_who_decides() -> None:
    waiting = await payer(quorum=2, reason_required=True).generate("hi")
    approval = waiting.pending[0].model_dump()["approval"]
    assert approval == {
        "by": ("finance",),
        "requester": False,
        "quorum": 2,
        "reason_required": True,
        "given": (),
    }


async def test_pending_call_says_when_people_are_reminded() -> None:
    waiting = await payer(remind_after=timedelta(hours=1)).generate("hi")
    approval = waiting.pending[0].model_dump()["approval"]
    assert approval["remind_after_s"] == 3600


async def test_in_ones_own_process_one_approves_alone() -> None:
    agent = payer(quorum=2, reason_required=True)
    waiting = await agent.generate("hi")
    done = await agent.approve(waiting.run_id, waiting.pending[0].tool_call_id, reason="a test")
    assert done.text == "done"

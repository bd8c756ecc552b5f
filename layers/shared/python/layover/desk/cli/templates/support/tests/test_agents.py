"""Tests of the agents: the model is scripted, the engine is the one that runs on Lambda."""

from layover.testing import ScriptedModel, call, say, tool_results

from agents import support

REFUND = call("refund", order_id="A-1002", amount=60)


async def test_a_refund_waits_for_a_person_and_is_paid_once_approved() -> None:
    with support.override(model=ScriptedModel([REFUND, say("It is on its way.")])):
        waiting = await support.generate("60 euros back for A-1002, please.")
        assert waiting.status == "suspended"
        done = await support.approve(waiting.run_id, waiting.pending[0].tool_call_id)
    assert tool_results(done) == ["Refunded 60.00 euros for the bookshelf."]
    assert done.text == "It is on its way."


async def test_a_denial_pays_nothing() -> None:
    with support.override(model=ScriptedModel([REFUND, say("I am sorry.")])):
        waiting = await support.generate("60 euros back for A-1002, please.")
        done = await support.deny(waiting.run_id, waiting.pending[0].tool_call_id, "It is worn.")
    assert tool_results(done)[0]["declined"] is True

"""Tests of your agents: the model is scripted, the engine is the one that runs on Lambda."""

from layover.testing import ScriptedModel, call, say, tool_results
from user_agents import support


async def test_a_large_refund_waits_for_a_person_and_a_denial_pays_nothing() -> None:
    script = [call("refund", order_id="A-1002", amount=60), say("I am sorry.")]
    with support.override(model=ScriptedModel(script)):
        waiting = await support.generate("60 euros back for A-1002, please.")
        assert waiting.status == "suspended"
        refused = await support.deny(waiting.run_id, waiting.pending[0].tool_call_id, "It is worn.")
    assert tool_results(refused)[0]["declined"] is True


async def test_a_small_refund_is_paid_at_once() -> None:
    script = [call("refund", order_id="A-1001", amount=5), say("Done.")]
    with support.override(model=ScriptedModel(script)):
        done = await support.generate("5 euros back for A-1001, please.")
    assert done.text == "Done."
    assert tool_results(done)[0].startswith("Refunded 5.00 euros")

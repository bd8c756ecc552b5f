"""Tests of your agents: what the model does is scripted, the engine is the one that runs on Lambda."""

from layover.testing import ScriptedModel, call, say
from layover.wiring import in_memory_runtime
from user_agents import support


async def test_a_large_refund_waits_for_a_person_and_a_denial_pays_nothing() -> None:
    model = ScriptedModel([call("refund", order_id="A-1002", amount=60), say("I am sorry.")])
    support.runtime = in_memory_runtime(support, model=model)
    waiting = await support.generate("60 euros back for A-1002, please.")
    assert waiting.status == "suspended"
    refused = await support.deny(waiting.run_id, waiting.pending[0].tool_call_id, reason="worn")
    assert refused.text == "I am sorry."
    (result,) = [p for m in refused.messages for p in m.content if p.type == "tool_result"]
    assert result.result["declined"] is True


async def test_a_small_refund_is_paid_at_once() -> None:
    model = ScriptedModel([call("refund", order_id="A-1001", amount=5), say("Done.")])
    support.runtime = in_memory_runtime(support, model=model)
    done = await support.generate("5 euros back for A-1001, please.")
    assert done.status == "success"
    assert "Refunded 5.00 euros" in str(done.messages)

"""The run whose trace the guide on tracing draws."""

from contextlib import suppress
from datetime import timedelta
from typing import Any

from layover import Agent, Memory, tool
from layover.approvals.token_answer import DECIDED
from layover.engine.time_left import NoDeadline
from layover.inmemory.model import ScriptedModel, call, say
from layover.keys import META, Keys
from layover.plugins.memory.learns.extract import extract
from layover.ports.table import Update
from layover.runs.turn import turn
from layover.values.message import Role
from layover.values.prompt import Prompt
from layover.values.runs.payload import TurnPayload
from support.worlds.runs import ANN, Crash, Power
from support.worlds.traces import TracedBench, hang_up

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
NOTES = {
    "invoke_agent guide": "the whole run; it arrives when the run is over",
    "search_memory": "what memory gives the turn, in numbers",
    "chat gpt-5-mini": "a request to a model, with its retries",
    "invoke_agent clerk": "the sub-agent, in the call that it works in",
    "wait refund": "two days; ended by the decision, in another process",
    "execute_tool refund": "milliseconds: waiting is not part of it",
    "recover": "a process has died; its spans are told again, with the same ids",
    "execute_tool transfer_to_billing": "in the next execution, without a mark",
    "chat gpt-5": "the other agent's",
    "update_memory profile": "after the run's end",
}
"""Notes beside the first span of each name."""


@tool(needs_approval=True)
def refund(order: str) -> str:
    """Pay back."""
    return "paid"


HANDED_OVER = call("transfer_to_billing")


class NoTime:
    """`ports.Deadline` of an invocation that has no time for a request."""

    def remaining(self) -> timedelta:
        """Return less than any request takes."""
        return timedelta(seconds=1)


async def traced_run() -> None:
    """Delegate, wait two days for an approval, die, go on in another execution, hand over, learn."""
    power, has_died = Power(), False

    def reply(prompt: Prompt) -> Any:
        nonlocal has_died
        answer = _answer(prompt)
        if answer is HANDED_OVER and not has_died:
            has_died = True
            power.cut()
        return answer

    bench = _bench(ScriptedModel(reply), power)
    run_id = await bench.start("I am Ann, I live in Rome, and I want my money back.")
    await bench.turn(run_id)
    bench.clock.advance(timedelta(days=2))
    await bench.decide(run_id, "r1", "approve")
    item = await bench.item(run_id, "r1")
    with suppress(Crash):
        await bench.turn(run_id, call=item, output=DECIDED)
    power.restore()
    await bench.settle(run_id, Error="Crash")
    # So many events that another execution has to go on.
    full = {"history": bench.runtime.settings.max_history}
    await bench._table.write(Update(Keys(ANN).run(run_id), META, set=full))
    assert (await bench.turn(run_id, NoTime()))["status"] == "left"
    payload = TurnPayload(owner=ANN, run_id=run_id, execution=f"{run_id}-2")
    # A hand-over ends an invocation; the next is of the other agent.
    for status in ("yielded", "over"):
        answer = await turn(bench.runtime, payload, NoDeadline())
        assert answer["status"] == status
        await bench.finish()
        bench.process()
    await extract(bench.runtime, bench.payload(run_id))
    await bench.finish()
    await hang_up()


def _answer(prompt: Prompt) -> Any:
    """Return the reply of the model to the agent whose instructions are the prompt's first word."""
    if prompt.task != "turn":
        return say('{"facts": []}')
    is_first = not any(message.role is Role.ASSISTANT for message in prompt.messages)
    match (prompt.system or "").split()[0]:
        case "guide":
            return call("clerk", input="refund it", context=None) if is_first else HANDED_OVER
        case "clerk":
            return call("refund", tool_call_id="r1", order="1") if is_first else say("Paid.")
        case _:
            return say("Your money is on its way.")


def _bench(model: Any, power: Power) -> TracedBench:
    memory = Memory(profile=True, titles=False)
    clerk = Agent("clerk", instructions="clerk", model="openai/gpt-5-nano", tools=[refund])
    billing = Agent("billing", instructions="billing", model="openai/gpt-5", memory=memory)
    guide = Agent(
        "guide",
        instructions="guide",
        model="openai/gpt-5-mini",
        tools=[clerk.as_tool("refunds")],
        handoffs=[billing],
        memory=memory,
    )
    bench = TracedBench(guide, model, power=power)
    bench.agents["billing"] = billing
    return bench

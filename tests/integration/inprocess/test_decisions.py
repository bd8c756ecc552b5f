"""What an author may give as a decision."""

from datetime import date

from pydantic import BaseModel

from layover import Agent, ToolContext, tool
from layover.adapters.inmemory.model import ScriptedModel, call, calls, say
from layover.wiring import in_memory_runtime
from run_kit import told


class Offer(BaseModel):
    """What a person is shown."""

    days: list[date]


class Choice(BaseModel):
    """What a person says."""

    day: date


@tool(needs_approval=True)
async def plan(on: date) -> str:
    """Plan a day."""
    return on.isoformat()


@tool(suspend=Offer, resume=Choice)
async def book(ctx: ToolContext) -> str:
    """Book."""
    if ctx.resume is None:
        return ctx.suspend(Offer(days=[date(2026, 1, 3)]))
    return f"booked {ctx.resume.day}"


async def test_decisions_are_made_with_the_authors_own_types() -> None:
    helper = Agent("helper", tools=[plan, book], tool_concurrency=40)
    script = [calls(call("plan", on="2026-01-01"), call("book")), say("done")]
    helper.runtime = in_memory_runtime(helper, model=ScriptedModel(script))
    first = await helper.generate("hi")
    one, two = [p.tool_call_id for p in first.pending]
    await helper.approve(first.run_id, one, {"on": date(2026, 1, 2)})
    last = await helper.resume(first.run_id, two, Choice(day=date(2026, 1, 3)))
    results = [said for role, said in told(last.messages) if role == "tool"]
    assert results == ["2026-01-02", "booked 2026-01-03"]

"""Agents whose models are away, or have no key, and one whose hook refuses, changes and suspends calls."""

from layover import Agent, Hook, HookContext, Memory, Refuse, Suspend, ToolCall, WorkingMemory, tool

AWAY = "fake-away"
"""The model that the provider does not have."""


@tool
def spend(amount: int) -> str:
    """Spend money."""
    return f"spent {amount}"


@tool
def send(to: str) -> str:
    """Send a letter."""
    return f"sent to {to}"


class Guard(Hook):
    """Refuses what is much, has every letter go to the office, and lets a person look at the rest."""

    def before_tool(self, ctx: HookContext, call: ToolCall) -> ToolCall | Refuse | Suspend | None:
        match call.tool_name:
            case "send":
                return call.model_copy(update={"args": {"to": "the office"}})
            case "spend" if call.args["amount"] > 100:
                return Refuse("that is much")
        return Suspend(f"look at {call.tool_name}")


warden = Agent(
    "warden",
    model=[f"openai/{AWAY}", "openai/fake-1"],
    instructions="You guard.",
    tools=[spend, send],
    hooks=[Guard()],
    tool_concurrency=4,
    memory=Memory(working_memory=WorkingMemory(), titles=False),
)

keyless = Agent("keyless", model="keyless/fake-1", instructions="You wait for a key.")
rescued = Agent("rescued", model=["keyless/fake-1", "keyed/fake-1"], instructions="You chat.")

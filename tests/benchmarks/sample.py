"""The agents of the benchmarks: a tool that answers at once, and one that a person approves."""

from layover import Agent, tool

INSTRUCTIONS = "You are a helpful weather assistant. Answer briefly and use the tools."


@tool
def get_weather(city: str) -> str:
    """Get the weather for a city."""
    return "Sunny, 21 C, light breeze from the west, humidity 40 percent."


@tool(needs_approval=True)
def issue_refund(order_id: str) -> str:
    """Issue a refund."""
    return f"refunded {order_id}"


weather = Agent("weather", instructions=INSTRUCTIONS, tools=[get_weather])
refunds = Agent("refunds", instructions=INSTRUCTIONS, tools=[get_weather, issue_refund])

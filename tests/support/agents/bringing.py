"""An agent whose author has brought its model: a client of the package `openai`, for a gateway of its own."""

import os

from layover import Agent, tool
from layover.models import Model, OpenAIModel

ADDRESS = "OWN_GATEWAY_URL"


def gateway() -> Model:
    """Return the model. Tests import this package without the gateway's address."""
    from openai import AsyncOpenAI

    client = AsyncOpenAI(base_url=os.environ.get(ADDRESS, "http://127.0.0.1:9"), api_key="sk-own")
    return OpenAIModel(client, "large", name="gateway/large")


@tool(needs_approval=True)
def ship(order: str) -> str:
    """Ship an order."""
    return f"{order} is shipped"


bringer = Agent("bringer", model=gateway(), tools=[ship])

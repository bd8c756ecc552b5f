"""Results of an agent's in-process methods."""

from collections.abc import Sequence
from typing import Any, Generic, Literal

from pydantic import Field

from layover.declare.generics import Output
from layover.values.base import Value
from layover.values.message import InputPart, Message
from layover.values.runs.run import ErrorDetail, ErrorInfo, FinishReason, Status
from layover.values.runs.usage import Usage
from layover.values.runs.views import Pending, Run

Input = str | Sequence[InputPart | dict[str, Any]]
"""A text, or parts (objects, or dicts of the shapes in docs/reference/http-api.md#objects)."""


class Result(Value, Generic[Output]):
    """A run at its end, or suspended with `pending`. A failed run is a Result, too.

    Attributes:
        run_id: The run's id, which `approve`, `deny` and `resume` take.
        status: `success`, `suspended`, `failed` or `cancelled`.
        messages: The messages of the response, oldest first; never the input.
        text: The text of the response; empty if there is none.
        output: An instance of the agent's `output`, if it has one and the run succeeded; else None.
        finish_reason: Why the run ended; None while it is suspended.
        usage: Tokens, and US dollars where the price is known, of all its requests so far.
        pending: The calls that wait for a person; empty unless the run is suspended.
        error: Why the run failed, as `type` and `message`, as its owner may read it; None unless it did.
        error_detail: What a provider or an exception said of it, for the developer and for operators.
        children: The runs of its sub-agents, in the order of their calls, unfinished ones included.

    Example:
        ```python
        import asyncio

        from pydantic import BaseModel

        from layover import Agent
        from layover.testing import ScriptedModel, fail, say


        class Offer(BaseModel):
            room: int
            euros: float


        clerk = Agent("clerk", instructions="Make an offer.", output=Offer)


        async def main() -> None:
            script = [say('{"room": 12, "euros": 280}'), fail("no such model", status=400)]
            with clerk.override(model=ScriptedModel(script)):
                good = await clerk.generate("Two nights?")
                bad = await clerk.generate("Two nights?")
            assert good.output == Offer(room=12, euros=280)
            assert good.finish_reason == "stop"
            assert bad.status == "failed"
            assert bad.error.type == "BadRequestError"
            assert bad.error_detail.message == "no such model"


        asyncio.run(main())
        ```
    """

    run_id: str
    status: Status
    messages: list[Message] = Field(default_factory=list)
    text: str = ""
    output: Output | None = None
    finish_reason: FinishReason | None = None
    usage: Usage = Usage()
    pending: list[Pending] = Field(default_factory=list)
    error: ErrorInfo | None = None
    error_detail: ErrorDetail | None = None
    children: list[Run] = Field(default_factory=list)


class AgentState(Value):
    """The agent's newest run in this process, as `Agent.state` returns it.

    Attributes:
        status: The run's status; `idle` before the first.
        messages: The messages of the response, oldest first; empty before the first run.
        pending: The calls that wait for a person; empty unless the run is suspended.
        usage: Tokens, and US dollars where the price is known, of all its requests so far.

    Example:
        ```python
        import asyncio

        from layover import Agent
        from layover.testing import ScriptedModel, say

        greeter = Agent("greeter", instructions="Greet people in one sentence.")


        async def main() -> None:
            with greeter.override(model=ScriptedModel([say("Good morning.")])):
                assert greeter.state().status == "idle"
                await greeter.generate("Hello!")
                state = greeter.state()
            assert state.status == "success"
            assert state.messages[-1].text == "Good morning."


        asyncio.run(main())
        ```
    """

    status: Literal["idle", "running", "suspended", "success", "failed", "cancelled"] = "idle"
    messages: list[Message] = Field(default_factory=list)
    pending: list[Pending] = Field(default_factory=list)
    usage: Usage = Usage()

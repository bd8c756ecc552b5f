"""A run's state, and the reason for its end."""

from enum import StrEnum

from layover.values.base import Described, Value


class Status(Described, StrEnum):
    '''The state of a run. `suspended` is derived on reading: running, and at least one call waits undecided.

    Attributes:
        QUEUED: `queued`: accepted; it begins once the runs before it in its thread are over.
        RUNNING: `running`: at work, or about to go on.
        SUSPENDED: `suspended`: at least one call waits for a decision.
        SUCCESS: `success`: over; the finish reason says whether it came to its own end.
        FAILED: `failed`: over; `error` says why.
        CANCELLED: `cancelled`: over, because somebody cancelled it.

    Example:
        ```python
        import asyncio

        from layover import Agent, Status, tool
        from layover.testing import ScriptedModel, call, say


        @tool(needs_approval=True)
        def refund(amount: float) -> str:
            """Pay money back."""
            return "paid"


        shop = Agent("shop", tools=[refund])


        async def main() -> None:
            with shop.override(model=ScriptedModel([call("refund", amount=5), say("Done.")])):
                waiting = await shop.generate("5 euros back, please.")
                assert waiting.status is Status.SUSPENDED and not waiting.status.over
                result = await shop.approve(waiting.run_id, waiting.pending[0].tool_call_id)
            assert result.status == "success" and result.status.over


        asyncio.run(main())
        ```
    '''

    QUEUED = "queued"
    RUNNING = "running"
    SUSPENDED = "suspended"
    SUCCESS = "success"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def over(self) -> bool:
        """True if the run is over: nothing can follow."""
        return self in (Status.SUCCESS, Status.FAILED, Status.CANCELLED)

    @property
    def settled(self) -> bool:
        """True if the run does not go on by itself: it is over, or waits for a decision."""
        return self is Status.SUSPENDED or self.over

    def for_callers(self, *, waits: bool) -> "Status":
        """Return what callers see of a stored status.

        Args:
            waits: True if a call waits undecided.
        """
        return Status.SUSPENDED if self is Status.RUNNING and waits else self


class FinishReason(Described, StrEnum):
    '''The reason for a run's end.

    Attributes:
        STOP: `stop`: the model had nothing to add.
        LENGTH: `length`: the model's answer was cut off at its limit of tokens.
        CONTENT_FILTER: `content-filter`: the provider withheld the answer, or the model refused.
        MAX_ITERATIONS: `max-iterations`: the run made as many steps as its agent allows.
        REFUSED: `refused`: a hook refused the request before a model was asked (docs/hooks.md#refused).
        LOOP: `loop`: the model made the same calls with the same results again and again.
        ERROR: `error`: the run failed; `error` says why.
        CANCELLED: `cancelled`: somebody cancelled the run.

    Example:
        ```python
        import asyncio

        from layover import Agent, FinishReason, tool
        from layover.testing import ScriptedModel, call, say


        @tool
        def price(item: str) -> float:
            """The price of an item in euros."""
            return 42.0


        shop = Agent("shop", tools=[price], max_iterations=1)
        script = [call("price", item="lamp"), say("42 euros.")]
        with shop.override(model=ScriptedModel(script)):
            result = asyncio.run(shop.generate("What is the lamp?"))
        assert result.status == "success"
        assert result.finish_reason is FinishReason.MAX_ITERATIONS
        ```
    '''

    STOP = "stop"
    LENGTH = "length"
    CONTENT_FILTER = "content-filter"
    REFUSED = "refused"
    MAX_ITERATIONS = "max-iterations"
    LOOP = "loop"
    ERROR = "error"
    CANCELLED = "cancelled"


class ErrorInfo(Value):
    """The reason for a run's failure, for its owner.

    Attributes:
        type: The kind of failure: the name of an error (`LimitReached`, `OutputInvalid`, `RateLimitError`).
        message: What happened and what to do, in Layover's words and with the run's id. What a provider or
            an exception said is in `ErrorDetail` (docs/behaviour.md#failures).

    Example:
        ```python
        import asyncio

        from layover import Agent, ErrorInfo
        from layover.testing import ScriptedModel, fail

        shop = Agent("shop")
        with shop.override(model=ScriptedModel([fail("quota of org-17", status=429)])):
            result = asyncio.run(shop.generate("Hi"))
        assert isinstance(result.error, ErrorInfo) and result.error.type == "RateLimitError"
        assert result.error.message.startswith("The language model takes no more requests for now.")
        assert result.run_id in result.error.message and "org-17" not in result.error.message
        ```
    """

    type: str
    message: str


class ErrorDetail(Value):
    """The facts of a failure for operators, which its owner is not told.

    Attributes:
        provider: The name of the model's provider; None: no model failed, or its name has none.
        model: The model that was asked.
        status: The HTTP status of the provider's answer; None: there was none.
        request_id: The provider's id of the request, which its support asks for.
        message: The words of the provider or the exception, without what looks like a secret: 500 characters
            at most.

    Example:
        ```python
        import asyncio

        from layover import Agent
        from layover.testing import ScriptedModel, fail

        shop = Agent("shop")
        with shop.override(model=ScriptedModel([fail("Incorrect API key: sk-1234", status=401)])):
            result = asyncio.run(shop.generate("Hi"))
        assert result.error_detail.status == 401
        assert result.error_detail.message == "Incorrect API key: [hidden]"
        ```
    """

    provider: str | None = None
    model: str | None = None
    status: int | None = None
    request_id: str | None = None
    message: str

"""Time, ids, models and the orchestrator."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol

from layover.values.decision import WakeUp
from layover.values.metrics import Metric, Unit
from layover.values.prompt import Delta, Embedded, Prompt, Reply


class Clock(Protocol):
    """The time that the system reads."""

    def now(self) -> datetime:
        """Return the time in UTC, timezone-aware."""
        ...

    async def sleep(self, delay: timedelta) -> None:
        """Return once this much of the clock's time has passed."""
        ...


class Ids(Protocol):
    """New identifiers."""

    def new(self, kind: str) -> str:
        """Return a new id of this kind, never given before."""
        ...


class Dice(Protocol):
    """Chance: random numbers that nobody can guess, unless a test has seeded them."""

    def bits(self, count: int, /) -> int:
        """Return a number of `count` random bits."""
        ...

    def hex(self, size: int, /) -> str:
        """Return `size` random bytes as hexadecimal text."""
        ...

    def text(self, size: int, /) -> str:
        """Return `size` random bytes as text that is safe in URLs."""
        ...

    def up_to(self, longest: float, /) -> float:
        """Return a number from 0 up to `longest`."""
        ...


OnDelta = Callable[[Delta], Awaitable[None] | None]


async def send_deltas(listener: OnDelta | None, *deltas: Delta) -> None:
    """Give each piece of a reply to the listener, if there is one.

    Args:
        listener: The `on_delta` of a model's `complete`.
        *deltas: The pieces, in order.

    Example:
        ```python
        import asyncio

        from layover.models import Delta, send_deltas

        pieces: list[Delta] = []
        asyncio.run(send_deltas(pieces.append, Delta("text", "Good "), Delta("text", "day.")))
        assert "".join(piece.text for piece in pieces) == "Good day."
        ```
    """
    if listener is None:
        return
    for delta in deltas:
        awaitable = listener(delta)
        if awaitable is not None:
            await awaitable


class ChatModel(Protocol):
    """A model behind any provider."""

    async def complete(self, prompt: Prompt, on_delta: OnDelta | None = None) -> Reply:
        """Return one reply. Passing faults are retried inside (docs/behaviour.md#provider-retries); raises
        ModelError."""
        ...


class Model(Protocol):
    '''A model that an author brings: `Agent(model=MODEL)` (docs/guides/own-model.md).

    `complete` makes one attempt. Layover repeats passing faults, tells followers of an answer that was not
    streamed, and turns any exception into a ModelError (docs/behaviour.md#own-models). A class that repeats
    passing faults itself has the attribute `retries = True`.

    Attributes:
        name: Its name, the same in every process and release, such as `acme/large`. Runs, usage and the
            agent's definition have it; prices and the context window are looked up by it.

    Example:
        ```python
        import asyncio

        from layover import Agent
        from layover.models import Model, OnDelta, Prompt, Reply


        class Echo(Model):
            """A model that says what it was told."""

            name = "example/echo"

            async def complete(self, prompt: Prompt, on_delta: OnDelta | None = None) -> Reply:
                return Reply(text=prompt.messages[-1].text)


        parrot = Agent("parrot", model=Echo())
        result = asyncio.run(parrot.generate("Hello"))
        assert result.text == "Hello"
        ```
    '''

    name: str

    async def complete(self, prompt: Prompt, on_delta: OnDelta | None = None) -> Reply:
        """Return one reply. Raises ModelError, or whatever its client raises.

        Args:
            prompt: The request. Its `model` is the model's own name.
            on_delta: Called with each piece of the answer as it arrives; None: nobody follows.
        """
        ...


class Dialer(Protocol):
    """Connects ahead of need, in parallel with the caller. Raises nothing: a connection that fails is made
    again, and its failure raised, where it is used."""

    def dial_database(self) -> None:
        """Begin to connect to the database, unless it is connected."""
        ...

    def dial_model(self, model: str) -> None:
        """Begin to connect to the provider of a model, unless a connection is idle."""
        ...


class NoDialer(Dialer):
    """Connections are made where they are used."""


class Embedder(Protocol):
    """Texts to vectors."""

    @property
    def model(self) -> str:
        """The label stored with its vectors: vectors of different labels are never compared."""
        ...

    async def embed(self, texts: Sequence[str]) -> Embedded:
        """Return one vector for each text, in order, and the usage. Passing faults are retried inside; raises
        ModelError."""
        ...


class Callbacks(Protocol):
    """The orchestrator: executions and task tokens."""

    async def start(self, owner: str, run_id: str, n: int) -> None:
        """Start the execution `{run_id}-{n}`. An existing one is not an error."""
        ...

    async def alive(self, execution: str) -> bool:
        """Return whether an execution of this name is running."""
        ...

    async def wake(self, token: str, news: WakeUp = WakeUp.DECIDED) -> bool:
        """Tell a waiting branch to look, and what the bus knows of its call. Return False if no branch waits
        on this token, or none does any more, which is not an error."""
        ...

    async def stop(self, execution: str, reason: str) -> None:
        """Try to stop an execution."""
        ...

    async def publish(self, detail_type: str, detail: Mapping[str, Any]) -> None:
        """Publish an event about a waiting call (docs/behaviour.md#callbacks)."""
        ...


class Background(Protocol):
    """Background work."""

    async def observe(self, owner: str, run_id: str, after_id: str | None, through_id: str) -> None:
        """Request that a slice of the run's branch is observed ahead: the messages after one (None: from the
        root) and through another. Raises nothing, and nothing is lost if it fails."""
        ...


class Aborts(Protocol):
    """Runs that this process was asked to stop. Requests from elsewhere are in the journal."""

    async def is_aborted(self, run_id: str) -> bool:
        """Return whether the run is to stop. Called before each model and tool call, when all earlier facts
        are in the journal."""
        ...

    async def wait(self, run_id: str) -> None:
        """Return once the run is to stop."""
        ...


class Deadline(Protocol):
    """The time that is left to this invocation."""

    def remaining(self) -> timedelta:
        """Return the time left; may be very large."""
        ...


class Metrics(Protocol):
    """Metrics for dashboards and alarms."""

    def count(
        self, name: Metric, value: float = 1, unit: Unit = "Count", **dimensions: str
    ) -> None:
        """Note a value, in total and for this combination of dimensions. It is published when the invocation
        is over. Dimensions have few values (an agent's name, never an id). Never raises."""
        ...


class NoMetrics:
    """`Metrics` that are dropped."""

    def count(
        self, name: Metric, value: float = 1, unit: Unit = "Count", **dimensions: str
    ) -> None:
        """Do nothing."""

"""The engine that runs agents in this process: a slot that `layover` fills when it is imported.

What authors write imports no engine: this package declares what it needs of one, and the package above brings
it. The engine is loaded when the first agent runs in this process."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from layover.declare.agents.driver import Driver
    from layover.ports.platform import ChatModel, Clock, Embedder
    from layover.values.deployment.settings import Settings


class Stores(Protocol):
    """The stores and the model of an agent's runs in this process, of which the engine knows the rest: a
    `layover.runtime.Runtime`."""

    @property
    def settings(self) -> "Settings":
        """The limits and models of runs."""
        ...

    @property
    def clock(self) -> "Clock":
        """The time of runs."""
        ...


class Engine(Protocol):
    """Runs agents in this process."""

    def in_process(self, agent: Any) -> "Driver":
        """Return what runs this agent, over the stores of `agent.runtime`."""
        ...

    def in_memory_runtime(
        self,
        agent: Any,
        *,
        model: "ChatModel | None" = None,
        embedder: "Embedder | None" = None,
        clock: "Clock | None" = None,
    ) -> Any:
        """Return a Runtime with empty stores in memory, for this agent. None: what the environment names."""
        ...


_load: Callable[[], Engine] | None = None


def set_engine(load: Callable[[], Engine]) -> None:
    """Set the function that returns the engine. It is called for each agent that needs one."""
    global _load
    _load = load


def engine() -> Engine:
    """Return the engine, imported if this is its first use."""
    assert _load is not None  # `layover` is imported before anything in it
    return _load()

"""The orchestrator in memory: it records requests; the driver of the run acts on them."""

from collections.abc import Mapping
from typing import Any

from layover.values.decision import WakeUp


class InMemoryCallbacks:
    """`ports.Callbacks`."""

    def __init__(self) -> None:
        self.started: list[tuple[str, str, int]] = []
        """(owner, run_id, n), in order."""
        self.woken: list[str] = []
        self.news: dict[str, WakeUp] = {}
        """The news of the newest wake-up of each token."""
        self.closed: set[str] = set()
        """Tokens that no branch waits on any more."""
        self.stopped: list[str] = []
        self.events: list[tuple[str, Mapping[str, Any]]] = []
        """(type, detail), in order."""

    async def start(self, owner: str, run_id: str, n: int) -> None:
        """Record the start; a repeated start is the same one."""
        if (owner, run_id, n) not in self.started:
            self.started.append((owner, run_id, n))

    async def alive(self, execution: str) -> bool:
        """Return whether the execution was started, and not stopped."""
        names = {f"{run_id}-{n}" for _, run_id, n in self.started}
        return execution in names and execution not in self.stopped

    async def wake(self, token: str, news: WakeUp = WakeUp.DECIDED) -> bool:
        """Record the wake-up."""
        self.woken.append(token)
        self.news[token] = news
        return token not in self.closed

    async def stop(self, execution: str, reason: str) -> None:
        """Record the stop."""
        self.stopped.append(execution)

    async def publish(self, detail_type: str, detail: Mapping[str, Any]) -> None:
        """Record the event."""
        self.events.append((detail_type, detail))


class NobodyListens(InMemoryCallbacks):
    """The orchestrator of an author's own process. It keeps no event: one that lives for long would
    have one of each run."""

    async def publish(self, detail_type: str, detail: Mapping[str, Any]) -> None:
        """Do nothing: there is no bus."""

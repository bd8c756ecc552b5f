"""The HTTP API over ports in memory, whose runs go on while a request waits for them."""

import threading
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, TypeVar

from layover import Agent
from layover.adapters.journal.leases import TableLeases
from layover.ids import SequentialIds
from layover.inmemory.table import InMemoryTable
from layover.values.deployment.access import Access
from support.worlds.builder import build_runtime
from support.worlds.served import Json, Served

T = TypeVar("T")


class Driven(Served):
    """`agents` answer by the model. A run goes on before the next call of the handler to a port's owner."""

    def __init__(self, *agents: Agent, model: Any) -> None:
        self._given = agents
        self._model = model
        self._one_at_a_time = threading.Lock()
        self.stands_still = False
        """True: no run goes on."""
        super().__init__()

    def restart(self) -> None:
        """Begin anew, with nothing in it."""
        super().restart()
        self._runtime = build_runtime(
            *self._given,
            clock=self.clock,
            callbacks=self.callbacks,
            ids=SequentialIds(),
            model=self._model,
            leases=TableLeases(InMemoryTable()),
        )

    def set(self, **settings: Any) -> None:
        """Change settings of the deployment."""
        changed = self._runtime.settings.model_copy(update=settings)
        self._runtime = replace(self._runtime, settings=changed)

    def deploy(self, issuer: str) -> None:
        """Stand for a deployment with this issuer, in place of one machine."""
        self.set(access=Access(issuer=issuer))

    def deploy_agents(self, *agents: Agent) -> None:
        """Serve these agents from now on."""
        named = {agent.name: agent for agent in agents}
        self._runtime = replace(self._runtime, agents=lambda: named)

    def run(self, work: Coroutine[Any, Any, T], /) -> T:
        """`functions.api.call.Host`."""
        result = self._runner.run(work)
        if not self.stands_still:
            self._runner.run(self._drive())
        return result

    def _answer(self, event: Json) -> Json:
        with self._one_at_a_time:
            return super()._answer(event)

    async def _drive(self) -> None:
        if not self.stands_still:
            await super()._drive()

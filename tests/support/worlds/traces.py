"""A bench whose processes send traces to a receiver: each `process` is a new one, as after a freeze, a kill
or a hand-over to another execution."""

import os
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from layover import Agent
from layover.clock import ManualClock
from layover.plugins.traces.otlp import OtlpTracing
from layover.plugins.traces.requests import TracedModel
from layover.plugins.traces.writers import TracedWriters
from layover.recovery.give_up import give_up
from layover.values.deployment.settings import Settings
from layover.values.runs.payload import SettlePayload
from support.worlds.runs import Bench


class TickingClock(ManualClock):
    """A clock by which whatever is looked at later is later."""

    def now(self) -> datetime:
        self.advance(timedelta(milliseconds=1))
        return super().now()


BENCHES: list["TracedBench"] = []
"""All that a test made, until `hang_up`."""


async def hang_up() -> None:
    """Close the connections of every process of every bench."""
    while BENCHES:
        for tracing in BENCHES.pop().made:
            await tracing.aclose()


class TracedBench(Bench):
    """A `Bench` under a process that traces. `content`: also what messages say."""

    flush_s = 30.0
    """Much more than a busy machine needs."""

    def __init__(self, agent: Agent, model: Any, *, content: bool = False, **ports: Any) -> None:
        ports = {"clock": TickingClock(), **ports}
        super().__init__(agent, model, settings=Settings(traces=True), **ports)
        self.untraced = self.runtime
        self._content = content
        BENCHES.append(self)
        self.made: list[OtlpTracing] = []
        self.process()

    def process(self) -> None:
        """Begin another process. Whatever the one before has not sent is lost."""
        self.now_s = 0.0
        self.tracing = OtlpTracing(
            self.clock, "shop", os.environ, flush_s=self.flush_s, monotonic=lambda: self.now_s
        )
        self.made.append(self.tracing)
        journal = self.untraced.journal
        self.writers = TracedWriters(journal, self.tracing, self.clock, content=self._content)
        self.runtime = replace(
            self.untraced,
            journal=replace(journal, writers=self.writers),
            model=TracedModel(self.untraced.model, content=self._content),
            tracing=self.tracing,
        )

    async def finish(self) -> None:
        """End the invocation, as `layover.wiring` does."""
        await self.writers.leave()
        await self.tracing.finish()

    async def settle(self, run_id: str, **error: Any) -> str:
        """Settle a Turn that failed, in a process that traces as well."""
        payload = self.payload(run_id, SettlePayload, error=error)
        status = str((await give_up(self.runtime, payload))["status"])
        await self.finish()
        self.process()
        return status

    async def turn(self, run_id: str, *args: Any, **answer: Any) -> dict[str, Any]:
        """One invocation, which sends its traces if it ends, and its successor is another process."""
        try:
            answered = await super().turn(run_id, *args, **answer)
        except BaseException:
            self.process()
            raise
        await self.finish()
        self.process()
        return answered

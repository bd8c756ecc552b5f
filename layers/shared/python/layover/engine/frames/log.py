"""The run's log as a sub-agent writes to it: each event carries the sub-agent's path."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from layover.keys import parent_call_of
from layover.ports import CancelRequest, Ended, RunLog, SetAside
from layover.values.message import Message
from layover.values.runs.event import Event
from layover.values.runs.run import CallRecord, Outcome, RunMeta, RunSnapshot, StepRecord
from layover.values.thread import ThreadHead


class NestedLog:
    """`ports.RunLog` that marks each event with its sub-agent and call. `path`: the prefix of its keys; empty
    for the run itself."""

    def __init__(self, log: RunLog, agent_path: tuple[str, ...], path: str) -> None:
        self._log = log
        self._place: dict[str, Any] = {
            "agent_path": agent_path,
            "parent_tool_call_id": parent_call_of(path),
        }

    @property
    def snapshot(self) -> RunSnapshot:
        """The snapshot of the whole run."""
        return self._log.snapshot

    @property
    def head(self) -> ThreadHead | None:
        """The thread's head."""
        return self._log.head

    @property
    def opener(self) -> str:
        """The writer's name."""
        return self._log.opener

    @property
    def owed(self) -> frozenset[str]:
        """See `ports.RunLog`."""
        return self._log.owed

    def pay(self, paid: frozenset[str]) -> None:
        """See `ports.RunLog`."""
        self._log.pay(paid)

    def emit(self, *events: Event) -> None:
        """See `ports.RunLog`."""
        self._log.emit(*self._signed(events))

    async def flush(self) -> bool:
        """See `ports.RunLog`."""
        return await self._log.flush()

    async def has_begun(self) -> bool:
        """See `ports.RunLog`."""
        return await self._log.has_begun()

    async def put_step(
        self,
        step: StepRecord,
        *events: Event,
        is_complete: bool = False,
        open_calls: Sequence[CallRecord] = (),
    ) -> None:
        """See `ports.RunLog`."""
        await self._log.put_step(
            step, *self._signed(events), is_complete=is_complete, open_calls=open_calls
        )

    async def end_step(self, step: StepRecord, *events: Event) -> None:
        """See `ports.RunLog`."""
        await self._log.end_step(step, *self._signed(events))

    async def hand_over(self, agent: str, definition: str, *events: Event) -> None:
        """See `ports.RunLog`."""
        await self._log.hand_over(agent, definition, *self._signed(events))

    async def redefine(self, definition: str, *events: Event) -> None:
        """See `ports.RunLog`."""
        await self._log.redefine(definition, *self._signed(events))

    async def wait_for_compaction(self, index: int) -> None:
        """See `ports.RunLog`."""
        await self._log.wait_for_compaction(index)

    async def open_calls(self, calls: Sequence[CallRecord], *events: Event) -> None:
        """See `ports.RunLog`."""
        await self._log.open_calls(calls, *self._signed(events))

    async def close_call(
        self,
        call: CallRecord,
        *events: Event,
        ended_step: StepRecord | None = None,
        wait: bool = True,
    ) -> None:
        """See `ports.RunLog`."""
        await self._log.close_call(call, *self._signed(events), ended_step=ended_step, wait=wait)

    async def wait(self) -> None:
        """See `ports.RunLog`."""
        await self._log.wait()

    async def suspend_calls(self, calls: Sequence[CallRecord], *events: Event) -> None:
        """See `ports.RunLog`."""
        await self._log.suspend_calls(calls, *self._signed(events))

    async def cancel_calls(
        self, calls: Sequence[CallRecord], *events: Event, more_follow: bool = False
    ) -> None:
        """See `ports.RunLog`."""
        await self._log.cancel_calls(calls, *self._signed(events), more_follow=more_follow)

    async def take_thread(self, head: ThreadHead, aside: SetAside | None = None) -> bool:
        """See `ports.RunLog`."""
        return await self._log.take_thread(head, aside)

    async def wait_for_thread(self, head: ThreadHead, busy: RunMeta) -> bool:
        """See `ports.RunLog`."""
        return await self._log.wait_for_thread(head, busy)

    async def new_messages(self, number: int) -> tuple[Message, ...]:
        """See `ports.RunLog`."""
        return await self._log.new_messages(number)

    async def cancel_requested(self) -> CancelRequest | None:
        """See `ports.RunLog`."""
        return await self._log.cancel_requested()

    async def end(
        self,
        outcome: Outcome,
        *events: Event,
        head: ThreadHead | None = None,
        retention: timedelta | None = None,
    ) -> Ended:
        """See `ports.RunLog`."""
        return await self._log.end(outcome, *events, head=head, retention=retention)

    def _signed(self, events: Sequence[Event]) -> list[Event]:
        if not self._place["agent_path"]:
            return list(events)
        # The end of a call brings what ended the sub-agent in it, which has a place of its own.
        return [e if e.parent_tool_call_id else e.model_copy(update=self._place) for e in events]

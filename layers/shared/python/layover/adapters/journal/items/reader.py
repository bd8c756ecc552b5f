"""Values from items of the table, whose bodies may be in S3."""

from layover.adapters.journal.items.codec import PayloadStore
from layover.adapters.journal.items.records import call_from, is_call, run_from, step_from
from layover.adapters.journal.items.table import Item
from layover.values.runs.run import CallRecord, OpenApproval, RunMeta, RunSnapshot, StepRecord


class Reader:
    """Reads what `records` and `codec` have written."""

    def __init__(self, bodies: PayloadStore) -> None:
        self._bodies = bodies

    async def meta(self, owner: str, item: Item) -> RunMeta:
        """The value of a run's META."""
        return run_from(
            owner, item, await self._bodies.unpack(item), await self._beside(item, "outcome")
        )

    async def call(self, run_id: str, item: Item) -> CallRecord:
        """The value of a call."""
        body = await self._bodies.unpack(item)
        decision, votes = await self._beside(item, "decision"), await self._beside(item, "votes")
        return call_from(run_id, item, body, decision, votes)

    async def snapshot(self, meta: RunMeta, items: list[Item]) -> RunSnapshot:
        """A run with the steps and calls of these items."""
        steps: list[StepRecord] = []
        calls: list[CallRecord] = []
        for item in items:
            if is_call(item):
                calls.append(await self.call(meta.id, item))
            else:
                steps.append(step_from(item, await self._bodies.unpack(item)))
        return RunSnapshot(meta=meta, steps=tuple(steps), calls=tuple(calls))

    async def approval(self, item: Item) -> OpenApproval:
        """A call that waits, as lists show it."""
        run_id = str(item["gsi1sk"]).split("#", 3)[2]
        call = await self.call(run_id, item)
        assert call.suspension is not None
        return OpenApproval(
            run_id=run_id,
            thread_id=item["thread_id"],
            agent=item["agent"],
            tool_call_id=call.tool_call_id,
            tool_name=call.tool_name,
            args=call.args,
            kind=call.suspension.kind,
            payload=call.suspension.payload,
            resume_schema=call.suspension.resume_schema,
            attempt=call.attempt,
            agent_path=call.agent_path or (item["agent"],),
            requested_at=call.suspension.requested_at,
            expires_at=call.suspension.expires_at,
            approval=call.approval,
        )

    async def _beside(self, item: Item, name: str) -> str | None:
        value = item.get(name)
        return None if value is None else await self._bodies.unpack_beside(value)

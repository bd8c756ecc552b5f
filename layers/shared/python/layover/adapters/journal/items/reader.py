"""Values from items of the table, whose bodies may be in S3."""

from layover.adapters.journal.items.codec import PayloadStore
from layover.adapters.journal.items.records import call_from, is_call, run_from, step_from
from layover.errors import LayoverError
from layover.keys import INPUT, STEP_PREFIX
from layover.ports.table import Item, Table
from layover.values.page import Page
from layover.values.runs.run import CallRecord, RunMeta, RunSnapshot, StepRecord
from layover.values.runs.views import OpenApproval

_INPUTS_KEPT = 16
"""Items that a process remembers, the newest ones: compressed, most have a few KB."""
_STEPS_END = STEP_PREFIX + "~"


def has_input(meta: Item) -> bool:
    """Return whether META holds the run's input: short inputs are kept there, and all were before INPUT
    existed."""
    return "b" in meta or "blob" in meta


class InputGone(LayoverError):
    """The records of a run are being erased, or expire: META still exists, and its input does not."""


class Reader:
    """Reads the items that `records` and `codec` have written."""

    def __init__(self, table: Table, bodies: PayloadStore) -> None:
        self._table = table
        self._bodies = bodies
        self._inputs: dict[str, Item] = {}

    async def records(self, pk: str) -> list[Item]:
        """Return the items of a run without its events: INPUT, META, then its steps and their calls."""
        return await self._table.query(pk, INPUT, _STEPS_END)

    async def meta(self, owner: str, item: Item, input_item: Item | None = None) -> RunMeta:
        """Return the value of a run's META. `input_item`: its INPUT, if it was read with it."""
        if not has_input(item):
            input_item = input_item or await self._input(item)
        body = await self._bodies.unpack(input_item or item)
        return run_from(owner, item, body, await self._beside(item, "outcome"))

    async def _input(self, meta: Item) -> Item:
        """Return INPUT. It never changes: a process that reads the same run again and again fetches it
        once."""
        pk = meta["pk"]
        input_item = self._inputs.pop(pk, None) or await self._table.get(pk, INPUT)
        if input_item is None:
            raise InputGone("the input of a run is gone", run_id=meta["id"])
        self._inputs[pk] = input_item
        while len(self._inputs) > _INPUTS_KEPT:
            del self._inputs[next(iter(self._inputs))]
        return input_item

    async def call(self, run_id: str, item: Item) -> CallRecord:
        """Return the value of a call."""
        body = await self._bodies.unpack(item)
        decision, votes = await self._beside(item, "decision"), await self._beside(item, "votes")
        return call_from(run_id, item, body, decision, votes)

    async def snapshot(self, meta: RunMeta, items: list[Item]) -> RunSnapshot:
        """Return a run with the steps and calls of these items."""
        steps: list[StepRecord] = []
        calls: list[CallRecord] = []
        for item in items:
            if is_call(item):
                calls.append(await self.call(meta.id, item))
            else:
                steps.append(step_from(item, await self._bodies.unpack(item)))
        return RunSnapshot(meta=meta, steps=tuple(steps), calls=tuple(calls))

    async def approvals(
        self, partition: str, thread_id: str | None, limit: int, cursor: str | None
    ) -> Page[OpenApproval]:
        """Return an owner's calls that wait undecided, oldest first."""
        open_calls: list[OpenApproval] = []
        while True:
            page = await self._table.query_index(
                partition, "A#", limit=limit + 1, forward=True, after=cursor
            )
            for item in page:
                if len(open_calls) == limit:
                    return Page(items=tuple(open_calls), next_cursor=cursor)
                cursor = item["gsi1sk"]
                if thread_id is None or item["thread_id"] == thread_id:
                    open_calls.append(await self.approval(item))
            if len(page) <= limit:
                return Page(items=tuple(open_calls), next_cursor=None)

    async def approval(self, item: Item) -> OpenApproval:
        """Return a waiting call, as lists show it."""
        run_id = str(item["gsi1sk"]).split("#", 3)[2]
        call, agent = await self.call(run_id, item), item["agent"]
        places = {"run_id": run_id, "thread_id": item["thread_id"], "agent": agent}
        return OpenApproval.of(call, agent, **places)

    async def _beside(self, item: Item, name: str) -> str | None:
        value = item.get(name)
        return None if value is None else await self._bodies.unpack_beside(value)

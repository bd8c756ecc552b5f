"""Journaled runs (`ports.Runs`): values from items of the table, whose bodies may be in S3."""

from contextlib import suppress

from layover.adapters.journal.backing import Backing
from layover.adapters.journal.items.index import page_index
from layover.adapters.journal.items.records import (
    call_from,
    is_call,
    run_from,
    status_from,
    step_from,
)
from layover.errors import LayoverError
from layover.keys import INPUT, META, SAID_PREFIX, STEP_PREFIX, Keys
from layover.ports.table import Item
from layover.values.message import Message
from layover.values.page import Page
from layover.values.runs.run import CallRecord, RunMeta, RunSnapshot, Status, StepRecord
from layover.values.runs.views import OpenApproval

_MAX_INPUTS = 16
"""The number of items that a process remembers, the newest ones. Compressed, most have a few KB."""
_STEPS_END = STEP_PREFIX + "~"


class InputGone(LayoverError):
    """The records of a run are being erased, or expire: META still exists, but its input does not."""


class TableRuns:
    """`Runs`, and the values of items that other parts have read."""

    def __init__(self, backing: Backing) -> None:
        self._table = backing.table
        self._bodies = backing.bodies
        self._inputs: dict[str, Item] = {}

    async def get(self, owner: str, run_id: str) -> RunMeta | None:
        """See `ports.Runs`."""
        item = await self._table.get(Keys(owner).run(run_id), META)
        with suppress(InputGone):
            return await self.meta_of(owner, item) if item else None
        return None

    async def peek_status(self, owner: str, run_id: str) -> Status | None:
        """See `ports.Runs`."""
        item = await self._table.get(Keys(owner).run(run_id), META, consistent=False)
        return status_from(item) if item else None

    async def snapshot(self, owner: str, run_id: str) -> RunSnapshot | None:
        """See `ports.Runs`. One query: INPUT and META sort before the steps."""
        return await self.snapshot_at(Keys(owner).run(run_id))

    async def snapshot_at(self, pk: str) -> RunSnapshot | None:
        """Return the run of this partition, whoever owns it."""
        items = await self.records(pk)
        input_item = items.pop(0) if items and items[0]["sk"] == INPUT else None
        if not items or items[0]["sk"] != META:
            return None
        with suppress(InputGone):
            meta = await self.meta_of(items[0]["owner"], items[0], input_item)
            return await self.snapshot_of(meta, items[1:])
        return None

    async def call(self, owner: str, run_id: str, key: str) -> CallRecord | None:
        """See `ports.Runs`."""
        item = await self._table.get(Keys(owner).run(run_id), key)
        return await self.call_of(run_id, item) if item else None

    async def page_ids(
        self, owner: str, thread_id: str, limit: int, cursor: str | None
    ) -> Page[str]:
        """See `ports.Runs`."""
        page = await page_index(
            self._table,
            Keys(owner).partition,
            f"R#{thread_id}#",
            limit=limit,
            cursor=cursor,
            forward=False,
        )
        return Page(items=tuple(item["id"] for item in page.items), next_cursor=page.next_cursor)

    async def records(self, pk: str) -> list[Item]:
        """Return the items of a run without its events: INPUT, META, then its steps and their calls."""
        return await self._table.query(pk, INPUT, _STEPS_END)

    async def meta_of(self, owner: str, item: Item, input_item: Item | None = None) -> RunMeta:
        """Return the value of a run's META. `input_item`: its INPUT, if it was read with it. Raises
        InputGone."""
        # META keeps short inputs; before INPUT existed it kept all of them.
        if "b" not in item and "blob" not in item:
            input_item = input_item or await self._input(item)
        source = input_item or item
        body, caller = await self._bodies.unpack(source), source.get("caller")
        return run_from(owner, item, body, await self._beside(item, "outcome"), caller)

    async def snapshot_of(self, meta: RunMeta, items: list[Item]) -> RunSnapshot:
        """Return a run with the steps and calls of these items."""
        steps: list[StepRecord] = []
        calls: list[CallRecord] = []
        sent_messages: list[Message] = []
        for item in items:
            if item["sk"].startswith(SAID_PREFIX):
                sent_messages.append(await self.said_of(item))
            elif is_call(item):
                calls.append(await self.call_of(meta.id, item))
            else:
                steps.append(step_from(item, await self._bodies.unpack(item)))
        return RunSnapshot(
            meta=meta, steps=tuple(steps), calls=tuple(calls), said=tuple(sent_messages)
        )

    async def said_of(self, item: Item) -> Message:
        """Return a message that a run was sent after its input."""
        return Message.model_validate_json(await self._bodies.unpack(item))

    async def call_of(self, run_id: str, item: Item) -> CallRecord:
        """Return the value of a call."""
        body = await self._bodies.unpack(item)
        decision, votes = await self._beside(item, "decision"), await self._beside(item, "votes")
        return call_from(run_id, item, body, decision, votes)

    async def approval_of(self, item: Item) -> OpenApproval:
        """Return a waiting call in the form that lists show."""
        run_id = str(item["gsi1sk"]).split("#", 3)[2]
        call, agent = await self.call_of(run_id, item), item["agent"]
        places = {"run_id": run_id, "thread_id": item["thread_id"], "agent": agent}
        return OpenApproval.of(call, agent, **places)

    async def _input(self, meta: Item) -> Item:
        """Return INPUT. It never changes, so a process that reads the same run repeatedly fetches it once."""
        pk = meta["pk"]
        input_item = self._inputs.pop(pk, None) or await self._table.get(pk, INPUT)
        if input_item is None:
            raise InputGone("the input of a run is gone", run_id=meta["id"])
        self._inputs[pk] = input_item
        while len(self._inputs) > _MAX_INPUTS:
            del self._inputs[next(iter(self._inputs))]
        return input_item

    async def _beside(self, item: Item, name: str) -> str | None:
        value = item.get(name)
        return None if value is None else await self._bodies.unpack_value(value)

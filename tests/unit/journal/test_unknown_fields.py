"""Records of a newer release that added fields: an older one reads them and goes on (docs/versions.md)."""

import json
from typing import Any

import pytest

from layover import Agent, Hook, HookContext, ModelRequest, ModelSettings
from layover.adapters.store.postgres.codec import load_message, load_messages
from layover.clock import ManualClock
from layover.files.store import Files
from layover.inmemory.blobs import InMemoryBlobs
from layover.inmemory.table import InMemoryTable
from layover.keys import Keys
from layover.ports.table import Item
from layover.testing import call, say
from layover.values.file import FileFacts
from layover.values.memory.compaction import Generation
from layover.values.memory.context import ThreadState
from layover.values.memory.entry import FoundEntries
from layover.values.thread import ThreadHead
from support.worlds.runs import ANN, Bench, Ledger, Power, answers, suspended

USERS = frozenset({"args", "data", "metadata", "payload", "result"})
"""Fields whose objects are a user's own."""


def with_more(value: Any, users: frozenset[str] = USERS) -> Any:
    """Return a record with an unknown field in each of its objects."""
    if isinstance(value, dict):
        kept = {k: v if k in users else with_more(v, users) for k, v in value.items()}
        return {**kept, "of_a_later_release": {"x": 1}}
    return [with_more(each, users) for each in value] if isinstance(value, list) else value


def more_json(text: str, users: frozenset[str] = USERS) -> str:
    return json.dumps(with_more(json.loads(text), users))


class LaterTable(InMemoryTable):
    """A table whose items, and the JSON in them, have fields that no code of this release knows."""

    def __init__(self, users: frozenset[str] = USERS) -> None:
        super().__init__()
        self.users = users
        self.grown: set[str] = set()

    async def get(self, pk: str, sk: str, *, consistent: bool = True) -> Item | None:
        item = await super().get(pk, sk, consistent=consistent)
        return item and self._grown(item)

    async def query(self, *given: Any, **options: Any) -> list[Item]:
        return [self._grown(item) for item in await super().query(*given, **options)]

    async def query_index(self, *given: Any, **options: Any) -> list[Item]:
        return [self._grown(item) for item in await super().query_index(*given, **options)]

    def _grown(self, item: Item) -> Item:
        for name, value in item.items():
            if name not in self.users and isinstance(value, str) and value[:2] in ('{"', "[{"):
                item[name] = more_json(value, self.users)
                self.grown.add(f"{item['sk'].split('#')[0]} {name}")
        return {**item, "of_a_later_release": "x"}


async def test_a_run_goes_on_over_records_with_more_fields() -> None:
    ledger, table = Ledger(), LaterTable()
    agent = Agent("helper", tools=[ledger.pay, ledger.look])
    bench: Any = Bench(agent, answers(call("pay", amount=3), say("ok")), table=table)
    run = await suspended(bench)
    await bench.answer(run.id, run.pending[0].tool_call_id, "approve")
    assert (await bench.run(run.id)).text == "ok"
    assert ledger.done == [3]
    events = await bench.events(run.id)
    assert (events[0].type, events[-1].type) == ("agent-start", "agent-end")
    audit = await bench.plain.journal.audit.page_rows(None, None, 10, None)
    assert [row.decision for row in audit.items] == ["approved"]
    heads = await bench.plain.journal.heads.page(ANN, 10, None)
    assert [head.id for head in heads.items] == ["t1"]
    assert (await bench.head()).active_run is None
    assert {"EVENT b", "AUDIT row", "META b", "STEP b"} <= table.grown, table.grown


async def test_what_a_hook_changed_is_read_with_more_fields() -> None:
    class Calm(Hook):
        asked = 0

        def before_model(self, ctx: HookContext, request: ModelRequest) -> ModelRequest:
            Calm.asked += 1
            return request.model_copy(update={"settings": ModelSettings(temperature=0)})

    cuts = 0
    for at in range(1, 40):
        power = Power(cut_at=at, after=True)
        # A hook's answer is the result of a call of its own.
        table = LaterTable(USERS - {"result"})
        agent = Agent("helper", hooks=[Calm()])
        bench = Bench(agent, answers(say("ok")), power=power, table=table)
        run = await bench.go()
        assert (run.error, run.text) == (None, "ok")
        cuts += power.cuts
    assert cuts > 5
    assert Calm.asked < 39 + cuts  # a journaled answer was read


async def test_facts_of_a_file_are_read_and_changed_with_more_fields() -> None:
    blobs, at = InMemoryBlobs(), ManualClock().now()
    files, key = Files(blobs, ANN), Keys(ANN).blob("files", "f1", "facts.json")
    facts = FileFacts(id="f1", name="a", mime_type="text/plain", size=1, created_at=at)
    await files.announce(facts)
    stored = (await blobs.get(key) or b"").decode()
    await blobs.put(key, more_json(stored).encode(), "application/json")
    assert await files.facts("f1") == facts
    await blobs.put(Keys(ANN).blob("uploads", "f1", "data"), b"x", "text/plain")
    taken = await files.take("f1", "t1")
    assert taken is not None
    assert taken.thread_ids == ("t1",)


MESSAGE = {
    "id": "m",
    "thread_id": "t",
    "role": "assistant",
    "created_at": "2026-01-01T00:00:00Z",
    "content": [
        {"type": "text", "text": "hi"},
        {"type": "tool_call", "tool_call_id": "c", "tool_name": "x", "args": {}},
    ],
}
AT = {"created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z"}
GENERATION = {
    "number": 1,
    "kind": "observations",
    "after_depth": -1,
    "through_depth": 1,
    "through_message_id": "m",
    "created_at": "2026-01-01T00:00:00Z",
    "observations": [{"id": "o", "at": "2026-01-01T00:00:00Z", "marker": "IMPORTANT", "text": "x"}],
}


@pytest.mark.parametrize(
    ("load", "document"),
    [
        (load_message, MESSAGE),
        (load_messages, [MESSAGE]),
        (ThreadHead.model_validate_json, {"id": "t", "owner": "o", "agent": "a", **AT}),
        (ThreadState.model_validate_json, {}),
        (Generation.model_validate_json, GENERATION),
        (FoundEntries.model_validate_json, {"items": []}),
    ],
)
def test_documents_of_postgres_are_read_with_more_fields(load: Any, document: Any) -> None:
    assert load(more_json(json.dumps(document)).encode()) == load(json.dumps(document).encode())

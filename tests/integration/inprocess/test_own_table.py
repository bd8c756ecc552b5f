"""An agent runs in process on a table of one's own: the run, its call that waits and its events are there."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from examples.sqlite_table import SqliteTable
from layover import Agent, tool
from layover.keys import Keys
from layover.ports.table import Action
from layover.testing import ScriptedModel, call, say, tool_results
from layover.wiring import in_memory_runtime

ADA = "ada"


@tool(needs_approval=True)
def refund(amount: float) -> str:
    """Refund an amount in euros."""
    return f"Refunded {amount:.2f} euros."


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


@pytest.fixture
def table(path: Path) -> Iterator[SqliteTable]:
    table = SqliteTable(path)
    yield table
    table.close()


def shop_on(table: SqliteTable) -> Agent:
    shop = Agent("shop", tools=[refund])
    model = ScriptedModel([call("refund", amount=5), say("Done.")])
    shop.runtime = in_memory_runtime(shop, model=model, table=table)
    return shop


async def places(path: Path, run_id: str) -> set[str]:
    """Return the places of a run's items, as another reader of the file finds them."""
    reader = SqliteTable(path)
    items = await reader.query(Keys(ADA).run(run_id), " ", "~")
    reader.close()
    return {str(item["sk"]) for item in items}


async def test_approval_waits_in_the_table_and_the_run_goes_on_from_there(
    table: SqliteTable, path: Path
) -> None:
    shop = shop_on(table)
    waiting = await shop.generate("5 euros back, please.", resource_id=ADA)
    [pending] = waiting.pending
    assert f"STEP#0001#CALL#{pending.tool_call_id}" in await places(path, waiting.run_id)
    done = await shop.approve(waiting.run_id, pending.tool_call_id)
    await shop.wait_for_memory()
    assert done.text == "Done."
    assert tool_results(done, "refund") == ["Refunded 5.00 euros."]
    assert {"META", "STEP#0001", "STEP#0002"} < await places(path, waiting.run_id)


async def test_stream_shows_what_is_written_to_the_table(table: SqliteTable) -> None:
    shop = shop_on(table)
    types = [event.type async for event in shop.stream("5 euros back, please.")]
    assert types[-1] == "tool-call-suspended"


async def test_empty_table_that_counts_its_items_is_used(path: Path) -> None:
    """A container without elements is false."""

    class Counting(SqliteTable):
        writes = 0

        def __len__(self) -> int:
            return 0

        async def transact(self, actions: Sequence[Action], token: str) -> None:
            self.writes += 1
            await super().transact(actions, token)

    table = Counting(path)
    await shop_on(table).generate("5 euros back, please.")
    table.close()
    assert table.writes > 0

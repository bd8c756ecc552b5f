"""Links that decide, in the table: found by their secret alone, and erased with their run."""

from datetime import timedelta

import pytest

from layover.adapters.journal.followers.links import TableDecisionLinks
from layover.clock import ManualClock
from layover.keys import Keys
from layover.ports import Blobs
from layover.ports.channels import Link
from layover.ports.table import Table

pytestmark = pytest.mark.both_stores(in_every_tier=True)
NOW = ManualClock().now()
SECRET = "s" * 43


@pytest.fixture
def table(journal_stores: tuple[Table, Blobs]) -> Table:
    return journal_stores[0]


@pytest.fixture
def links(table: Table) -> TableDecisionLinks:
    return TableDecisionLinks(table)


def link(owner: str, **changes: object) -> Link:
    fields = {
        "person": "sub-bea",
        "owner": owner,
        "run_id": "run_1",
        "tool_call_id": "call/ü 1",
        "attempt": 2,
        "expires_at": NOW + timedelta(days=7),
    }
    return Link.model_validate(fields | changes)


async def test_link_is_found_by_its_owner_its_run_and_its_secret_together(
    links: TableDecisionLinks, owner: str
) -> None:
    await links.put_link(SECRET, link(owner))
    mine = Keys(owner).hash
    for key in (
        (Keys(f"{owner}-other").hash, "run_1", SECRET),
        (mine, "run_2", SECRET),
        (mine, "run_1", SECRET.upper()),
        (mine, "run_1", SECRET[:-1]),
        (mine, "run_1", ""),
    ):
        assert await links.get_link(*key) is None
    assert await links.get_link(mine, "run_1", SECRET) == link(owner)


async def test_link_that_is_over_is_still_found(links: TableDecisionLinks, owner: str) -> None:
    old = link(owner, expires_at=NOW - timedelta(days=1))
    await links.put_link(SECRET, old)
    assert await links.get_link(Keys(owner).hash, "run_1", SECRET) == old


async def test_secret_is_stored_nowhere(
    links: TableDecisionLinks, table: Table, owner: str
) -> None:
    await links.put_link(SECRET, link(owner))
    (item,) = await table.query(Keys(owner).run("run_1"), " ", "~")
    assert SECRET not in repr(item)
    assert item["expires"] > (NOW + timedelta(days=7)).timestamp()

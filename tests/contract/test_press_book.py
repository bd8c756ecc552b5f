"""Requests of Slack's that were accepted, in memory and in DynamoDB."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from layover.keys import press_key
from layover.plugins.people.press_book import REMEMBERED_FOR, TablePressBook
from layover.ports import Blobs
from layover.ports.table import Table

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.fixture
def book(journal_stores: tuple[Table, Blobs]) -> TablePressBook:
    table, _ = journal_stores
    return TablePressBook(table)


async def test_a_copy_is_not_accepted(book: TablePressBook, owner: str) -> None:
    signature = f"v0={owner}"
    assert await book.accept_once(signature, NOW)
    for later in (timedelta(0), timedelta(minutes=5), REMEMBERED_FOR):
        assert not await book.accept_once(signature, NOW + later)


async def test_of_copies_that_come_at_once_one_is_accepted(
    book: TablePressBook, owner: str
) -> None:
    copies = await asyncio.gather(*(book.accept_once(f"v0={owner}", NOW) for _ in range(8)))
    assert sorted(copies) == [False] * 7 + [True]


async def test_another_signature_is_another_request(book: TablePressBook, owner: str) -> None:
    assert await book.accept_once(f"v0={owner}", NOW)
    assert await book.accept_once(f"v0={owner}0", NOW)


async def test_what_is_noted_ends_by_itself_and_names_nobody(
    book: TablePressBook, owner: str, journal_stores: tuple[Table, Blobs]
) -> None:
    table, _ = journal_stores
    signature = f"v0={owner}"
    assert await book.accept_once(signature, NOW)
    [item] = await table.query(press_key(signature), "", "~")
    assert item["expires"] == int((NOW + REMEMBERED_FOR).timestamp())
    assert signature not in str(item)
    # A store that has not removed it yet does not keep it alive.
    assert await book.accept_once(signature, NOW + REMEMBERED_FOR + timedelta(seconds=1))

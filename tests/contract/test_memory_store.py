"""The contract of every store of memory, in memory and on Postgres."""

import pytest

from layover.values.memory.context import Extraction
from support.worlds.threads import Conversation, Stores


@pytest.fixture
def stores(thread_stores: Stores) -> Stores:
    return thread_stores


@pytest.fixture
def talk(stores: Stores, owner: str) -> Conversation:
    return Conversation(stores.threads, owner)


def extraction(thread_id: str = "thread", **fields: object) -> Extraction:
    return Extraction.model_validate({"run_id": "run", "thread_id": thread_id, **fields})


async def _title(talk: Conversation) -> str | None:
    head = await talk.store.head(talk.owner, talk.id)
    return head.title if head else None


async def test_a_run_is_extracted_once(stores: Stores, talk: Conversation) -> None:
    await talk.say(None, "q", "a")
    assert await stores.memory.record_extraction(talk.owner, extraction(title="First"))
    assert not await stores.memory.record_extraction(talk.owner, extraction(title="Second"))
    assert await _title(talk) == "First"


async def test_a_run_is_known_to_be_extracted_once_it_is(
    stores: Stores, talk: Conversation
) -> None:
    await talk.say(None, "q", "a")
    assert not await stores.memory.is_extracted(talk.owner, "run")
    await stores.memory.record_extraction(talk.owner, extraction())
    assert await stores.memory.is_extracted(talk.owner, "run")
    assert not await stores.memory.is_extracted(talk.owner, "other")
    assert not await stores.memory.is_extracted(f"{talk.owner}-stranger", "run")


async def test_a_title_that_is_there_stays(stores: Stores, talk: Conversation) -> None:
    await talk.save(talk.message("q", None), title="Given")
    assert await stores.memory.record_extraction(talk.owner, extraction(title="Found"))
    assert await _title(talk) == "Given"


async def test_nothing_is_recorded_of_a_thread_that_is_gone(
    stores: Stores, talk: Conversation
) -> None:
    await talk.say(None, "q")
    await talk.store.erase(talk.owner, talk.id)
    assert not await stores.memory.record_extraction(talk.owner, extraction(title="Late"))
    assert not await stores.memory.record_extraction(talk.owner, extraction("unknown"))
    assert await _title(talk) is None


async def test_another_users_thread_takes_no_extraction(stores: Stores, talk: Conversation) -> None:
    await talk.say(None, "q")
    stranger = f"{talk.owner}-stranger"
    assert not await stores.memory.record_extraction(stranger, extraction(title="Mine now"))
    assert await _title(talk) is None


async def test_token_counts_are_kept_with_their_messages(
    stores: Stores, talk: Conversation
) -> None:
    await talk.say(None, "q", "a")
    counts = {"q": 3, "a": 5, "unknown": 9}
    assert await stores.memory.record_extraction(talk.owner, extraction(token_counts=counts))
    page = await talk.store.messages(talk.owner, talk.id, "a", 10, None)
    assert page is not None
    assert [m.token_count for m in page.items] == [3, 5]

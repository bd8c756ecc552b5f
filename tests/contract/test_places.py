"""Messages of runs that wait, in every store of threads: places that results keep free, and what follows
them."""

from typing import Any

import pytest

from layover.records.past_runs import tree_of
from layover.values.memory.context import TurnRecord
from layover.values.message import Message, Role, ToolCallPart, ToolResultPart
from layover.values.runs.run import RunMeta, Status
from support.worlds.threads import START, Conversation, Stores

from .test_past_trees import read_back, run_of


@pytest.fixture
def talk(thread_stores: Stores, owner: str) -> Conversation:
    return Conversation(thread_stores.threads, owner)


def place(talk: Conversation, id: str, parent: str) -> Message:
    """A place for a result to come."""
    return talk.message(id, parent, Role.TOOL).model_copy(update={"content": ()})


def result_in(at: Message, result: str = "paid") -> Message:
    part = ToolResultPart(tool_call_id="c1", tool_name="pay", result=result)
    return at.model_copy(update={"content": (part,), "model_output": result, "token_count": 7})


def asks(talk: Conversation, *call_ids: str) -> list[Message]:
    """What a run that waits for these calls has said: its input, its step, and places."""
    parts = [ToolCallPart(tool_call_id=id, tool_name="pay", args={}) for id in call_ids or ("c1",)]
    messages = [talk.message("q", None), talk.message("s", "q", Role.ASSISTANT, *parts)]
    for n in range(len(parts)):
        messages.append(place(talk, f"r{n + 1}", messages[-1].id))
    return messages


async def save(talk: Conversation, *messages: Message, snapshot: Any = None) -> None:
    """The end of a run that was set aside."""
    run = RunMeta(
        id="run",
        owner=talk.owner,
        thread_id=talk.id,
        agent="support",
        status=Status.SUCCESS,
        input=messages[0],
        aside=True,
        created_at=START,
        updated_at=START,
    )
    record = TurnRecord(
        head=talk.head(), run=run, input=messages[0], response=messages[1:], snapshot=snapshot
    )
    await talk.store.save_turn(record)


async def test_nobody_is_shown_a_place(talk: Conversation) -> None:
    await talk.store.save_messages(talk.head(), asks(talk))
    assert await talk.path("r1") == ["q", "s"]
    newest = await talk.store.newest_messages(talk.owner, talk.id, "r1", 10)
    assert [m.id for m in newest] == ["q", "s"]
    assert await talk.store.message(talk.owner, talk.id, "r1") is None
    assert await talk.open(talk.message("next", "r1")) == ["q", "s"]


async def test_a_place_is_no_ones_elses(talk: Conversation) -> None:
    await talk.store.save_messages(talk.head(), asks(talk))
    stranger = Conversation(talk.store, f"{talk.owner}-stranger")
    at = asks(stranger)
    await stranger.store.save_messages(stranger.head(), [*at[:2], result_in(at[2])])
    assert await talk.path("r1") == ["q", "s"]
    assert await stranger.path("r1") == ["q", "s", "r1"]


@pytest.mark.parametrize("at_end", [True, False], ids=["end", "meanwhile"])
async def test_a_result_takes_its_place_before_what_was_said_meanwhile(
    talk: Conversation, at_end: bool
) -> None:
    mine = asks(talk)
    await talk.store.save_messages(talk.head(), mine)
    await talk.say("r1", "b", "c")
    assert await talk.path("c") == ["q", "s", "b", "c"]
    whole = [*mine[:2], result_in(mine[2])]
    await (save(talk, *whole) if at_end else talk.store.save_messages(talk.head(), whole))
    assert await talk.path("c") == ["q", "s", "r1", "b", "c"]
    row = await talk.store.message(talk.owner, talk.id, "r1")
    assert row is not None
    assert (row.model_output, row.token_count) == ("paid", 7)
    assert row == result_in(mine[2])


async def test_a_result_that_is_there_stays_as_it_is(talk: Conversation) -> None:
    mine = asks(talk)
    whole = [*mine[:2], result_in(mine[2])]
    await talk.store.save_messages(talk.head(), whole)
    await talk.store.save_messages(talk.head(), mine)
    await save(talk, *mine[:2], result_in(mine[2], "something else"))
    row = await talk.store.message(talk.owner, talk.id, "r1")
    assert row is not None
    assert row.model_output == "paid"


async def test_results_come_one_by_one_in_any_order(talk: Conversation) -> None:
    mine = asks(talk, "c1", "c2", "c3")
    await talk.store.save_messages(talk.head(), mine)
    await talk.say("r3", "b")
    await talk.store.save_messages(talk.head(), [*mine[:3], result_in(mine[3]), mine[4]])
    assert await talk.path("b") == ["q", "s", "r2", "b"]
    await save(talk, *mine[:2], *(result_in(m) for m in mine[2:]))
    assert await talk.path("b") == ["q", "s", "r1", "r2", "r3", "b"]


async def test_a_run_goes_on_behind_others_and_its_messages_are_read_back(
    talk: Conversation,
) -> None:
    mine = asks(talk)
    await talk.store.save_messages(talk.head(), mine)
    await talk.say("r1", "b", "c")
    answer = talk.message("a", "c", Role.ASSISTANT)
    whole = (*mine[:2], result_in(mine[2]), answer)
    tree = tree_of(run_of(whole))
    assert tree["message_ids"] == ["q", "s", "r1", "a"]
    await save(talk, *whole, snapshot=tree)
    await talk.say("a", "after")
    assert await talk.path("after") == ["q", "s", "r1", "b", "c", "a", "after"]
    assert await read_back(talk) == (tree, ["q", "s", "r1", "a"])


async def test_the_same_end_twice_changes_nothing(talk: Conversation) -> None:
    mine = asks(talk)
    await talk.store.save_messages(talk.head(), mine)
    await talk.say("r1", "b", "c")
    whole = (*mine[:2], result_in(mine[2]), talk.message("a", "c", Role.ASSISTANT))
    for _ in range(2):
        await save(talk, *whole, snapshot=tree_of(run_of(whole)))
        await talk.store.save_messages(talk.head(), whole)
        assert await talk.path("a") == ["q", "s", "r1", "b", "c", "a"]


async def test_a_page_has_what_the_places_leave(talk: Conversation) -> None:
    mine = asks(talk, *(f"c{n}" for n in range(5)))
    await talk.store.save_messages(talk.head(), mine)
    await talk.say("r5", "b", "c")
    for limit in (1, 2, 3, 100):
        assert await talk.path("c", limit) == ["q", "s", "b", "c"]


async def test_the_newest_are_as_many_as_were_asked_for_where_there_are(
    talk: Conversation,
) -> None:
    mine = asks(talk, *(f"c{n}" for n in range(5)))
    await talk.store.save_messages(talk.head(), mine)
    await talk.say("r5", "b")
    newest = await talk.store.newest_messages(talk.owner, talk.id, "b", 3)
    assert newest[-1].id == "b"


async def test_nothing_comes_back_to_a_thread_that_was_erased(talk: Conversation) -> None:
    mine = asks(talk)
    await talk.store.save_messages(talk.head(), mine)
    await talk.store.erase(talk.owner, talk.id)
    await talk.store.save_messages(talk.head(), [*mine[:2], result_in(mine[2])])
    assert await talk.path("r1") is None
    other = Conversation(talk.store, talk.owner, id="other")
    await other.store.save_messages(other.head(deleted=True), asks(other))
    assert await other.store.head(other.owner, other.id) is None


async def test_no_messages_are_nothing(talk: Conversation) -> None:
    await talk.store.save_messages(talk.head(), [])
    assert await talk.path("q") is None


async def test_what_compacts_a_branch_reads_where_results_are_to_come(
    thread_stores: Stores, talk: Conversation
) -> None:
    await talk.store.save_messages(talk.head(), asks(talk))
    await talk.say("r1", "b", "c")
    span = await thread_stores.memory.span(talk.owner, talk.id, None, "c")
    assert span is not None
    assert [m.id for m in span.messages if not m.is_place] == ["q", "s", "b", "c"]
    assert {m.id for m in span.messages if m.is_place} >= {"r1"}

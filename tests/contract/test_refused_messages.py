"""The contract of the mark of refused messages, in memory and on Postgres: it is kept wherever a message is
read, and recall forgets them."""

import pytest

from layover.values.memory.context import IndexedText, RecallQuery
from layover.values.message import Message, Role, TextPart, ToolResultPart
from support.worlds.threads import START, Conversation, Stores


@pytest.fixture
def stores(thread_stores: Stores) -> Stores:
    return thread_stores


@pytest.fixture
def talk(stores: Stores, owner: str) -> Conversation:
    return Conversation(stores.threads, owner)


async def marked(talk: Conversation, leaf: str) -> list[str]:
    """The ids of the branch's messages that have the mark, as a page has them."""
    page = await talk.store.messages(talk.owner, talk.id, leaf, 100, None)
    assert page is not None
    return [m.id for m in page.items if m.refused]


async def test_messages_of_another_user_or_thread_are_not_marked(talk: Conversation) -> None:
    stranger = Conversation(talk.store, f"{talk.owner}-stranger")
    elsewhere = Conversation(talk.store, talk.owner, id="elsewhere")
    await talk.say(None, "q", "a")
    for other in (stranger, elsewhere):
        await other.say(None, f"q of {other.id} {other.owner}", "a of it")
        await other.save(*other.chain("a of it", "q2", "a2"), refused=("q", "a"))
    assert await marked(talk, "a") == []


async def test_a_message_that_is_there_already_is_marked_by_its_runs_end(
    talk: Conversation,
) -> None:
    question = talk.message("q", None)
    await talk.open(question)
    answer = talk.message("a", "q", Role.ASSISTANT)
    await talk.save(question.model_copy(update={"refused": True}), answer, refused=("q",))
    assert await marked(talk, "a") == ["q"]
    [read] = [
        m for m in (await talk.store.newest_messages(talk.owner, talk.id, "a", 9)) if m.refused
    ]
    assert read.id == "q"
    one = await talk.store.message(talk.owner, talk.id, "q")
    assert one is not None
    assert (one.refused, one.text) == (True, "text of q")


async def test_a_message_of_an_earlier_run_is_marked_on_its_branch_and_others(
    talk: Conversation,
) -> None:
    await talk.say(None, "q1")
    await talk.save(*talk.chain("q1", "q2", "a2"), refused=("q1", "q2"))
    assert await marked(talk, "a2") == ["q1", "q2"]
    await talk.save(*talk.chain("q1", "q3", "a3"))
    assert await marked(talk, "a3") == ["q1"]
    context = await talk.store.open_turn(talk.query(talk.message("q4", "a3")))
    assert [(m.id, m.refused) for m in context.history] == [
        ("q1", True),
        ("q3", False),
        ("a3", False),
    ]


async def test_a_mark_is_neither_taken_back_nor_given_twice(talk: Conversation) -> None:
    question, answer = talk.chain(None, "q", "a")
    for _ in range(2):
        await talk.save(question, answer, refused=("q", "nothing"))
    await talk.save(question, answer)
    await talk.open(question)
    assert await marked(talk, "a") == ["q"]


async def test_messages_of_a_run_that_waits_are_saved_with_their_marks(talk: Conversation) -> None:
    question, answer = talk.chain(None, "q", "a")
    await talk.store.save_messages(talk.head(), [question, answer])
    refused = question.model_copy(update={"refused": True})
    await talk.store.save_messages(talk.head(), [refused, answer])
    assert await marked(talk, "a") == ["q"]


async def test_a_result_is_marked_like_a_message(talk: Conversation) -> None:
    part = ToolResultPart(tool_call_id="c", tool_name="look", result="x")
    question, answer = talk.chain(None, "q", "a")
    result = talk.message("t", "a", Role.TOOL, part, model_output="x", refused=True)
    await talk.save(question, answer, result, refused=("t",))
    assert await marked(talk, "t") == ["t"]


async def index(stores: Stores, talk: Conversation, *messages: Message) -> None:
    rows = [
        IndexedText(thread_id=talk.id, message_id=m.id, agent="support", text=m.text)
        for m in messages
    ]
    await stores.memory.index_messages(talk.owner, rows)


async def recalled(stores: Stores, talk: Conversation, text: str) -> list[str]:
    query = RecallQuery(agent="support", text=text, now=START)
    return [each.message.id for each in await stores.memory.recall(talk.owner, query)]


async def test_recall_forgets_a_message_that_is_refused_and_takes_it_no_more(
    stores: Stores, talk: Conversation
) -> None:
    lamp = talk.message("q", None, Role.USER, TextPart(text="a red lamp"))
    chair = talk.message("a", "q", Role.ASSISTANT, TextPart(text="a green chair"))
    await talk.save(lamp, chair)
    await index(stores, talk, lamp, chair)
    assert await recalled(stores, talk, "a red lamp") != []
    await talk.save(lamp, chair, refused=("q",))
    assert "q" not in await recalled(stores, talk, "a red lamp")
    await index(stores, talk, lamp)
    assert "q" not in await recalled(stores, talk, "a red lamp")
    assert "a" in await recalled(stores, talk, "a green chair")


async def test_what_a_run_has_pinned_of_a_message_is_gone_once_it_is_refused(
    talk: Conversation,
) -> None:
    await talk.say(None, "q1", "a1")
    query = talk.query(talk.message("q2", "a1")).model_copy(update={"pinned": ("q1", "a1")})
    assert (await talk.store.open_turn(query)).gone == ()
    await talk.save(*talk.chain("a1", "q3", "a3"), refused=("q1",))
    assert (await talk.store.open_turn(query)).gone == ("q1",)


async def test_a_thread_that_is_gone_has_nothing_to_mark(talk: Conversation) -> None:
    messages = await talk.say(None, "q", "a")
    await talk.store.erase(talk.owner, talk.id)
    await talk.save(*messages, refused=("q",))
    assert await talk.path("a") is None

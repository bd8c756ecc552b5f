"""The contract of every store of threads, in memory and on Postgres."""

import base64
import json
from datetime import timedelta
from itertools import pairwise

import pytest

from layover.adapters.store.chains import UnknownParent
from layover.adapters.store.postgres.threads import PostgresThreads
from layover.errors import InvalidRequest
from layover.inmemory.stores.threads import InMemoryThreads
from layover.values.message import ProviderState, Role, TextPart, ToolCallPart, ToolResultPart
from support.worlds.threads import START, Conversation, Stores


@pytest.fixture
def stores(thread_stores: Stores) -> Stores:
    return thread_stores


@pytest.fixture
def talk(stores: Stores, owner: str) -> Conversation:
    return Conversation(stores.threads, owner)


async def test_another_users_messages_are_absent(talk: Conversation) -> None:
    await talk.say(None, "q", "a")
    stranger = Conversation(talk.store, f"{talk.owner}-stranger")
    assert await stranger.store.message(stranger.owner, talk.id, "q") is None
    assert await stranger.store.head(stranger.owner, talk.id) is None
    assert await stranger.path("a") is None


async def test_another_users_erase_erases_nothing(talk: Conversation) -> None:
    await talk.say(None, "q", "a")
    await talk.store.erase(f"{talk.owner}-stranger", talk.id)
    assert await talk.path("a") == ["q", "a"]


async def test_two_users_may_have_the_same_ids(talk: Conversation) -> None:
    other = Conversation(talk.store, f"{talk.owner}-other")
    await talk.say(None, "q", "a")
    await other.say(None, "q", "b")
    assert await talk.path("a") == ["q", "a"]
    assert await other.path("b") == ["q", "b"]
    assert await other.path("a") is None


async def test_a_message_of_another_thread_is_absent(talk: Conversation) -> None:
    await talk.say(None, "q", "a")
    elsewhere = Conversation(talk.store, talk.owner, id="elsewhere")
    await elsewhere.say(None, "other")
    assert await talk.store.message(talk.owner, "elsewhere", "q") is None
    assert await elsewhere.path("a") is None


async def ends(talk: Conversation, leaf_id: str, limit: int, id: str | None = None) -> list[str]:
    """The ids of a branch's last messages."""
    found = await talk.store.newest_messages(talk.owner, id or talk.id, leaf_id, limit)
    return [message.id for message in found]


async def test_the_end_of_what_is_not_there_is_empty(talk: Conversation) -> None:
    await talk.say(None, "q", "a")
    stranger = Conversation(talk.store, f"{talk.owner}-stranger")
    for found in (
        await ends(talk, "nobody", 5),
        await ends(stranger, "a", 5),
        await ends(talk, "a", 5, "elsewhere"),
    ):
        assert found == []


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 100])
async def test_the_end_of_a_branch_has_its_last_messages(talk: Conversation, limit: int) -> None:
    await talk.say(None, "a", "b")
    await talk.say("b", "c", "d")
    await talk.say("b", "e", "f")
    await talk.say("e", "g")
    for leaf, path in (("d", "abcd"), ("f", "abef"), ("g", "abeg"), ("b", "ab")):
        found = await talk.store.newest_messages(talk.owner, talk.id, leaf, limit)
        assert [m.id for m in found] == list(path)[-limit:]
        assert [m.parent_id for m in found] == [None, *path][:-1][-limit:]
        assert found[-1] == (await talk.store.message(talk.owner, talk.id, leaf))


async def test_an_unknown_leaf_has_no_page(talk: Conversation) -> None:
    await talk.say(None, "q")
    assert await talk.path("nobody") is None


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "%",
        "é",
        "bm8",
        base64.urlsafe_b64encode(b"[" * 5000).decode(),
        *(base64.urlsafe_b64encode(c.encode()).decode() for c in ("[]", "{}", '{"d": "1"}')),
        *(base64.urlsafe_b64encode(json.dumps({"d": d}).encode()).decode() for d in (-2, 2**40)),
    ],
)
async def test_a_malformed_cursor_is_refused(talk: Conversation, cursor: str) -> None:
    await talk.say(None, "q")
    with pytest.raises(InvalidRequest):
        await talk.store.messages(talk.owner, talk.id, "q", 10, cursor)


async def test_a_late_turn_finds_an_erased_thread_gone(talk: Conversation) -> None:
    await talk.say(None, "q", "a")
    await talk.store.erase(talk.owner, talk.id)
    assert await talk.open(talk.message("late", "a")) == []
    assert await talk.store.message(talk.owner, talk.id, "late") is None


async def test_a_late_outcome_is_dropped_with_its_thread(talk: Conversation) -> None:
    messages = await talk.say(None, "q")
    await talk.store.erase(talk.owner, talk.id)
    await talk.save(*messages, talk.message("late", "q", Role.ASSISTANT), snapshot={"id": "run"})
    assert await talk.path("late") is None
    assert await talk.path("q") is None


async def test_a_thread_erased_before_it_was_ever_stored_takes_no_late_turn(
    talk: Conversation,
) -> None:
    await talk.store.erase(talk.owner, talk.id)
    await talk.open(talk.message("late", None))
    assert await talk.store.message(talk.owner, talk.id, "late") is None


async def test_a_writer_who_knows_that_the_thread_is_deleted_writes_nothing(
    talk: Conversation,
) -> None:
    assert await talk.open(talk.message("q", None), deleted=True) == []
    await talk.save(talk.message("q", None), deleted=True)
    assert await talk.store.head(talk.owner, talk.id) is None


async def test_an_erased_thread_keeps_a_tombstone_without_words(talk: Conversation) -> None:
    await talk.save(talk.message("q", None), title="Secret", metadata={"secret": 1})
    await talk.store.erase(talk.owner, talk.id)
    await talk.store.erase(talk.owner, talk.id)
    head = await talk.store.head(talk.owner, talk.id)
    assert head is not None
    assert head.deleted
    assert (head.title, head.metadata, head.leaf_id) == (None, {}, None)


async def test_an_unknown_thread_has_no_head(talk: Conversation) -> None:
    assert await talk.store.head(talk.owner, talk.id) is None


async def test_a_repeated_open_changes_nothing(talk: Conversation) -> None:
    await talk.say(None, "q", "a")
    again = talk.message("q2", "a")
    assert await talk.open(again) == ["q", "a"]
    assert await talk.open(again) == ["q", "a"]
    assert await talk.path("q2") == ["q", "a", "q2"]


async def test_a_repeated_save_changes_nothing(talk: Conversation) -> None:
    messages = await talk.say(None, "q", "a", "b")
    await talk.save(*messages)
    await talk.save(*messages[:2])
    assert await talk.path("b") == ["q", "a", "b"]


async def test_an_outcome_may_come_in_parts(talk: Conversation) -> None:
    messages = talk.chain(None, "q", "a", "b", "c")
    await talk.open(messages[0])
    await talk.save(*messages[:2])
    await talk.save(*messages)
    assert await talk.path("c") == ["q", "a", "b", "c"]


async def test_a_message_behind_an_unknown_one_is_refused_and_nothing_is_written(
    talk: Conversation,
) -> None:
    await talk.say(None, "q", "a")
    lost = talk.chain("never-stored", "lost", "answer")
    with pytest.raises(UnknownParent):
        await talk.open(lost[0])
    with pytest.raises(UnknownParent):
        await talk.save(*lost)
    with pytest.raises(UnknownParent):
        await talk.store.save_messages(talk.head(), [*talk.chain("a", "b"), *lost])
    assert await talk.path("a") == ["q", "a"]
    assert [await talk.path(id) for id in ("b", "lost", "answer")] == [None] * 3


async def test_a_message_behind_another_threads_is_refused(talk: Conversation) -> None:
    await talk.say(None, "q", "a")
    other = Conversation(talk.store, talk.owner, id="other")
    with pytest.raises(UnknownParent):
        await other.save(*other.chain("a", "b"))
    assert await other.path("b") is None


async def test_a_late_save_behind_a_taken_place_gets_a_branch_of_its_own(
    talk: Conversation,
) -> None:
    first = talk.chain(None, "q", "a")
    await talk.open(first[0])
    await talk.say("q", "edited", "b")
    await talk.save(*first)
    assert await talk.path("a") == ["q", "a"]
    assert await talk.path("b") == ["q", "edited", "b"]


async def test_regenerating_leaves_the_other_branch_as_it_was(talk: Conversation) -> None:
    await talk.say(None, "q1", "a1")
    await talk.say("a1", "q2", "a2")
    assert await talk.open(talk.message("q2b", "a1")) == ["q1", "a1"]
    await talk.say("q2b", "q3")
    assert await talk.path("a2") == ["q1", "a1", "q2", "a2"]
    assert await talk.path("q3") == ["q1", "a1", "q2b", "q3"]


async def test_branches_of_branches_have_their_own_paths(talk: Conversation) -> None:
    await talk.say(None, "a", "b", "c", "d")
    await talk.say("b", "b1", "b2", "b3")
    await talk.say("b2", "x1", "x2")
    await talk.say("b", "y1")
    await talk.say("x1", "z1")
    assert await talk.path("x2", limit=2) == ["a", "b", "b1", "b2", "x1", "x2"]
    assert await talk.path("z1", limit=1) == ["a", "b", "b1", "b2", "x1", "z1"]
    assert await talk.path("y1") == ["a", "b", "y1"]
    assert await talk.path("b3") == ["a", "b", "b1", "b2", "b3"]
    assert await talk.path("b1") == ["a", "b", "b1"]
    assert await talk.open(talk.message("next", "x2")) == ["a", "b", "b1", "b2", "x1", "x2"]


async def test_a_thread_may_have_several_roots(talk: Conversation) -> None:
    await talk.say(None, "q", "a")
    assert await talk.open(talk.message("other", None)) == []
    assert await talk.path("other") == ["other"]
    assert await talk.path("a") == ["q", "a"]


async def _turns(talk: Conversation, count: int, length: int) -> None:
    """`count` turns of `length` messages: u0, u0.1, u0.2, ..., u1, ..."""
    parent: str | None = None
    for turn in range(count):
        ids = [f"u{turn}", *(f"u{turn}.{n}" for n in range(1, length))]
        await talk.say(parent, *ids)
        parent = ids[-1]


async def test_a_window_that_is_outgrown_begins_at_the_last_user_message_that_leaves_n(
    talk: Conversation,
) -> None:
    await _turns(talk, count=6, length=4)
    history = await talk.open(talk.message("next", "u5.3"), window=6)  # 24 are more than 6 + 3
    assert history[0] == "u4"
    assert len(history) == 8


async def test_a_window_of_exactly_n_and_a_half_does_not_move(talk: Conversation) -> None:
    await _turns(talk, count=3, length=3)
    assert len(await talk.open(talk.message("next", "u2.2"), window=6)) == 9


async def test_a_window_moves_in_steps_and_stays_between_them(talk: Conversation) -> None:
    firsts: list[str] = []
    parent = None
    for turn in range(40):
        question = talk.message(f"q{turn}", parent)
        history = await talk.open(question, window=12)
        assert min(12, 2 * turn) <= len(history) <= 18
        firsts.append(history[0] if history else "q0")
        parent = f"a{turn}"
        await talk.save(question, talk.message(parent, question.id, Role.ASSISTANT))
    moves = sum(a != b for a, b in pairwise(firsts))
    assert 0 < moves <= 40 / 3  # each makes room for N/2 messages


async def test_a_repeated_turn_sees_the_same_window(talk: Conversation) -> None:
    await _turns(talk, count=6, length=4)
    question = talk.message("next", "u5.3")
    assert await talk.open(question, window=6) == await talk.open(question, window=6)


async def test_a_pinned_window_is_read_from_where_it_was(talk: Conversation) -> None:
    await _turns(talk, count=6, length=4)
    query = talk.query(talk.message("next", "u5.3"), window=6).model_copy(
        update={"pinned_depth": 12}
    )
    context = await talk.store.open_turn(query)
    assert (context.history[0].id, context.window_depth) == ("u3", 12)


async def test_a_token_buffer_reads_so_many_messages_at_most(talk: Conversation) -> None:
    await _turns(talk, count=6, length=4)
    query = talk.query(talk.message("next", "u5.3")).model_copy(update={"max_messages": 10})
    assert len((await talk.store.open_turn(query)).history) == 10


async def test_a_token_buffer_reads_a_turn_of_more_messages_whole(talk: Conversation) -> None:
    await _turns(talk, count=3, length=4)
    query = talk.query(talk.message("next", "u2.3")).model_copy(update={"max_messages": 2})
    found = await talk.store.open_turn(query)
    assert [m.id for m in found.history] == ["u2", "u2.1", "u2.2", "u2.3"]
    pinned = query.model_copy(update={"pinned_depth": found.window_depth})
    assert (await talk.store.open_turn(pinned)).history == found.history


async def test_a_turn_longer_than_the_window_is_kept_whole(talk: Conversation) -> None:
    await _turns(talk, count=2, length=40)
    history = await talk.open(talk.message("next", "u1.39"), window=2)
    assert history == ["u1", *(f"u1.{n}" for n in range(1, 40))]


async def test_a_short_thread_is_its_own_history(talk: Conversation) -> None:
    await _turns(talk, count=2, length=2)
    assert await talk.open(talk.message("next", "u1.1")) == ["u0", "u0.1", "u1", "u1.1"]


async def test_history_crosses_into_the_branches_that_the_path_comes_from(
    talk: Conversation,
) -> None:
    await _turns(talk, count=5, length=2)
    await talk.say("u3.1", "fork", "fork.1")
    history = await talk.open(talk.message("next", "fork.1"), window=4)
    assert history == ["u3", "u3.1", "fork", "fork.1"]


async def test_pages_have_a_cursor_only_where_something_follows(talk: Conversation) -> None:
    await talk.say(None, "a", "b", "c", "d")
    first = await talk.store.messages(talk.owner, talk.id, "d", 2, None)
    assert first is not None
    assert [m.id for m in first.items] == ["a", "b"]
    assert first.next_cursor is not None
    second = await talk.store.messages(talk.owner, talk.id, "d", 2, first.next_cursor)
    assert second is not None
    assert [m.id for m in second.items] == ["c", "d"]
    assert second.next_cursor is None


async def test_a_page_behind_the_end_is_empty(talk: Conversation) -> None:
    await talk.say(None, "a", "b", "c", "d")
    first = await talk.store.messages(talk.owner, talk.id, "d", 3, None)
    assert first is not None
    shorter = await talk.store.messages(talk.owner, talk.id, "b", 3, first.next_cursor)
    assert shorter is not None
    assert (shorter.items, shorter.next_cursor) == ((), None)


async def test_the_head_names_the_newest_message_of_all_branches(talk: Conversation) -> None:
    await talk.say(None, "q", "a", "b")
    newest = (await talk.say("q", "edited"))[-1]
    head = await talk.store.head(talk.owner, talk.id)
    assert head is not None
    assert (head.leaf_id, head.last_created_at) == ("edited", newest.created_at)
    assert (head.agent, head.owner, head.deleted) == ("support", talk.owner, False)
    assert head.updated_at == newest.created_at


async def test_of_two_messages_of_one_moment_the_greater_id_is_newer(talk: Conversation) -> None:
    await talk.say(None, "q")
    moment = START + timedelta(days=1)
    for id in ("z", "a"):
        await talk.save(talk.message(id, "q").model_copy(update={"created_at": moment}))
    head = await talk.store.head(talk.owner, talk.id)
    assert head is not None
    assert head.leaf_id == "z"


async def test_the_heads_of_a_user_are_listed_newest_first_without_erased_ones(
    stores: Stores, talk: Conversation
) -> None:
    other, erased = (Conversation(talk.store, talk.owner, id=id) for id in ("other", "erased"))
    for thread in (other, erased):
        await thread.say(None, f"{thread.id}-q")
    await talk.say(None, "q", "a")
    await Conversation(talk.store, f"{talk.owner}-stranger", id="foreign").say(None, "q")
    await talk.store.erase(talk.owner, "erased")
    assert isinstance(stores.threads, InMemoryThreads | PostgresThreads)
    heads = await stores.threads.heads(talk.owner)
    assert [(h.id, h.leaf_id) for h in heads] == [("thread", "a"), ("other", "other-q")]


async def test_a_title_is_not_overwritten_by_none(talk: Conversation) -> None:
    message = talk.message("q", None)
    await talk.open(message, title="Weather")
    await talk.save(message, title=None, updated_at=START + timedelta(days=1))
    head = await talk.store.head(talk.owner, talk.id)
    assert head is not None
    assert head.title == "Weather"


async def test_an_older_head_does_not_undo_a_newer_one(talk: Conversation) -> None:
    message, later = talk.message("q", None), START + timedelta(days=1)
    await talk.open(message, title="New", metadata={"n": 2}, updated_at=later)
    await talk.save(message, title="Old", metadata={"n": 1}, updated_at=START)
    head = await talk.store.head(talk.owner, talk.id)
    assert head is not None
    assert (head.title, head.metadata) == ("New", {"n": 2})


async def test_a_message_comes_back_as_it_was_stored(talk: Conversation) -> None:
    call = ToolCallPart(tool_call_id="c1", tool_name="weather", args={"zebra": 1.5, "a": [None]})
    result = ToolResultPart(tool_call_id="c1", tool_name="weather", result={"t": "é😀"})
    question = talk.message("q", None)
    asked = talk.message("a", "q", Role.ASSISTANT, TextPart(text="\\u0000 is no NUL"), call)
    told = talk.message("t", "a", Role.TOOL, result, model_output="20 °C", token_count=7)
    await talk.save(question, asked, told)
    stored = [await talk.store.message(talk.owner, talk.id, id) for id in ("q", "a", "t")]
    assert stored == [question, asked, told]
    found = stored[2]
    assert found is not None
    assert (found.model_output, found.token_count) == ("20 °C", 7)
    returned = stored[1]
    assert returned is not None
    assert list(returned.tool_calls[0].args) == ["zebra", "a"]


async def test_an_input_is_stored_with_the_tokens_that_it_was_opened_with(
    talk: Conversation,
) -> None:
    await talk.open(talk.message("q", None, token_count=7))
    await talk.save(talk.message("q", None, token_count=9), talk.message("a", "q", Role.ASSISTANT))
    context = await talk.store.open_turn(talk.query(talk.message("next", "a")))
    assert [m.token_count for m in context.history] == [7, None]


async def test_the_history_has_what_the_provider_wants_back(talk: Conversation) -> None:
    state = ProviderState(
        provider="api.example.com",
        model="m",
        fields={
            "reasoning_content": "größe \U0001f600",
            "reasoning_details": [{"z": 1, "a": None}],
        },
        calls={"c1": {"extra_content": {"google": {"thought_signature": "a/+=="}}}},
        left_out={"m": ("file:f1", "text:msg_1")},
    )
    asked = talk.message("a", "q", Role.ASSISTANT, provider_state=state)
    await talk.save(talk.message("q", None), asked)
    context = await talk.store.open_turn(talk.query(talk.message("next", "a")))
    returned = context.history[1].provider_state
    assert (context.history[0].provider_state, returned) == (None, state)
    assert returned is not None
    assert list(returned.fields["reasoning_details"][0]) == ["z", "a"]


async def test_the_history_has_what_the_model_saw(talk: Conversation) -> None:
    told = talk.message("t", "q", Role.CUSTOM, model_output="20 °C", token_count=7)
    await talk.save(talk.message("q", None), told)
    page = await talk.store.messages(talk.owner, talk.id, "t", 10, None)
    assert page is not None
    assert page.items[1] == told
    assert page.items[1].model_output == "20 °C"


@pytest.mark.parametrize("text", ["\x00", "a\x00\x00b", "\\\x00", "\ud800", "😀\udfff"])
async def test_text_that_postgres_cannot_hold_does_not_fail_the_run(
    talk: Conversation, text: str
) -> None:
    odd = ToolResultPart.model_construct(
        type="tool_result", tool_call_id="c", tool_name="x", result={text: [text]}, is_error=False
    )
    message = talk.message("q", None, Role.TOOL, odd).model_copy(update={"model_output": text})
    await talk.save(message, metadata={"text": text}, snapshot={"text": text})
    assert await talk.path("q") == ["q"]


async def test_a_number_that_json_does_not_know_does_not_fail_the_run(talk: Conversation) -> None:
    odd = ToolResultPart(tool_call_id="c", tool_name="x", result=[float("nan"), float("inf")])
    await talk.save(talk.message("q", None, Role.TOOL, odd), snapshot={"x": float("nan")})
    assert await talk.path("q") == ["q"]


async def test_a_run_that_is_over_is_read_with_its_tree_and_its_messages(
    talk: Conversation,
) -> None:
    given, answer = talk.chain(None, "q", "a")
    tree = {"version": 1, "message_ids": ["q", "a"], "run": {"text": "ü"}}
    await talk.save(given, answer, snapshot=tree)
    past = await talk.store.past_run(talk.owner, "run")
    assert past is not None
    assert (past.thread_id, past.tree) == (talk.id, tree)
    assert [m.id for m in past.messages] == ["q", "a"]
    assert await talk.store.past_run(f"{talk.owner}-stranger", "run") is None
    assert await talk.store.past_run(talk.owner, "another") is None
    await talk.store.erase(talk.owner, talk.id)
    assert await talk.store.past_run(talk.owner, "run") is None

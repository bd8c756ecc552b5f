"""Chats have ids: a message that is sent again, an edited one, and another answer."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from functions.api.app import answer
from functions.api.user_messages import ui_message
from integration.api.kit import Api, http_event
from integration.api.test_ag_ui import ask as ask_ag_ui
from integration.api.test_chat import chat, chunks
from layover.errors import DatabaseWaking
from layover.inmemory.stores.threads import InMemoryThreads
from layover.plugins.fronts.chat.start import ChatTurn, edit, regenerate, say
from layover.plugins.fronts.chat.threads import chat_thread
from layover.records.threads import thread_id_of
from layover.runs.finish import last_events
from layover.values.client_ids import shown_id, with_client_id
from layover.values.deployment.access import Actor
from layover.values.message import FilePart, Message
from layover.values.runs.run import FinishReason, Outcome, RunMeta, Status
from support.worlds.services import ANN, BOB
from support.worlds.sockets import SocketBench

ODD = [
    "/",
    "a b",
    "\u0000",
    "é" * 3,
    "msg_",
    "msg_none",
    "run_1",
    "~",
    "x" * 1000,
    "\ud800",
    "m1~m1",
]
PICTURE = "data:image/png;base64,aGk="


@pytest.fixture
def world() -> SocketBench:
    return SocketBench()


def user(text: str, id: str = "u1", *more: dict[str, Any]) -> dict[str, Any]:
    return {"id": id, "role": "user", "parts": [{"type": "text", "text": text}, *more]}


def run_of(api: Api, answered: dict[str, Any]) -> str:
    async def first() -> bytes:
        pieces = answered["body"]
        piece: bytes = await anext(pieces)
        await pieces.aclose()
        return piece

    block = api.do(first()).decode().split("\n\n")[0].removeprefix("data: ")
    return str(json.loads(block)["messageId"])


def runs(api: Api, world: SocketBench, chat_id: str = "chat-1", owner: str = ANN) -> list[RunMeta]:
    """All runs of a chat, oldest first."""
    thread_id = thread_id_of(owner, chat_id)
    ids = api.do(world.journal.runs.page_ids(owner, thread_id, 99, None)).items
    found = [api.do(world.journal.runs.get(owner, id)) for id in reversed(ids)]
    return [meta for meta in found if meta is not None]


def done(api: Api, world: SocketBench, text: str, id: str, **more: Any) -> RunMeta:
    """A message that was answered."""
    world.clock.advance(timedelta(seconds=1))
    run_id = run_of(api, chat(api, user(text, id), **more))
    api.do(world.finish(run_id, f"to {text}"))
    return next(meta for meta in runs(api, world) if meta.id == run_id)


def again(api: Api, *messages: Any, message_id: str | None = None, **more: Any) -> dict[str, Any]:
    return chat(api, *messages, trigger="regenerate-message", messageId=message_id, **more)


def edited(api: Api, message: Any, message_id: str | None = None, **more: Any) -> dict[str, Any]:
    return chat(api, message, messageId=message_id or message["id"], **more)


# The same message again


def test_same_id_with_other_parts_is_another_message(api: Api, world: SocketBench) -> None:
    first = done(api, world, "order a lamp", "u1")
    second = done(api, world, "order a sofa", "u1")
    assert second.id != first.id
    assert second.input.parent_id not in (None, first.input.parent_id)
    # The id stands for the newest message with it.
    assert run_of(api, chat(api, user("order a sofa"))) == second.id
    assert len(runs(api, world)) == 2
    third = done(api, world, "order a desk", "u1")
    assert [m.id for m in runs(api, world)] == [first.id, second.id, third.id]
    assert chat(api, user("order a lamp"))["statusCode"] == 409
    assert len(runs(api, world)) == 3


def test_same_id_with_other_parts_waits_for_the_run_before_it(api: Api, world: SocketBench) -> None:
    chat(api, user("order a lamp"))
    refused = chat(api, user("order a sofa"))
    assert refused["statusCode"] == 409
    assert "sofa" not in refused["body"]
    assert len(runs(api, world)) == 1


@pytest.mark.parametrize("is_over", [False, True])
def test_same_message_gets_the_same_run_and_its_whole_stream(
    api: Api, world: SocketBench, is_over: bool
) -> None:
    first = run_of(api, chat(api, user("order a lamp")))
    if is_over:
        api.do(world.finish(first, "ordered"))
    answered = chat(api, user("order a lamp"))
    if not is_over:
        api.do(world.finish(first, "ordered"))
    found = chunks(api, answered)
    assert (found[0]["messageId"], found[-1]["type"]) == (first, "finish")
    assert len(runs(api, world)) == 1


def test_message_that_was_answered_long_ago_still_starts_nothing(
    api: Api, world: SocketBench
) -> None:
    done(api, world, "order a lamp", "u1")
    world.clock.advance(timedelta(days=29))
    chat(api, user("order a lamp"))
    assert len(runs(api, world)) == 1


def test_message_whose_run_has_expired_is_told_as_answered(api: Api, world: SocketBench) -> None:
    run = done(api, world, "order a lamp", "u1")
    api.do(world.journal.erasure.erase_run(ANN, run.thread_id, run.id))
    gone = chat(api, user("order a lamp"))
    assert gone["statusCode"] == 404
    assert "expired" in json.loads(gone["body"])["detail"]
    assert runs(api, world) == []


def test_an_id_is_its_chats_and_its_users(api: Api, world: SocketBench) -> None:
    first = run_of(api, chat(api, user("hello")))
    others = [
        run_of(api, chat(api, user("hello"), id="chat-2")),
        run_of(api, chat(api, user("hello"), sub=BOB)),
    ]
    assert first not in others
    thread_id = thread_id_of(ANN, "chat-1")
    assert chat(api, user("hello"), id=thread_id, sub=BOB)["statusCode"] == 404
    assert run_of(api, chat(api, user("hello"), id=thread_id)) == first


@pytest.mark.parametrize("id", ODD, ids=range(len(ODD)))
def test_odd_ids_are_ids(api: Api, world: SocketBench, id: str) -> None:
    first = run_of(api, chat(api, user("hello", id)))
    assert run_of(api, chat(api, user("hello", id))) == first
    api.do(world.finish(first))
    second = run_of(api, edited(api, user("goodbye", id)))
    assert run_of(api, edited(api, user("goodbye", id))) == second
    api.do(world.finish(second))
    third = run_of(api, again(api, user("goodbye", id)))
    assert len({first, second, third}) == len(runs(api, world)) == 3
    assert {meta.input.parent_id for meta in runs(api, world)} == {None}


def test_same_file_is_kept_once(api: Api, world: SocketBench) -> None:
    file = {"type": "file", "mediaType": "image/png", "filename": "a.png", "url": PICTURE}
    first = run_of(api, chat(api, user("look", "u1", file)))
    stored = len(api.do(world.runtime.blobs.keys("")))
    assert run_of(api, chat(api, user("look", "u1", file))) == first
    assert len(api.do(world.runtime.blobs.keys(""))) == stored
    other = {**file, "url": "data:image/png;base64,aG8="}
    assert chat(api, user("look", "u1", other))["statusCode"] == 409


def test_message_without_an_id_is_a_new_one_each_time(api: Api, world: SocketBench) -> None:
    for _ in range(2):
        done(api, world, "hello", "")
    assert len(runs(api, world)) == 2


def test_message_that_was_refused_is_not_remembered(api: Api, world: SocketBench) -> None:
    working = run_of(api, chat(api, user("slow", "other")))
    assert chat(api, user("hello"))["statusCode"] == 409
    api.do(world.finish(working))
    assert run_of(api, chat(api, user("hello"))) == runs(api, world)[-1].id != working


# A request's key


def keyed(api: Api, key: str, *messages: Any, **more: Any) -> dict[str, Any]:
    given = {"id": "chat-1", "messages": list(messages), "trigger": "submit-message", **more}
    event = http_event("POST", "/chat/support", json.dumps(given), {"Idempotency-Key": key}, ANN)
    return answer(event, None, api.host, streams=True)


def test_key_with_another_request_is_refused(api: Api, world: SocketBench) -> None:
    run_of(api, keyed(api, "k", user("hello", "")))
    assert keyed(api, "k", user("goodbye", ""))["statusCode"] == 409
    assert keyed(api, "k", user("hello", ""), id="chat-2")["statusCode"] == 409
    assert keyed(api, "", user("hello", ""))["statusCode"] == 422


@pytest.mark.parametrize(("one", "other"), [("", ""), ("u1", "u2"), ("u1", "u1"), ("", "u1")])
def test_same_key_is_the_same_run_whatever_the_message_is_called(
    api: Api, world: SocketBench, one: str, other: str
) -> None:
    first = run_of(api, keyed(api, "k", user("hello", one)))
    assert run_of(api, keyed(api, "k", user("hello", other))) == first
    assert len(runs(api, world)) == 1


def test_key_of_another_answer_is_kept(api: Api, world: SocketBench) -> None:
    done(api, world, "hello", "u1")
    asked = {"trigger": "regenerate-message", "messageId": "u1"}
    second = run_of(api, keyed(api, "k", user("hello"), **asked))
    api.do(world.finish(second))
    assert run_of(api, keyed(api, "k", user("hello"), **asked)) == second


# Edits


def test_edit_of_an_unknown_message_under_another_id_is_refused(
    api: Api, world: SocketBench
) -> None:
    assert edited(api, user("hello", "u2"), "u1")["statusCode"] == 404
    other = run_of(api, chat(api, user("hello", "u1"), sub=BOB))
    for foreign in ("u1", other):
        assert edited(api, user("hello", "u2"), foreign)["statusCode"] == 404
    assert runs(api, world) == []


def test_edit_of_a_message_that_a_run_works_on_is_refused(api: Api, world: SocketBench) -> None:
    first = run_of(api, chat(api, user("hello")))
    assert edited(api, user("goodbye"))["statusCode"] == 409
    api.do(world.finish(first))
    second = run_of(api, again(api, user("goodbye")))
    meta = runs(api, world)[-1]
    assert (meta.id, meta.input.text, meta.input.parent_id) == (second, "goodbye", None)


@pytest.mark.parametrize("at", [0, 1, 2])
def test_edit_goes_on_from_what_was_before_the_message(
    api: Api, world: SocketBench, at: int
) -> None:
    before = [done(api, world, f"text {n}", f"u{n}") for n in range(3)]
    second = run_of(api, edited(api, user("other", f"u{at}")))
    meta = runs(api, world)[-1]
    assert (meta.id, meta.input.text) == (second, "other")
    assert meta.input.parent_id == before[at].input.parent_id
    api.do(world.finish(second, "to other"))
    third = done(api, world, "next", "u9")
    texts = [
        m["content"][0]["text"]
        for m in api.get(f"/threads/{third.thread_id}/messages").json["items"]
    ]
    kept = [text for n in range(at) for text in (f"text {n}", f"to text {n}")]
    assert texts == [*kept, "other", "to other", "next", "to next"]


def test_repeated_edit_is_one_run(api: Api, world: SocketBench) -> None:
    done(api, world, "hello", "u1")
    second = run_of(api, edited(api, user("goodbye")))
    assert run_of(api, edited(api, user("goodbye"))) == second
    api.do(world.finish(second))
    assert run_of(api, edited(api, user("goodbye"))) == second
    assert run_of(api, chat(api, user("goodbye"))) == second
    # A repetition of what it said before, which comes late.
    assert chat(api, user("hello"))["statusCode"] == 409
    assert len(runs(api, world)) == 2


def test_edit_back_to_the_first_text_is_another_run(api: Api, world: SocketBench) -> None:
    first = done(api, world, "hello", "u1")
    second = run_of(api, edited(api, user("goodbye")))
    api.do(world.finish(second))
    third = run_of(api, edited(api, user("hello")))
    assert third not in (first.id, second)


def test_edit_that_changes_nothing_drops_what_came_after(api: Api, world: SocketBench) -> None:
    first = done(api, world, "hello", "u1")
    done(api, world, "and?", "u2")
    again_ = run_of(api, edited(api, user("hello")))
    assert again_ != first.id
    assert runs(api, world)[-1].input.parent_id is None


def test_edit_under_a_new_id_is_one_run(api: Api, world: SocketBench) -> None:
    first = done(api, world, "hello", "u1")
    second = run_of(api, edited(api, user("goodbye", "u2"), "u1"))
    assert run_of(api, edited(api, user("goodbye", "u2"), "u1")) == second
    assert edited(api, user("welcome", "u2"), "u1")["statusCode"] == 409
    assert runs(api, world)[-1].input.parent_id == first.input.parent_id
    assert len(runs(api, world)) == 2


def test_edit_of_a_message_that_no_run_has_is_a_new_message(api: Api, world: SocketBench) -> None:
    first = done(api, world, "hello", "u1")
    run_id = run_of(api, edited(api, user("and?", "u2")))
    meta = runs(api, world)[-1]
    assert meta.id == run_id
    assert meta.input.parent_id not in (None, first.input.parent_id)
    assert run_of(api, edited(api, user("and?", "u2"))) == run_id


def test_edit_of_a_message_with_a_file_has_its_own_files(api: Api, world: SocketBench) -> None:
    file = {"type": "file", "mediaType": "image/png", "filename": "a.png", "url": PICTURE}
    first = run_of(api, chat(api, user("look", "u1", file)))
    api.do(world.finish(first))
    kept = runs(api, world)[0].input.content[1]
    assert isinstance(kept, FilePart)
    named = {**file, "url": f"/files/{kept.file_id}"}
    second = run_of(api, edited(api, user("look again", "u1", named)))
    assert [p for p in runs(api, world)[1].input.content if isinstance(p, FilePart)] == [kept]
    api.do(world.finish(second))
    run_of(api, edited(api, user("no picture")))
    assert len(runs(api, world)[2].input.content) == 1


def test_message_of_the_plain_api_can_be_edited_by_its_own_id(api: Api, world: SocketBench) -> None:
    thread = api.do(world.thread())
    run = api.do(world.run(thread.id, "hello"))
    api.do(world.finish(run.id))
    first = api.do(world.journal.runs.get(ANN, run.id))
    assert first is not None
    second = run_of(api, edited(api, user("goodbye", first.input.id), id=thread.id))
    assert run_of(api, edited(api, user("goodbye", first.input.id), id=thread.id)) == second
    meta = api.do(world.journal.runs.get(ANN, second))
    assert meta is not None
    assert (meta.input.text, meta.input.parent_id) == ("goodbye", None)


def test_message_can_be_edited_after_its_run_has_expired(api: Api, world: SocketBench) -> None:
    before = done(api, world, "hello", "u1")
    run = done(api, world, "and?", "u2")
    for meta in (before, run):
        api.do(world.journal.erasure.erase_run(ANN, run.thread_id, meta.id))
    run_of(api, edited(api, user("and now?", "u2")))
    assert runs(api, world)[0].input.parent_id == run.input.parent_id is not None


def test_answers_to_approvals_are_read_where_a_question_follows_them(
    api: Api, world: SocketBench
) -> None:
    run, waiting = api.do(world.suspended())
    approval = {"id": f"1:{run.id}:c1", "approved": True}
    part = {"type": "tool-refund", "state": "approval-responded", "approval": approval}
    responded = {"id": run.id, "role": "assistant", "parts": [part]}
    answered = chat(api, responded, user("and?"), id=run.thread_id, messageId=run.id)
    assert run_of(api, answered) == run.id
    call = api.do(world.journal.runs.call(ANN, run.id, waiting.key))
    assert call is not None
    assert call.decision is not None


# Another answer


def test_another_answer_to_what_is_not_there_is_refused(api: Api, world: SocketBench) -> None:
    assert again(api)["statusCode"] == 404
    other = run_of(api, chat(api, user("hello"), sub=BOB))
    assert again(api, message_id=other)["statusCode"] == 404
    assert again(api, message_id="u1")["statusCode"] == 404


@pytest.mark.parametrize("names", ["nothing", "the question", "an id of the page's own"])
def test_question_that_was_refused_is_answered_later(
    api: Api, world: SocketBench, names: str
) -> None:
    done(api, world, "Norway?", "u1")
    working = run_of(api, chat(api, user("slow", "other tab")))
    asked = [user("Norway?", "u1"), user("Italy?", "u2")]
    assert chat(api, *asked)["statusCode"] == 409
    api.do(world.finish(working))
    id = {"nothing": None, "the question": "u2"}.get(names, "page-7")
    run_id = run_of(api, again(api, *asked, message_id=id))
    assert (runs(api, world)[-1].id, runs(api, world)[-1].input.text) == (run_id, "Italy?")
    # Twice at once: the second request finds the run of the first.
    assert run_of(api, again(api, *asked, message_id=id)) == run_id
    assert run_of(api, chat(api, *asked)) == run_id


@pytest.mark.parametrize("names", ["nothing", "the question", "the answer"])
def test_another_answer_is_a_branch_beside_the_first(
    api: Api, world: SocketBench, names: str
) -> None:
    done(api, world, "Norway?", "u1")
    first = done(api, world, "Italy?", "u2")
    id = {"nothing": None, "the question": "u2"}.get(names, first.id)
    second = run_of(api, again(api, user("Italy?", "u2"), message_id=id))
    meta = runs(api, world)[-1]
    assert (meta.id, meta.input.text) == (second, "Italy?")
    assert meta.input.parent_id == first.input.parent_id
    assert shown_id(meta.input.id) == "u2"
    # While it works, and with the id of the answer before: the same.
    assert run_of(api, again(api, user("Italy?", "u2"), message_id=id)) == second
    api.do(world.finish(second))
    if names == "the answer":
        assert run_of(api, again(api, user("Italy?", "u2"), message_id=first.id)) == second
    third = run_of(api, again(api, user("Italy?", "u2")))
    assert third not in (first.id, second)


def test_question_of_a_client_without_ids_is_told_from_the_newest_by_its_text(
    api: Api, world: SocketBench
) -> None:
    first = done(api, world, "Norway?", "")
    second = run_of(api, again(api, user("Norway?", "")))
    assert runs(api, world)[-1].input.parent_id == first.input.parent_id
    api.do(world.finish(second))
    run_of(api, again(api, user("Italy?", "")))
    assert runs(api, world)[-1].input.text == "Italy?"
    assert runs(api, world)[-1].input.parent_id is not None


def test_older_answer_can_be_given_again(api: Api, world: SocketBench) -> None:
    first = done(api, world, "Norway?", "u1")
    second = run_of(api, edited(api, user("Italy?")))
    api.do(world.finish(second))
    run_of(api, again(api, message_id=first.id))
    assert runs(api, world)[-1].input.text == "Norway?"


def test_another_answer_is_given_after_its_run_has_expired(api: Api, world: SocketBench) -> None:
    first = done(api, world, "Norway?", "u1")
    api.do(world.journal.erasure.erase_run(ANN, first.thread_id, first.id))
    run_of(api, again(api, user("Norway?", "u1"), message_id=first.id))
    assert runs(api, world)[0].input.text == "Norway?"


async def at_once(request: Callable[[], Awaitable[str]]) -> set[str]:
    return set(await asyncio.gather(*(request() for _ in range(8))))


def test_one_of_many_requests_at_once_starts_the_run(api: Api, world: SocketBench) -> None:
    runtime, hello = world.runtime, ui_message("u1", user("hello")["parts"])
    head = api.do(chat_thread(runtime, ANN, "support", "chat-1"))
    [first] = api.do(at_once(lambda: say(ChatTurn(runtime, Actor(sub=ANN), head), hello)))
    api.do(world.finish(first))
    goodbye = ui_message("u1", user("goodbye")["parts"])
    head = api.do(chat_thread(runtime, ANN, "support", "chat-1"))
    [second] = api.do(at_once(lambda: edit(ChatTurn(runtime, Actor(sub=ANN), head), goodbye, "u1")))
    api.do(world.finish(second))
    head = api.do(chat_thread(runtime, ANN, "support", "chat-1"))
    [third] = api.do(
        at_once(lambda: regenerate(ChatTurn(runtime, Actor(sub=ANN), head), second, None))
    )
    assert [meta.id for meta in runs(api, world)] == [first, second, third]


# AG-UI


def ag_ui_run(api: Api, **more: Any) -> str:
    answered = ask_ag_ui(api, **more)
    assert answered["statusCode"] == 200, answered["body"]

    async def first() -> bytes:
        piece: bytes = await anext(answered["body"])
        await answered["body"].aclose()
        return piece

    block = api.do(first()).decode().split("\n\n")[0].removeprefix("data: ")
    return str(json.loads(block)["metadata"]["layover_run_id"])


def test_ag_ui_message_is_one_run_whatever_run_the_client_calls_it(
    api: Api, world: SocketBench
) -> None:
    first = ag_ui_run(api)
    assert ag_ui_run(api, runId="r2") == first
    api.do(world.finish(first))
    context = [{"description": "now", "value": "12:01"}]
    assert ag_ui_run(api, runId="r3", context=context) == first
    other = [{"id": "m1", "role": "user", "content": "goodbye"}]
    assert ag_ui_run(api, messages=other) != first


async def cancelled(world: SocketBench, run_id: str) -> None:
    """The run ends by a cancel, before its model said anything."""
    log = await world.take(run_id)
    message = log.snapshot.meta.input
    outcome = Outcome(
        status=Status.CANCELLED,
        finish_reason=FinishReason.CANCELLED,
        leaf_id=message.id,
        last_created_at=message.created_at,
    )
    await log.end(outcome, *last_events(world.runtime, outcome, ()))


def test_ag_ui_message_whose_run_was_cancelled_is_answered_again(
    api: Api, world: SocketBench
) -> None:
    first = ag_ui_run(api)
    api.do(cancelled(world, first))
    meta = api.do(world.journal.runs.get(ANN, first))
    assert meta is not None
    second = ag_ui_run(api, runId="r2")
    assert second != first
    assert runs(api, world, "t1")[-1].input.parent_id == meta.input.parent_id


class Waking(InMemoryThreads):
    """A database that wakes while it is asked for a message."""

    async def message(self, owner: str, thread_id: str, message_id: str) -> Message | None:
        raise DatabaseWaking("it wakes")


def test_edit_that_a_waking_database_refused_is_answered_later(
    api: Api, world: SocketBench
) -> None:
    run = done(api, world, "hello", "u1")
    done(api, world, "and?", "u2")
    api.do(world.journal.erasure.erase_run(ANN, run.thread_id, run.id))
    awake = world.runtime
    world.runtime = replace(awake, threads=Waking())
    assert edited(api, user("goodbye"))["statusCode"] == 503
    world.runtime = awake
    run_of(api, again(api, user("goodbye")))
    assert runs(api, world)[-1].input.text == "goodbye"


@pytest.mark.parametrize("id", ["u1", "a.b:c-d_E", "x" * 64])
def test_plain_id_is_read_back(id: str) -> None:
    assert shown_id(with_client_id("msg_1", id)) == id


@pytest.mark.parametrize("id", [None, *(odd for odd in ODD if not odd.startswith(("msg", "run")))])
def test_odd_id_leaves_the_messages_own(id: str | None) -> None:
    assert shown_id(with_client_id("msg_1", id)) == "msg_1"

"""A chat's messages as a page loads them: what they show, whose they are, and what waits."""

import json
from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel

from functions.api.app import answer
from integration.api.kit import Api, http_event
from integration.api.test_chat import chat, chunks, responded
from integration.api.test_chat_ids import done, edited, run_of, user
from layover import Agent, ToolContext, tool
from layover.engine.time_left import NoDeadline
from layover.plugins.fronts.protocols.ui_history import parts_of
from layover.runs.accept import StartRun, start_run
from layover.runs.turn import turn
from layover.testing import ScriptedModel, call, say
from layover.testing import calls as ask_for
from layover.values.deployment.access import Actor
from layover.values.message import FilePart, InputPart, TextPart
from layover.values.runs.payload import TurnPayload
from support.worlds.services import ANN, BOB
from support.worlds.sockets import SocketBench

Json = dict[str, Any]


class Slot(BaseModel):
    slot: str


@tool(needs_approval=True)
def refund(order: str) -> str:
    """Refund."""
    return f"refunded {order}"


@tool
def look(key: str) -> dict[str, str]:
    """Look."""
    if key == "none":
        raise LookupError("no none")
    return {"key": key}


@tool(suspend=Slot, resume=Slot)
def book(ctx: ToolContext) -> str:
    """Book."""
    if ctx.resume is None:
        return ctx.suspend(Slot(slot="9:00"))
    return "booked"


CLERK = Agent("clerk", instructions="clerk", tools=[refund])
DESK = Agent(
    "desk",
    instructions="desk",
    tools=[refund, look, book, CLERK.as_tool("Ask the clerk.")],
    tool_concurrency=2,
)


@pytest.fixture
def world() -> SocketBench:
    world = SocketBench()
    support = Agent("support", instructions="support")
    world.agents = {"desk": DESK, "support": support, "clerk": CLERK}
    return world


def loaded(
    api: Api, chat_id: str = "chat-1", agent: str = "desk", sub: str = ANN, **query: Any
) -> tuple[int, Any]:
    """The status and the body of what a page loads."""
    asked = "&".join(f"{name}={value}" for name, value in query.items())
    event = http_event("GET", f"/chat/{agent}/{chat_id}/messages?{asked}", None, {}, sub)
    answered = answer(event, None, api.host)
    return answered["statusCode"], json.loads(answered["body"])


def items(api: Api, chat_id: str = "chat-1", agent: str = "desk", **query: Any) -> list[Json]:
    status, body = loaded(api, chat_id, agent, **query)
    assert status == 200, body
    found: list[Json] = body["items"]
    return found


def asked(api: Api, world: SocketBench, script: list[Any], text: str, id: str = "u1") -> str:
    """A message, as far as its run gets without a person; the run."""
    world.runtime = replace(world.runtime, model=ScriptedModel(script))
    run_id = run_of(api, chat(api, user(text, id), agent="desk"))
    drive(api, world, run_id)
    return run_id


def drive(api: Api, world: SocketBench, run_id: str) -> str:
    payload = TurnPayload(owner=ANN, run_id=run_id, execution=f"{run_id}-1")
    return str(api.do(turn(world.runtime, payload, NoDeadline()))["status"])


def shown_by_stream(api: Api, run_id: str) -> list[Json]:
    """The parts that the SDK's client makes of a run's stream."""
    again = chat(api, user("any", "u1"), agent="desk")
    return parts_of(chunks(api, again))


def kinds(message: Json) -> list[str]:
    return [part["type"] for part in message["parts"]]


def calls(message: Json) -> list[Json]:
    return [part for part in message["parts"] if "toolCallId" in part]


# Whose they are


def test_chat_under_which_nothing_was_said_is_empty(api: Api) -> None:
    assert loaded(api, "nobody") == (200, {"items": [], "next_cursor": None})


def test_another_users_chat_is_not_there(api: Api, world: SocketBench) -> None:
    run = done(api, world, "hello", "u1", agent="desk")
    assert len(items(api, run.thread_id)) == 2
    for chat_id in (run.thread_id, "thread_none"):
        assert loaded(api, chat_id, sub=BOB)[0] == 404
    assert loaded(api, sub=BOB) == (200, {"items": [], "next_cursor": None})


def test_chat_with_another_agent_is_refused(api: Api, world: SocketBench) -> None:
    done(api, world, "hello", "u1", agent="desk")
    assert loaded(api, agent="clerk")[0] == 409
    assert loaded(api, agent="nobody")[0] == 422


def test_deleted_chat_is_empty(api: Api, world: SocketBench) -> None:
    run = done(api, world, "hello", "u1", agent="desk")
    api.send("DELETE", f"/threads/{run.thread_id}")
    assert items(api) == []
    assert loaded(api, run.thread_id)[0] == 404


@pytest.mark.parametrize("query", [{"limit": 0}, {"limit": 101}, {"cursor": "x"}])
def test_page_that_cannot_be_is_refused(api: Api, world: SocketBench, query: Json) -> None:
    done(api, world, "hello", "u1", agent="desk")
    assert loaded(api, **query)[0] == 422


# What waits


def test_page_without_messages_goes_on_with_the_approval_that_waits(
    api: Api, world: SocketBench
) -> None:
    asks = call("refund", tool_call_id="c1", order="o1")
    run_id = asked(api, world, [asks, say("Done.")], "refund o1")
    event = http_event("GET", "/chat/desk/chat-1/stream", None, {}, ANN)
    found = chunks(api, answer(event, None, api.host, streams=True))
    assert found[0]["messageId"] == run_id
    assert parts_of(found) == items(api)[1]["parts"]
    assert parts_of(found)[-1]["state"] == "approval-requested"
    assert found[-1]["finishReason"] == "tool-calls"


@pytest.mark.parametrize("in_sub_agent", [False, True])
def test_approval_that_waits_can_be_given_after_a_reload(
    api: Api, world: SocketBench, in_sub_agent: bool
) -> None:
    asks = call("refund", tool_call_id="c1", order="o1")
    script: list[Any] = [asks, say("Done."), say("All done.")]
    if in_sub_agent:
        script.insert(0, call("clerk", tool_call_id="c0", input="refund o1"))
    run_id = asked(api, world, script, "refund o1")
    question, waiting = items(api)
    assert (question["id"], question["role"]) == ("u1", "user")
    assert (waiting["id"], waiting["role"]) == (run_id, "assistant")
    part = calls(waiting)[-1]
    assert (part["type"], part["state"]) == ("tool-refund", "approval-requested")
    assert (part["input"], part["approval"]) == (
        {"order": "o1"},
        {"id": f"1:{run_id}:c1"},
    )
    answered = chat(api, question, {**waiting, "parts": decided(waiting)}, agent="desk")
    assert answered["statusCode"] == 200, answered["body"]
    assert drive(api, world, run_id) == "over"
    settled = calls(items(api)[1])
    assert {part["state"] for part in settled} == {"output-available"}


def decided(message: Json) -> list[Json]:
    """Its parts, with a person's consent."""

    def answer_in(part: Json) -> Json:
        if part.get("state") != "approval-requested":
            return part
        approval = {**part["approval"], "approved": True}
        return {**part, "state": "approval-responded", "approval": approval}

    return [answer_in(part) for part in message["parts"]]


def test_each_of_several_approvals_waits_until_it_is_given(api: Api, world: SocketBench) -> None:
    both = ask_for(
        call("refund", tool_call_id="c1", order="o1"), call("refund", tool_call_id="c2", order="o2")
    )
    run_id = asked(api, world, [both, say("Done.")], "refund both")
    assert [part["state"] for part in calls(items(api)[1])] == ["approval-requested"] * 2
    api.post(f"/runs/{run_id}/tool-calls/c1/approve", {"attempt": 1, "reason": "because"})
    first, second = calls(items(api)[1])
    assert (first["state"], first["approval"]) == (
        "approval-responded",
        {"id": f"1:{run_id}:c1", "approved": True, "reason": "because"},
    )
    assert second["state"] == "approval-requested"
    answered = {**items(api)[1], "parts": decided(items(api)[1])}
    assert chat(api, answered, agent="desk")["statusCode"] == 200
    assert drive(api, world, run_id) == "over"
    assert {part["state"] for part in calls(items(api)[1])} == {"output-available"}


def test_call_that_waits_for_data_is_shown_as_pending(api: Api, world: SocketBench) -> None:
    run_id = asked(api, world, [call("book", tool_call_id="c1"), say("Done.")], "book")
    [pending] = [p for p in items(api)[1]["parts"] if p["type"] == "data-layover-pending"]
    assert pending["data"]["payload"] == {"slot": "9:00"}
    assert pending["data"]["run_id"] == run_id
    assert "decision" not in pending["data"]
    api.post(f"/runs/{run_id}/tool-calls/c1/resume", {"attempt": 1, "data": {"slot": "9:00"}})
    [answered] = [p for p in items(api)[1]["parts"] if p["type"] == "data-layover-pending"]
    assert answered == {**pending, "data": {**pending["data"], "decision": "resumed"}}


@pytest.mark.parametrize("is_over", [True, False])
def test_what_a_person_said_to_a_request_is_shown_with_its_call(
    api: Api, world: SocketBench, is_over: bool
) -> None:
    both = ask_for(
        call("refund", tool_call_id="c1", order="o1"), call("refund", tool_call_id="c2", order="o2")
    )
    again = call("refund", tool_call_id="c3", order="o3")
    run_id = asked(api, world, [both, say("Done.") if is_over else again], "refund both")
    for call_id, verdict in (("c1", "approve"), ("c2", "deny")):
        body = {"attempt": 1, "reason": f"to {verdict}"}
        assert api.post(f"/runs/{run_id}/tool-calls/{call_id}/{verdict}", body).status == 202
    drive(api, world, run_id)
    found = {part["toolCallId"]: part for part in calls(items(api)[1])}
    id = f"1:{run_id}"
    assert (found["c1"]["state"], found["c2"]["state"]) == ("output-available", "output-denied")
    approved = {"id": f"{id}:c1", "approved": True, "reason": "to approve"}
    assert found["c1"]["approval"] == approved
    assert found["c2"]["approval"] == {"id": f"{id}:c2", "approved": False, "reason": "to deny"}
    assert is_over or found["c3"]["approval"] == {"id": f"{id}:c3"}


def test_denied_call_is_shown_as_denied(api: Api, world: SocketBench) -> None:
    script = [call("refund", tool_call_id="c1", order="o1"), say("As you wish.")]
    run_id = asked(api, world, script, "refund o1")
    assert chat(api, responded(run_id, False), agent="desk")["statusCode"] == 200
    drive(api, world, run_id)
    [part] = calls(items(api)[1])
    assert (part["state"], "output" in part) == ("output-denied", False)


# What they show


def test_loaded_answer_is_the_streamed_one(api: Api, world: SocketBench) -> None:
    script = [
        call("look", tool_call_id="c1", key="a"),
        call("look", tool_call_id="c2", key="none"),
        say("Found *a*.", reasoning="There is one."),
    ]
    run_id = asked(api, world, script, "any")
    question, found = items(api)
    assert question["parts"] == [{"type": "text", "text": "any"}]
    assert found["metadata"]["run_id"] == run_id
    assert found["parts"] == shown_by_stream(api, run_id)
    assert [part["state"] for part in calls(found)] == ["output-available", "output-error"]
    assert found["parts"][-1] == {"type": "text", "text": "Found *a*.", "state": "done"}


def test_answer_under_way_is_as_far_as_it_is(api: Api, world: SocketBench) -> None:
    run_of(api, chat(api, user("hello"), agent="desk"))
    assert [message["role"] for message in items(api)] == ["user"]


def test_branch_that_goes_on_is_the_one_that_is_shown(api: Api, world: SocketBench) -> None:
    done(api, world, "hello", "u1", agent="desk")
    done(api, world, "and?", "u2", agent="desk")
    second = run_of(api, edited(api, user("goodbye", "u1"), agent="desk"))
    api.do(world.finish(second, "to goodbye"))
    question, found = items(api)
    assert (question["id"], question["parts"][0]["text"]) == ("u1", "goodbye")
    assert (found["id"], found["parts"][-1]["text"]) == (second, "to goodbye")
    assert run_of(api, edited(api, question, agent="desk")) == second


def test_files_are_shown_by_their_address(api: Api, world: SocketBench) -> None:
    file = {"type": "file", "filename": "a.png", "url": "data:image/png;base64,aGk="}
    message = user("look", "u1", file, {"type": "data-cart", "data": [1]})
    api.do(world.finish(run_of(api, chat(api, message, agent="desk"))))
    text, shown, data = items(api)[0]["parts"]
    assert text["text"] == "look"
    assert shown["url"].startswith("/files/file_")
    assert (shown["mediaType"], shown["filename"]) == ("image/png", "a.png")
    assert data == {"type": "data-cart", "data": [1]}


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
def test_pages_lead_from_the_newest_to_the_first(api: Api, world: SocketBench, limit: int) -> None:
    for n in range(3):
        done(api, world, f"text {n}", f"u{n}", agent="desk")
    texts: list[str] = []
    cursor: Json = {}
    while True:
        status, body = loaded(api, limit=limit, **cursor)
        assert status == 200
        assert 0 < len(body["items"]) <= limit
        texts = [m["parts"][-1]["text"] for m in body["items"]] + texts
        if body["next_cursor"] is None:
            break
        cursor = {"cursor": body["next_cursor"]}
    assert texts == [text for n in range(3) for text in (f"text {n}", f"to text {n}")]


def test_answer_of_many_steps_is_never_cut(api: Api, world: SocketBench) -> None:
    world.agents = {"desk": Agent("desk", instructions="desk", tools=[look], max_iterations=100)}
    steps = [call("look", tool_call_id=f"c{n}", key=str(n)) for n in range(60)]
    asked(api, world, [*steps, say("Found.")], "any")
    status, body = loaded(api, limit=1)
    assert status == 200
    assert len(calls(body["items"][0])) == 60
    [question] = items(api, limit=1, cursor=body["next_cursor"])
    assert question["id"] == "u1"


def test_messages_of_the_plain_api_are_shown_too(api: Api, world: SocketBench) -> None:
    thread = api.do(world.thread())
    parts: list[InputPart] = [
        TextPart(text="hi"),
        FilePart(url="https://files.example/a.png", name="a.png"),
    ]
    run = api.do(start_run(world.runtime, Actor(sub=ANN), thread.id, StartRun(parts)))
    api.do(world.finish(run.id, "hello"))
    question, found = items(api, thread.id, agent="support")
    assert question["id"].startswith("msg_")
    assert question["parts"][1]["url"] == "https://files.example/a.png"
    assert found["id"] == run.id

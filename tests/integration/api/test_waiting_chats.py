"""Chats that go on while an approval waits: what the page is shown, by its stream and after a reload."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from functions.api.app import answer
from integration.api.kit import Api, http_event
from integration.api.test_chat import chat, chunks
from integration.api.test_chat_ids import again, edited, run_of, user
from integration.api.test_chat_messages import calls, decided, items
from layover import Agent, tool
from layover.declare.tools.tool import AnyTool
from layover.engine.time_left import NoDeadline
from layover.plugins.fronts.protocols.ui_history import parts_of
from layover.records.threads import thread_id_of
from layover.runs.turn import turn
from layover.testing import ScriptedModel, call, say
from layover.testing import calls as calls_of
from layover.values.runs.payload import TurnPayload, WaitingCall
from layover.values.runs.run import RunSnapshot
from support.worlds.runs import without_decisions
from support.worlds.services import ANN
from support.worlds.sockets import SocketBench

Json = dict[str, Any]
PAY = call("pay", tool_call_id="c1", amount=7)


@tool(needs_approval=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@pytest.fixture
def world() -> SocketBench:
    return SocketBench()


def desk(world: SocketBench, script: list[Any], **options: Any) -> None:
    """The chat's agent, and what its model answers."""
    options = {"tools": [pay], **options}
    world.agents = {"desk": Agent("desk", instructions="desk", **options)}
    world.runtime = replace(world.runtime, model=ScriptedModel(script))


def asked(api: Api, world: SocketBench, text: str, id: str) -> str:
    """A message, as far as its run gets without a person; the run."""
    world.clock.advance(timedelta(seconds=1))
    run_id = run_of(api, chat(api, user(text, id), agent="desk"))
    drive(api, world, run_id)
    return run_id


def snapshot_of(api: Api, world: SocketBench, run_id: str) -> RunSnapshot:
    snapshot = api.do(world.journal.runs.snapshot(ANN, run_id))
    assert snapshot is not None
    return snapshot


def drive(api: Api, world: SocketBench, run_id: str, call_id: str | None = None) -> str:
    """Advance the run, once its call is decided, until it is over or waits."""
    found: dict[str, Any] = {}
    if call_id is not None:
        snapshot = snapshot_of(api, world, run_id)
        record = next(c for c in snapshot.calls if c.tool_call_id == call_id)
        found["call"] = WaitingCall(key=record.key, attempt=1, timeout_s=1, pause_s=0)
        found["output"] = {"layover": "decided"}
    for _ in range(20):
        execution = snapshot_of(api, world, run_id).meta.execution
        payload = {"owner": ANN, "run_id": run_id, "execution": execution, **found}
        work = turn(world.runtime, TurnPayload.model_validate(payload), NoDeadline())
        status, found = str(api.do(work)["status"]), {}
        if status != "yielded":
            return status
    raise AssertionError("the run comes to no end")


def approve(api: Api, message: Json) -> Json:
    """The answer to a page's approval of what waits in one of its messages."""
    given = {**message, "parts": decided(message)}
    page = [given if m["id"] == message["id"] else m for m in items(api)]
    return chat(api, *page, agent="desk", messageId=message["id"])


def stream(api: Api) -> Json:
    event = http_event("GET", "/chat/desk/chat-1/stream", None, {}, ANN)
    return answer(event, None, api.host, streams=True)


def texts(api: Api, **query: Any) -> list[tuple[str, str]]:
    """Id and last word of each message of the page: a text, or the state of a call."""
    return [
        (m["id"], m["parts"][-1].get("text") or m["parts"][-1]["state"])
        for m in items(api, **query)
    ]


def shown(found: list[Json]) -> list[str]:
    return [part.get("text") or part.get("state", "") for part in parts_of(found)]


def words(found: list[Json]) -> str:
    """All text of an answer's chunks."""
    return "".join(c["delta"] for c in found if c["type"] == "text-delta")


def test_approval_waits_before_the_question_that_was_answered_meanwhile(
    api: Api, world: SocketBench
) -> None:
    desk(world, [PAY, say("It rains.")])
    first = asked(api, world, "pay", "u1")
    second = asked(api, world, "weather?", "u2")
    assert texts(api) == [
        ("u1", "pay"),
        (first, "approval-requested"),
        ("u2", "weather?"),
        (second, "It rains."),
    ]
    assert stream(api)["statusCode"] == 204


def test_both_answers_are_in_their_places_after_the_approval(api: Api, world: SocketBench) -> None:
    desk(world, [PAY, say("It rains."), say("Paid.")])
    first = asked(api, world, "pay", "u1")
    second = asked(api, world, "weather?", "u2")
    answered = approve(api, items(api)[1])
    assert drive(api, world, first, "c1") == "over"
    # The page goes on with the message that asked; only what follows the decision comes.
    found = chunks(api, answered)
    assert found[0]["messageId"] == first
    assert "approval-requested" not in str(found)
    assert words(found) == "Paid."
    assert texts(api) == [
        ("u1", "pay"),
        (first, "output-available"),
        ("u2", "weather?"),
        (second, "It rains."),
        (f"{first}.2", "Paid."),
    ]
    assert stream(api)["statusCode"] == 204


def test_page_that_is_loaded_while_the_approved_run_works_follows_what_it_says(
    api: Api, world: SocketBench
) -> None:
    desk(world, [PAY, say("It rains."), PAY, say("Paid twice.")])
    first = asked(api, world, "pay", "u1")
    second = asked(api, world, "weather?", "u2")
    approve(api, items(api)[1])
    # It asks for another approval, behind what was said meanwhile.
    assert drive(api, world, first, "c1") == "suspended"
    before = [
        ("u1", "pay"),
        (first, "output-available"),
        ("u2", "weather?"),
        (second, "It rains."),
    ]
    assert texts(api) == [*before, (f"{first}.2", "approval-requested")]
    found = chunks(api, stream(api))
    assert found[0]["messageId"] == f"{first}.2"
    assert parts_of(found) == items(api)[-1]["parts"]
    call_id = calls(items(api)[-1])[0]["toolCallId"]
    answered = approve(api, items(api)[-1])
    assert drive(api, world, first, call_id) == "over"
    found = chunks(api, answered)
    assert found[0]["messageId"] == f"{first}.2"
    assert words(found) == "Paid twice."
    assert texts(api) == [*before, (f"{first}.2", "Paid twice.")]


def test_reload_between_a_decision_and_the_next_step_follows_both_parts(
    api: Api, world: SocketBench
) -> None:
    desk(world, [PAY, say("It rains."), say("Paid.")])
    first = asked(api, world, "pay", "u1")
    asked(api, world, "weather?", "u2")
    approve(api, items(api)[1])
    # No process has gone on with it yet.
    followed = stream(api)
    assert drive(api, world, first, "c1") == "over"
    found = chunks(api, followed)
    assert [c["messageId"] for c in found if c["type"] == "start"] == [first, f"{first}.2"]
    at = [c["type"] for c in found].index("start", 1)
    assert shown(found[:at]) == ["", "output-available"]
    assert shown(found[at:]) == ["", "Paid."]


def test_answer_at_work_is_the_one_that_is_followed(api: Api, world: SocketBench) -> None:
    desk(world, [PAY, say("It rains.")])
    asked(api, world, "pay", "u1")
    second = run_of(api, chat(api, user("weather?", "u2"), agent="desk"))
    followed = stream(api)
    drive(api, world, second)
    found = chunks(api, followed)
    assert [c["messageId"] for c in found if c["type"] == "start"] == [second]
    assert shown(found)[-1] == "It rains."


def test_approvals_of_several_runs_are_apart(api: Api, world: SocketBench) -> None:
    # Some providers give the calls of each run the same ids.
    desk(world, [PAY, PAY, say("Second."), say("First.")])
    first, second = asked(api, world, "pay", "u1"), asked(api, world, "pay", "u2")
    ids = [calls(items(api)[n])[0]["approval"]["id"] for n in (1, 3)]
    assert len(set(ids)) == 2
    approve(api, items(api)[3])
    assert [calls(m)[0]["state"] for m in items(api)[1::2]] == [
        "approval-requested",
        "approval-responded",
    ]
    assert drive(api, world, second, "c1") == "over"
    assert texts(api)[1] == (first, "approval-requested")


def test_approval_is_given_once_however_often_it_is_sent(api: Api, world: SocketBench) -> None:
    desk(world, [PAY, say("It rains."), say("Paid.")])
    first = asked(api, world, "pay", "u1")
    asked(api, world, "weather?", "u2")
    page = items(api)
    for _ in range(2):
        given = {**page[1], "parts": decided(page[1])}
        answered = chat(api, page[0], given, *page[2:], agent="desk", messageId=first)
        assert answered["statusCode"] == 200
    assert drive(api, world, first, "c1") == "over"
    given = {**page[1], "parts": decided(page[1])}
    answered = chat(api, page[0], given, *page[2:], agent="desk", messageId=first)
    assert words(chunks(api, answered)) == "Paid."


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 100])
def test_pages_of_such_a_chat_fit_together(api: Api, world: SocketBench, limit: int) -> None:
    desk(world, [PAY, say("It rains."), PAY, say("Sun."), say("Paid.")])
    first = asked(api, world, "pay", "u1")
    asked(api, world, "weather?", "u2")
    third = asked(api, world, "pay again", "u3")
    asked(api, world, "tomorrow?", "u4")
    for done in (False, True):
        if done:
            approve(api, items(api)[1])
            drive(api, world, first, "c1")
        whole = texts(api)
        pages: list[str] = []
        query: Json = {}
        for _ in range(20):
            found = page_of(api, limit, query)
            pages = [m["id"] for m in found["items"]] + pages
            if found["next_cursor"] is None:
                break
            query = {"cursor": found["next_cursor"]}
        assert pages == [id for id, _ in whole]
        assert len(set(pages)) == len(pages)
    assert whole[-1] == (f"{first}.2", "Paid.")
    assert whole[5] == (third, "approval-requested")


def page_of(api: Api, limit: int, query: Json) -> Json:
    asked = "&".join(f"{name}={value}" for name, value in {"limit": limit, **query}.items())
    event = http_event("GET", f"/chat/desk/chat-1/messages?{asked}", None, {}, ANN)
    found: Json = json.loads(answer(event, None, api.host)["body"])
    return found


# Other answers, and edits


def test_question_behind_a_call_that_waits_is_answered_again(api: Api, world: SocketBench) -> None:
    desk(world, [PAY, say("It rains."), say("It pours."), say("Paid.")])
    first = asked(api, world, "pay", "u1")
    second = asked(api, world, "weather?", "u2")
    world.clock.advance(timedelta(seconds=1))
    answered = again(api, *items(api)[:3], message_id=second, agent="desk")
    assert answered["statusCode"] == 200, answered["body"]
    third = run_of(api, answered)
    drive(api, world, third)
    assert texts(api) == [
        ("u1", "pay"),
        (first, "approval-requested"),
        ("u2", "weather?"),
        (third, "It pours."),
    ]
    approve(api, items(api)[1])
    assert drive(api, world, first, "c1") == "over"
    assert texts(api)[1:] == [
        (first, "output-available"),
        ("u2", "weather?"),
        (third, "It pours."),
        (f"{first}.2", "Paid."),
    ]


def test_question_behind_a_call_that_waits_is_edited(api: Api, world: SocketBench) -> None:
    desk(world, [PAY, say("It rains."), say("It is noon.")])
    first = asked(api, world, "pay", "u1")
    asked(api, world, "weather?", "u2")
    answered = edited(api, user("time?", "u2"), agent="desk")
    assert answered["statusCode"] == 200, answered["body"]
    third = run_of(api, answered)
    drive(api, world, third)
    assert texts(api) == [
        ("u1", "pay"),
        (first, "approval-requested"),
        ("u2", "time?"),
        (third, "It is noon."),
    ]


def waiting_of(api: Api) -> list[int]:
    """The amounts that the lists of approvals ask for."""
    return [item["args"]["amount"] for item in api.get("/approvals").json["items"]]


def test_edited_message_is_paid_in_its_new_version_only(api: Api, world: SocketBench) -> None:
    desk(world, [PAY, call("pay", tool_call_id="c2", amount=1), say("Paid.")])
    first = asked(api, world, "pay 7", "u1")
    second = run_of(api, edited(api, user("pay 1", "u1"), agent="desk"))
    assert waiting_of(api) == []
    drive(api, world, second)
    assert waiting_of(api) == [1]
    assert snapshot_of(api, world, first).meta.status == "cancelled"
    refused = api.post(f"/runs/{first}/tool-calls/c1/approve", {"attempt": 1})
    assert refused.status == 409, refused.body
    assert texts(api) == [("u1", "pay 1"), (second, "approval-requested")]


def test_another_answer_to_an_earlier_message_takes_back_what_came_behind_it(
    api: Api, world: SocketBench
) -> None:
    desk(world, [say("Hello."), PAY, say("Hi.")])
    greeting = asked(api, world, "hello", "u1")
    asked(api, world, "pay 7", "u2")
    answered = again(api, message_id=greeting, agent="desk")
    assert answered["statusCode"] == 200, answered["body"]
    assert waiting_of(api) == []


def test_run_with_a_parent_before_the_call_takes_it_back(api: Api, world: SocketBench) -> None:
    desk(world, [PAY])
    first = asked(api, world, "pay 7", "u1")
    thread = snapshot_of(api, world, first).meta.thread_id
    behind = api.post(f"/threads/{thread}/runs", {"input": "weather", "parent_id": None})
    assert behind.status == 202, behind.body
    assert waiting_of(api) == []


def test_a_part_of_an_answer_names_its_run(api: Api, world: SocketBench) -> None:
    desk(world, [PAY, say("It rains."), say("Paid."), say("Paid already.")])
    first = asked(api, world, "pay", "u1")
    asked(api, world, "weather?", "u2")
    approve(api, items(api)[1])
    drive(api, world, first, "c1")
    answered = again(api, *items(api)[:4], message_id=f"{first}.2", agent="desk")
    assert answered["statusCode"] == 200
    assert run_of(api, answered) != first
    other = again(api, message_id="run_none.2", agent="desk")
    assert other["statusCode"] == 404


# The agent's policy


def test_steered_message_ends_at_once_with_what_waits(api: Api, world: SocketBench) -> None:
    desk(world, [PAY, say("Paid to Bea.")], on_waiting="steer")
    first = asked(api, world, "pay", "u1")
    for _ in range(2):
        # It is sent once, however often it comes.
        found = chunks(api, chat(api, user("to Bea", "u2"), agent="desk"))
        assert found[0]["messageId"] == first
        assert shown(found)[-1] == "approval-requested"
        assert found[-1]["finishReason"] == "tool-calls"
    assert texts(api) == [("u1", "pay"), (first, "approval-requested"), ("u2", "to Bea")]
    assert chunks(api, stream(api)) == found
    answered = approve(api, items(api)[1])
    assert drive(api, world, first, "c1") == "over"
    assert words(chunks(api, answered)) == "Paid to Bea."
    assert texts(api) == [
        ("u1", "pay"),
        (first, "output-available"),
        ("u2", "to Bea"),
        (f"{first}.2", "Paid to Bea."),
    ]


def test_message_that_withdraws_what_waits_is_answered_under_it(
    api: Api, world: SocketBench
) -> None:
    desk(world, [PAY, say("Then not.")], on_waiting="withdraw")
    first = asked(api, world, "pay", "u1")
    answered = chat(api, user("never mind", "u2"), agent="desk")
    assert drive(api, world, first, "c1") == "over"
    found = chunks(api, answered)
    assert found[0]["messageId"] == f"{first}.2"
    assert shown(found) == ["", "Then not."]
    assert texts(api) == [
        ("u1", "pay"),
        (first, "output-error"),
        ("u2", "never mind"),
        (f"{first}.2", "Then not."),
    ]


@pytest.mark.parametrize("known_by", ["id", "edit of the same", "key"])
def test_withdrawal_that_a_death_cut_off_is_made_whole_by_the_message_that_comes_again(
    api: Api, world: SocketBench, known_by: str
) -> None:
    desk(world, [PAY, say("Then not.")], on_waiting="withdraw")
    first = asked(api, world, "pay", "u1")
    headers = {"Idempotency-Key": "k1"} if known_by == "key" else {}
    id = "" if known_by == "key" else "u2"
    message, whole = user("never mind", id), world.runtime
    world.runtime = without_decisions(whole)
    assert send_chat(api, message, headers)["statusCode"] == 503
    assert snapshot_of(api, world, first).calls[0].decision is None
    world.runtime = whole
    more = {"messageId": "u2"} if known_by == "edit of the same" else {}
    for _ in range(2):
        answered = send_chat(api, message, headers, **more)
        assert answered["statusCode"] == 200, answered["body"]
        [withdrawn] = snapshot_of(api, world, first).calls
        assert withdrawn.decision is not None
        assert withdrawn.decision.kind == "withdrawn"
    assert drive(api, world, first, "c1") == "over"
    assert shown(chunks(api, answered)) == ["", "Then not."]


def test_message_that_was_read_withdraws_nothing_when_it_comes_again(
    api: Api, world: SocketBench
) -> None:
    again_asked = call("pay", tool_call_id="c2", amount=8)
    desk(world, [PAY, again_asked, say("Paid.")], on_waiting="withdraw")
    first = asked(api, world, "pay", "u1")
    message = user("8, not 7", "u2")
    assert send_chat(api, message, {})["statusCode"] == 200
    assert drive(api, world, first, "c1") == "suspended"
    assert send_chat(api, message, {})["statusCode"] == 200
    assert [c.decision is None for c in snapshot_of(api, world, first).calls] == [False, True]


def send_chat(api: Api, message: Json, headers: dict[str, str], **more: Any) -> Json:
    asked = {"id": "chat-1", "messages": [message], "trigger": "submit-message", **more}
    event = http_event("POST", "/chat/desk", json.dumps(asked), headers, ANN)
    return answer(event, None, api.host, streams=True)


def test_page_shows_what_a_run_that_is_set_aside_was_sent_behind_the_answer_at_work(
    api: Api, world: SocketBench
) -> None:
    desk(world, [PAY, say("It rains."), say("Paid to Bea.")])
    first = asked(api, world, "pay", "u1")
    second = run_of(api, chat(api, user("weather?", "u2"), agent="desk"))
    sent = api.post(f"/runs/{first}/messages", {"input": "to Bea"})
    assert sent.status == 202, sent.body
    before = [("u1", "pay"), (first, "approval-requested"), ("u2", "weather?")]
    *rest, (bea, text) = texts(api)
    assert (rest, text) == (before, "to Bea")
    drive(api, world, second)
    assert texts(api) == [*before, (second, "It rains."), (bea, "to Bea")]
    approve(api, items(api)[1])
    assert drive(api, world, first, "c1") == "over"
    assert texts(api)[3:] == [
        (second, "It rains."),
        (bea, "to Bea"),
        (f"{first}.2", "Paid to Bea."),
    ]


def test_agent_that_refuses_is_busy(api: Api, world: SocketBench) -> None:
    desk(world, [PAY, say("Never.")], on_waiting="refuse")
    first = asked(api, world, "pay", "u1")
    assert chat(api, user("weather?", "u2"), agent="desk")["statusCode"] == 409
    assert texts(api) == [("u1", "pay"), (first, "approval-requested")]


# AG-UI


def ag_ui(api: Api, text: str = "", id: str = "", **more: Any) -> list[Json]:
    """The events of the answer to a message, or to `resume`."""
    asked = {"messages": [{"id": id, "role": "user", "content": text}]}
    body = json.dumps({"threadId": "chat-1", "runId": "r", "messages": [], **asked, **more})
    answered = answer(
        http_event("POST", "/ag-ui/desk", body, {}, ANN), None, api.host, streams=True
    )
    assert answered["statusCode"] == 200, answered["body"]

    async def whole() -> bytes:
        return b"".join([piece async for piece in answered["body"]])

    blocks = [b for b in api.do(whole()).decode().split("\n\n") if b.startswith("data: ")]
    return [json.loads(b.removeprefix("data: ")) for b in blocks]


def spoken(events: list[Json]) -> str:
    return "".join(e["delta"] for e in events if e["type"] == "TEXT_MESSAGE_CONTENT")


def begun(api: Api, world: SocketBench, text: str, id: str) -> str:
    """A message of an AG-UI client, as far as its run gets without a person; the run."""
    message = {"id": id, "role": "user", "content": text}
    body = json.dumps({"threadId": "chat-1", "runId": "r", "messages": [message]})
    event = http_event("POST", "/ag-ui/desk", body, {}, ANN)
    assert answer(event, None, api.host, streams=True)["statusCode"] == 200
    page = api.do(world.journal.runs.page_ids(ANN, thread_id_of(ANN, "chat-1"), 1, None))
    drive(api, world, page.items[0])
    world.clock.advance(timedelta(seconds=1))
    return str(page.items[0])


def test_ag_ui_client_decides_behind_what_was_said_meanwhile(api: Api, world: SocketBench) -> None:
    desk(world, [PAY, say("It rains."), say("Paid.")])
    first = begun(api, world, "pay", "m1")
    (interrupt,) = ag_ui(api, "pay", "m1")[-1]["outcome"]["interrupts"]
    begun(api, world, "weather?", "m2")
    weather = ag_ui(api, "weather?", "m2")
    assert (spoken(weather), weather[-1]["outcome"]) == ("It rains.", {"type": "success"})
    entry = {"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}
    api.post(f"/runs/{first}/tool-calls/c1/approve", {"attempt": 1})
    drive(api, world, first, "c1")
    events = ag_ui(api, resume=[entry])
    assert events[0]["metadata"] == {"layover_run_id": first}
    (result,) = (e for e in events if e["type"] == "TOOL_CALL_RESULT")
    assert result["content"] == "paid 7"
    assert spoken(events) == "Paid."
    ids = [e["messageId"] for e in (*weather, *events) if e["type"] == "TEXT_MESSAGE_START"]
    assert len(set(ids)) == 2


def test_ag_ui_client_decides_calls_of_one_run_at_a_time(api: Api, world: SocketBench) -> None:
    desk(world, [PAY, PAY])
    runs = [begun(api, world, "pay", "m1"), begun(api, world, "pay", "m2")]
    entries = [{"interruptId": f"1:{run_id}:c1", "status": "cancelled"} for run_id in runs]
    body = json.dumps({"threadId": "chat-1", "runId": "r", "messages": [], "resume": entries})
    refused = answer(http_event("POST", "/ag-ui/desk", body, {}, ANN), None, api.host, streams=True)
    assert refused["statusCode"] == 422
    for run_id in runs:
        snapshot = snapshot_of(api, world, run_id)
        assert [call.decision for call in snapshot.calls] == [None]


def test_ag_ui_client_is_told_at_once_what_still_waits_for_a_message_that_steers(
    api: Api, world: SocketBench
) -> None:
    desk(world, [PAY, say("Paid to Bea.")], on_waiting="steer")
    first = begun(api, world, "pay", "m1")
    for _ in range(2):
        events = ag_ui(api, "to Bea", "m2")
        # What the run said before is there already.
        assert [e["type"] for e in events] == [
            *("RUN_STARTED", "STEP_STARTED", "STEP_FINISHED", "RUN_FINISHED"),
        ]
        assert events[-1]["outcome"]["type"] == "interrupt"
    snapshot = snapshot_of(api, world, first)
    assert [message.text for message in snapshot.said] == ["to Bea"]


def test_ag_ui_client_reads_the_answer_to_a_message_that_withdraws(
    api: Api, world: SocketBench
) -> None:
    desk(world, [PAY, say("Then not.")], on_waiting="withdraw")
    first = begun(api, world, "pay", "m1")
    message = {"id": "m2", "role": "user", "content": "never mind"}
    body = json.dumps({"threadId": "chat-1", "runId": "r", "messages": [message]})
    answered = answer(
        http_event("POST", "/ag-ui/desk", body, {}, ANN), None, api.host, streams=True
    )
    drive(api, world, first, "c1")

    async def whole() -> bytes:
        return b"".join([piece async for piece in answered["body"]])

    found = api.do(whole()).decode()
    assert "TOOL_CALL_START" not in found
    assert "TOOL_CALL_RESULT" in found
    assert "never mind" not in found
    assert "Then " in found


def test_ag_ui_client_reads_what_follows_its_message_though_the_run_asks_again_by_then(
    api: Api, world: SocketBench
) -> None:
    less = calls_of(call("pay", tool_call_id="c2", amount=8), text="Then 8.")
    desk(world, [PAY, less, say("Paid.")], on_waiting="withdraw")
    first = begun(api, world, "pay", "m1")
    message = {"id": "m2", "role": "user", "content": "8, not 7"}
    body = json.dumps({"threadId": "chat-1", "runId": "r", "messages": [message]})
    event = http_event("POST", "/ag-ui/desk", body, {}, ANN)
    assert answer(event, None, api.host, streams=True)["statusCode"] == 200
    assert drive(api, world, first, "c1") == "suspended"
    # The first answer was lost. What the client knows ends where it wrote.
    events = ag_ui(api, "8, not 7", "m2")
    said = "".join(e["delta"] for e in events if e["type"] == "TEXT_MESSAGE_CONTENT")
    assert said == "Then 8."
    assert [e["toolCallId"] for e in events if e["type"] == "TOOL_CALL_START"] == ["c2"]
    assert [i["toolCallId"] for i in events[-1]["outcome"]["interrupts"]] == ["c2"]


# Runs that go on


def test_page_shows_all_while_an_approved_run_has_its_chat_back(
    api: Api, world: SocketBench
) -> None:
    desk(world, [PAY, say("It rains."), say("Paid.")])
    first = asked(api, world, "pay", "u1")
    second = run_of(api, chat(api, user("weather?", "u2"), agent="desk"))
    approve(api, items(api)[1])
    assert drive(api, world, first, "c1") == "left"
    assert texts(api)[1:3] == [(first, "output-available"), ("u2", "weather?")]
    drive(api, world, second)
    # It is the one at work now, and has said nothing yet.
    before = [("u1", "pay"), (first, "output-available"), ("u2", "weather?")]
    assert texts(api) == [*before, (second, "It rains.")]
    followed = stream(api)
    assert drive(api, world, first) == "over"
    found = chunks(api, followed)
    assert [c["messageId"] for c in found if c["type"] == "start"] == [first, f"{first}.2"]
    assert texts(api) == [*before, (second, "It rains."), (f"{first}.2", "Paid.")]


def pay_from(default: str) -> AnyTool:
    @tool(needs_approval=True)
    def pay(amount: int, account: str = default) -> str:
        """Pay."""
        return f"paid {amount} from {account}"

    return pay


def asked_of_new_code(api: Api, world: SocketBench, *more: Any) -> tuple[str, Json]:
    """A run whose first call a deployment changed after its approval, and the page's request to approve."""
    script = [calls_of(PAY, *more), say("Paid.")]
    desk(world, script, tools=[pay_from("x")], tool_concurrency=2)
    run_id = asked(api, world, "pay", "u1")
    approval = {"id": f"1:{run_id}:c1", "approved": True}
    part = {"type": "tool-pay", "toolCallId": "c1", "state": "approval-responded"}
    request = {"id": run_id, "role": "assistant", "parts": [{**part, "approval": approval}]}
    assert chat(api, request, agent="desk")["statusCode"] == 200
    desk(world, script, tools=[pay_from("another")], tool_concurrency=2)
    assert drive(api, world, run_id, "c1") != "over"
    return run_id, request


def test_answer_to_an_approval_has_the_request_that_was_made_again_meanwhile(
    api: Api, world: SocketBench
) -> None:
    run_id, request = asked_of_new_code(api, world)
    # The answer of the first time was lost, or came late: the call waits anew by now.
    found = chunks(api, chat(api, request, agent="desk"))
    again = [c for c in found if c["type"] == "tool-approval-request"]
    assert [c["approvalId"] for c in again] == [f"2:{run_id}:c1"]
    (shown_input,) = [c["input"] for c in found if c["type"] == "tool-input-available"]
    assert shown_input == {"amount": 7, "account": "another"}


def test_answer_to_another_approval_has_the_request_that_was_made_again_meanwhile(
    api: Api, world: SocketBench
) -> None:
    run_id, request = asked_of_new_code(api, world, call("pay", tool_call_id="c2", amount=8))
    other = json.loads(json.dumps(request).replace("c1", "c2"))
    answered = chat(api, other, agent="desk")
    drive(api, world, run_id, "c2")
    found = chunks(api, answered)
    again = [c["approvalId"] for c in found if c["type"] == "tool-approval-request"]
    assert f"2:{run_id}:c1" in again


def test_page_learns_that_somebody_else_approved_what_was_changed_since(
    api: Api, world: SocketBench
) -> None:
    run_id, request = asked_of_new_code(api, world)
    # Its reason is another, as that of a page is which was loaded before the decision.
    request["parts"][0]["approval"]["reason"] = "I too"
    found = chunks(api, chat(api, request, agent="desk"))
    again = [c["approvalId"] for c in found if c["type"] == "tool-approval-request"]
    assert again == [f"2:{run_id}:c1"]

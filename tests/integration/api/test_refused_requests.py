"""A run that a hook refused, as its owner's clients see it over HTTP: everywhere an answer like any other,
with a reason for its end that their protocols know, and the message with its mark."""

import json
from dataclasses import replace
from typing import Any

import pytest

from functions.api.app import answer
from integration.api.kit import Api, http_event
from layover import Agent, BlockTopics
from layover.engine.time_left import NoDeadline
from layover.plugins.fronts.protocols.ag_ui import AgUiRun
from layover.plugins.fronts.protocols.ui_messages import UiMessage
from layover.records.threads import thread_id_of
from layover.runs.turn import turn
from layover.testing import ScriptedModel, say
from layover.values.runs.payload import TurnPayload
from support.worlds.services import ANN, BOB
from support.worlds.sockets import SocketBench

BAD = "Where do I buy weapons?"


@pytest.fixture
def world() -> SocketBench:
    bench = SocketBench()
    guard = BlockTopics(["weapons"], reply="I only sell chairs.")
    bench.agents["support"] = Agent("support", model="m", hooks=[guard])
    bench.runtime = replace(bench.runtime, model=ScriptedModel([say("A chair is 42 euros.")] * 3))
    return bench


def drive(api: Api, world: SocketBench, run_id: str) -> None:
    payload = TurnPayload(owner=ANN, run_id=run_id, execution=f"{run_id}-1")
    assert api.do(turn(world.runtime, payload, NoDeadline()))["status"] == "over"


def refused_run(api: Api, world: SocketBench, thread_id: str = "") -> dict[str, Any]:
    thread_id = thread_id or api.post("/threads", {"agent": "support"}).json["id"]
    body = {"input": BAD, "stream": True}
    started = api.post(f"/threads/{thread_id}/runs", body).json
    drive(api, world, started["id"])
    run: dict[str, Any] = api.get(f"/runs/{started['id']}").json
    return run


def prompts(world: SocketBench) -> Any:
    model: Any = world.runtime.model
    return model.prompts


def test_a_refused_run_succeeds_with_its_reply_and_says_why_it_ended(
    api: Api, world: SocketBench
) -> None:
    run = refused_run(api, world)
    assert (run["status"], run["finish_reason"]) == ("success", "refused")
    assert (run["text"], run["model"]) == ("I only sell chairs.", None)
    assert run["input"]["refused"] is True
    assert "refused" not in run["messages"][0]
    assert prompts(world) == []


def test_the_owner_reads_the_message_with_its_mark_and_nobody_else_reads_it(
    api: Api, world: SocketBench
) -> None:
    run = refused_run(api, world)
    path = f"/threads/{run['thread_id']}/messages"
    [asked, said] = api.get(path).json["items"]
    assert (asked["content"][0]["text"], asked["refused"]) == (BAD, True)
    assert "refused" not in said
    assert api.get(path, sub=BOB).status == 404
    events = api.get(f"/runs/{run['id']}/events").json["items"]
    [told] = [e for e in events if e["type"] == "hook-reply"]
    assert told["reason"] == "the topic 'weapons'"
    assert told["message_ids"] == [asked["id"]]


def test_the_next_message_is_answered_without_the_refused_one(api: Api, world: SocketBench) -> None:
    thread_id = refused_run(api, world)["thread_id"]
    started = api.post(f"/threads/{thread_id}/runs", {"input": "A chair, then."}).json
    drive(api, world, started["id"])
    run = api.get(f"/runs/{started['id']}").json
    assert (run["finish_reason"], run["text"]) == ("stop", "A chair is 42 euros.")
    assert BAD not in str(prompts(world))


def test_the_export_has_the_message_with_its_mark_and_a_deletion_takes_it_away(
    api: Api, world: SocketBench
) -> None:
    thread_id = refused_run(api, world)["thread_id"]
    exported = api.get("/me/export").body
    assert BAD in exported
    assert '"refused":true' in exported.replace(" ", "")
    assert api.send("DELETE", f"/threads/{thread_id}").status == 204
    assert BAD not in api.get("/me/export").body


def test_a_page_of_the_ai_sdk_shows_the_reply_and_a_reason_that_it_knows(
    api: Api, world: SocketBench
) -> None:
    run = refused_run(api, world)
    events = api.do(world.journal.events.page(ANN, run["id"], 0, 100)).items
    message = UiMessage(run["id"], run["thread_id"])
    chunks = [chunk for event in events for chunk in message.chunks(event)]
    assert [c["delta"] for c in chunks if c["type"] == "text-delta"] == ["I only sell chairs."]
    assert [c["finishReason"] for c in chunks if c["type"] == "finish"] == ["content-filter"]
    assert [c for c in chunks if c["type"] == "error"] == []


def test_a_page_that_is_loaded_again_has_the_mark_in_the_messages_metadata(
    api: Api, world: SocketBench
) -> None:
    parts = [{"type": "text", "text": BAD}]
    body = json.dumps(
        {
            "id": "chat-1",
            "messages": [{"id": "m1", "role": "user", "parts": parts}],
            "trigger": "submit-message",
        }
    )
    started = answer(
        http_event("POST", "/chat/support", body, {}, ANN), None, api.host, streams=True
    )
    assert started["statusCode"] == 200
    thread_id = thread_id_of(ANN, "chat-1")
    [run_id] = api.do(world.journal.runs.page_ids(ANN, thread_id, 2, None)).items
    drive(api, world, run_id)
    [asked, said] = api.get("/chat/support/chat-1/messages").json["items"]
    assert asked["metadata"]["refused"] is True
    assert "refused" not in said["metadata"]
    assert said["parts"][-1]["text"] == "I only sell chairs."


def test_a_client_of_ag_ui_gets_the_reply_and_an_end_without_an_error(
    api: Api, world: SocketBench
) -> None:
    run = refused_run(api, world)
    events = api.do(world.journal.events.page(ANN, run["id"], 0, 100)).items
    shown = AgUiRun(run["thread_id"], "r1", run["id"])
    told = [*shown.begin(), *(e for event in events for e in shown.events(event))]
    texts = [e["delta"] for e in told if e["type"] == "TEXT_MESSAGE_CONTENT"]
    assert texts == ["I only sell chairs."]
    assert [e["type"] for e in told][-1] == "RUN_FINISHED"

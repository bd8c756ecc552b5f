"""A front end whose agent gave the conversation away goes on under the name that it knows."""

import json
from dataclasses import replace
from typing import Any

import pytest

from functions.api.app import answer
from integration.api.kit import Api, http_event
from integration.api.test_chat import HELLO, chat, newest, responded
from layover import Agent
from layover.engine.time_left import NoDeadline
from layover.runs.turn import turn
from layover.testing import ScriptedModel, call, say
from layover.values.runs.payload import TurnPayload
from layover.values.runs.run import RunMeta
from support.worlds.services import ANN, PLAIN, refund
from support.worlds.sockets import SocketBench

BILLING = Agent("billing", instructions="billing", tools=[refund])
FRONT = Agent("front", instructions="front", handoffs=[BILLING])
SCRIPT = (
    call("transfer_to_billing", tool_call_id="t1"),
    call("refund", tool_call_id="c1", order_id="o1", amount=80),
    say("paid back"),
    say("and again"),
)


@pytest.fixture
def world() -> SocketBench:
    world = SocketBench()
    world.agents = {"front": FRONT, "billing": BILLING, "plain": PLAIN}
    world.runtime = replace(world.runtime, model=ScriptedModel(SCRIPT))
    return world


def drive(api: Api, world: SocketBench, run: RunMeta) -> str:
    """Turn until the run waits or is over."""
    payload = TurnPayload(owner=ANN, run_id=run.id, execution=f"{run.id}-1")
    while (how := api.do(turn(world.runtime, payload, NoDeadline()))["status"]) == "yielded":
        pass
    return str(how)


def say_to_front(api: Api, *messages: Any, **more: Any) -> int:
    """The status that a chat with `front` is answered with."""
    return int(chat(api, *messages, agent="front", **more)["statusCode"])


def ask_ag_ui(api: Api, thread: str = "chat-1", **more: Any) -> int:
    """The status that an AG-UI client of `front` is answered with."""
    hello = {"id": "m1", "role": "user", "content": "hello"}
    given = {"threadId": thread, "runId": "r1", "messages": [hello], **more}
    event = http_event("POST", "/ag-ui/front", json.dumps(given), {}, ANN)
    return int(answer(event, None, api.host, streams=True)["statusCode"])


def test_a_chat_goes_on_with_the_agent_that_was_given_it(api: Api, world: SocketBench) -> None:
    assert say_to_front(api, HELLO) == 200
    run = newest(api, world)
    assert drive(api, world, run) == "suspended"
    event = http_event("GET", "/chat/front/chat-1/stream", None, {}, ANN)
    assert answer(event, None, api.host, streams=True)["statusCode"] == 200
    assert say_to_front(api, responded(run.id, True)) == 200
    assert drive(api, world, run) == "over"
    assert say_to_front(api, {**HELLO, "id": "m2"}) == 200
    following = newest(api, world)
    assert (following.agent, following.thread_id) == ("billing", run.thread_id)
    assert answer(event, None, api.host, streams=True)["statusCode"] == 200
    assert drive(api, world, following) == "over"
    assert say_to_front(api, trigger="regenerate-message", messageId=following.id) == 200
    assert newest(api, world).agent == "billing"


def test_an_ag_ui_client_goes_on_with_the_agent_that_was_given_it(
    api: Api, world: SocketBench
) -> None:
    assert ask_ag_ui(api) == 200
    run = newest(api, world)
    assert drive(api, world, run) == "suspended"
    approval = {
        "interruptId": f"1:{run.id}:c1",
        "status": "resolved",
        "payload": {"approved": True},
    }
    assert ask_ag_ui(api, resume=[approval]) == 200
    assert drive(api, world, run) == "over"
    assert ask_ag_ui(api) == 200
    following = newest(api, world)
    assert (following.agent, following.thread_id) == ("billing", run.thread_id)


def test_a_chat_is_not_opened_by_an_agent_that_could_not_have_given_it_away(
    api: Api, world: SocketBench
) -> None:
    assert say_to_front(api, HELLO) == 200
    run = newest(api, world)
    assert drive(api, world, run) == "suspended"
    refused = chat(api, responded(run.id, True), agent="plain")
    assert (refused["statusCode"], "another agent" in refused["body"]) == (409, True)


def test_a_chat_is_not_taken_by_an_agent_that_was_not_given_it(api: Api) -> None:
    assert say_to_front(api, HELLO) == 200
    refused = chat(api, HELLO, agent="billing")
    assert (refused["statusCode"], "another agent" in refused["body"]) == (409, True)

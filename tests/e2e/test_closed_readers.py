"""Readers that close their page while no function learns of it, as on AWS, over real HTTP."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from layover.runs.places import STREAM_LEASE
from layover.values.deployment.settings import Settings
from support.providers.openai import call, delta, say, stream
from support.system.greedy import streamed
from support.system.system import Brain, Caller, System, at_once, eventually, unique

LEASE_S = STREAM_LEASE.total_seconds()
PLACES = Settings().max_user_streams
WORDS = 300
"""One in each second: the run outlives the test, and no silence ends a stream."""
STREAM = {"accept": "text/event-stream"}


@pytest.fixture
def unnoticed(system: System) -> Iterator[System]:
    """The system while it does not notice closed readers."""
    system.notice_readers(False)
    yield system
    system.notice_readers(True)


def leave(system: System, caller: Caller, run_id: str) -> None:
    """Open a stream, and close it once it has begun."""
    with streamed(system, caller, run_id):
        pass


def streams_at_work(system: System) -> int:
    """Environments that stream."""
    return sum(each["busy"] for each in system.environments("streams"))


def hello(text: str) -> dict[str, object]:
    """A chat of its own that says this."""
    message = {"id": unique("m"), "role": "user", "parts": [{"type": "text", "text": text}]}
    return {"id": unique("chat"), "messages": [message]}


def test_closed_pages_shut_a_users_chats_for_one_lease_and_polls_not_at_all(
    unnoticed: System, brain: Brain, ann: Caller
) -> None:
    words = stream(*(delta(f"word{n} ") for n in range(WORDS)), delta(finish="stop"))
    plan = brain.plan(replace(words, pause_s=1.0))
    run = ann.start(ann.thread(), plan, stream=True)
    brain.asked(plan)
    at_once(*[lambda: leave(unnoticed, ann, run["id"])] * PLACES)
    assert streams_at_work(unnoticed) == PLACES, "they are served though nobody reads"
    chat = hello(brain.plan(say("hello")))
    assert ann.call("POST", "/chat/support", chat, **STREAM).status == 429
    assert ann.run(run["id"], 1)["status"] == "running"
    assert ann.call("GET", f"/runs/{run['id']}/events?after=99&wait=1").seconds >= 1
    unnoticed.advance_clock(LEASE_S + 1)
    begun = ann.call("POST", "/chat/support", chat, **STREAM)
    assert (begun.status, '"finish"' in str(begun.body)) == (200, True)
    ann.want(202, "POST", f"/runs/{run['id']}/cancel")
    eventually(lambda: streams_at_work(unnoticed) == 0)


def test_closed_pages_of_a_run_that_waits_for_a_person_occupy_nothing(
    unnoticed: System, brain: Brain, ann: Caller
) -> None:
    text = brain.plan(call("refund", order_id=unique(), amount=1), say("refunded"))
    run = ann.ask(ann.thread(), text)
    at_once(*[lambda: leave(unnoticed, ann, run["id"])] * (2 * PLACES))
    eventually(lambda: streams_at_work(unnoticed) == 0)
    chat = hello(brain.plan(say("hello")))
    assert ann.call("POST", "/chat/support", chat, **STREAM).status == 200
    ann.decide(run["id"], run["pending"][0]["tool_call_id"], "approve")
    with streamed(unnoticed, ann, run["id"]) as lines:
        assert "event: finish" in list(lines)

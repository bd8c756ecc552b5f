"""A model that an agent's author has brought, in the whole system: each function makes its own client."""

import threading
from collections.abc import Iterator

import pytest

from support.agents.bringing import ADDRESS
from support.providers.openai import FakeOpenAI, call, delta, say, stream
from support.system.folders import folder
from support.system.system import Brain, System, eventually


@pytest.fixture(scope="module")
def gateway() -> Iterator[FakeOpenAI]:
    """The server that only the agent's own client knows."""
    with FakeOpenAI() as server:
        yield server


@pytest.fixture(scope="module")
def brought(brain: Brain, gateway: FakeOpenAI) -> Iterator[System]:
    """A system with that agent."""
    variables = {ADDRESS: gateway.base_url}
    with (
        folder("own-models") as data,
        System(data, brain, agents="support.agents.bringing", variables=variables) as running,
    ):
        yield running


def test_it_answers_waits_and_names_the_thread_and_nobody_else_is_asked(
    brought: System, brain: Brain, gateway: FakeOpenAI
) -> None:
    asked_elsewhere = len(brain.provider.requests)
    ann = brought.caller("ann")
    gateway.script([call("ship", order="A7"), say("It is on its way.", model="large-2026")])
    thread = ann.thread("bringer")
    run = ann.ask(thread, "Please ship the order A7 to me today.")
    (waiting,) = run["pending"]
    assert ann.decide(run["id"], waiting["tool_call_id"], "approve").status == 202
    done = ann.over(run["id"])
    assert (done["status"], done["text"]) == ("success", "It is on its way.")
    gateway.wait_for(lambda server: any(r.task == "title" for r in server.requests))
    assert {r.headers["authorization"] for r in gateway.requests} == {"Bearer sk-own"}
    assert {r.body["model"] for r in gateway.requests} == {"large"}
    # The system itself looks at its provider when it starts.
    assert [r.path for r in brain.provider.requests[asked_elsewhere:] if r.asks_a_model] == []
    (listed,) = ann.get("/agents")["items"]
    assert (listed["name"], listed["model"]) == ("bringer", "gateway/large")


def test_a_cancel_closes_its_stream(brought: System, gateway: FakeOpenAI) -> None:
    held = threading.Event()
    gateway.script([stream(delta("Hel"), delta("lo"), hold=held)])
    ann = brought.caller("ann")
    try:
        asked = len(gateway.turns)
        run = ann.start(ann.thread("bringer"), "Hello", stream=True)
        gateway.wait_for(lambda server: len(server.turns) > asked)
        eventually(lambda: ann.run(run["id"]), lambda view: view["status"] == "running")
        ann.want(202, "POST", f"/runs/{run['id']}/cancel")
        assert ann.over(run["id"])["status"] == "cancelled"
        gateway.wait_for(lambda server: server.abandoned >= 1)
    finally:
        held.set()

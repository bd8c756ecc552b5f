"""Compaction on the one-machine system: in the functions `turn` and `compact`, over HTTP."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from support.providers.openai import FakeOpenAI, Response, call, fail, say
from support.system.system import Json, System, eventually

STEPS = 14
FIVE = "## Goal\nRead.\n## Facts and decisions\nPage 3 has K-23757.\n## Current state\nReading."


def observed(body: Any) -> Response:
    """A note of each page's code."""
    found = re.findall(r"page (\d+): the code is (K-\d+)", json.dumps(body["messages"]))
    return say("\n".join(f"* IMPORTANT (00:00) page {p} has the code {c}" for p, c in found))


@pytest.fixture
def provider(system: System) -> FakeOpenAI:
    """The provider that serves memory models as well."""
    return system.brain.provider


@pytest.fixture(autouse=True)
def memory_models(provider: FakeOpenAI) -> Iterator[None]:
    """The observer and the summariser, unless a test sets others."""
    provider.respond_with(observed, task="observer")
    provider.respond_with(lambda body: say(FIVE), task="summary")
    yield
    provider.respond_with(lambda body: say(""), task="observer")
    provider.respond_with(lambda body: say(""), task="summary")


def reading(system: System, agent: str, steps: int = STEPS) -> tuple[Any, str, Json, list[Any]]:
    """A run that reads so many pages: its caller, thread, outcome and requests."""
    user = system.caller()
    thread = user.thread(agent)

    def next_page(body: Any) -> Response:
        newest = body["messages"][-1]
        read = (
            re.findall(r"page (\d+):", str(newest["content"])) if newest["role"] == "tool" else []
        )
        page = max(map(int, read), default=0) + 1
        return call("read_note", page=page) if page <= steps else say("done")

    text = system.brain.mind(next_page, "read the pages")
    run = user.over(user.start(thread, text)["id"], 60)
    return user, thread, run, system.brain.requests(text)


def first_user(request: Any) -> str:
    message = next(m for m in request.body["messages"] if m["role"] == "user")
    content = message["content"]
    return content if isinstance(content, str) else json.dumps(content)


@pytest.mark.parametrize("answer", [fail(400, "no"), say("I will not.")])
def test_an_observer_that_fails_fails_no_run(
    system: System, provider: FakeOpenAI, answer: Any
) -> None:
    provider.respond_with(lambda body: answer, task="observer")
    user, thread, run, _ = reading(system, "note-observer")
    assert run["status"] == "success"
    assert user.get(f"/threads/{thread}/memory")["observations"] == []


def test_a_long_run_goes_on_from_its_observations(system: System) -> None:
    user, thread, run, requests = reading(system, "note-observer")
    assert run["status"] == "success"
    last = requests[-1]
    assert "page 3 has the code K-23757" in first_user(last)
    assert first_user(last).index("observations") < first_user(last).index("read the pages")
    systems = [m for m in last.body["messages"] if m["role"] == "system"]
    assert "K-23757" not in json.dumps(systems), "data, with a user's authority"
    sizes = [len(json.dumps(r.body["messages"])) // 4 for r in requests]
    assert max(sizes) < STEPS * 300
    memory = user.get(f"/threads/{thread}/memory")
    lines = [o["text"] for o in memory["observations"] if o["active"]]
    assert "page 3 has the code K-23757" in lines
    assert {o["marker"] for o in memory["observations"]} == {"IMPORTANT"}
    assert memory["token_counts"]["observations"] > 0


def test_the_thread_keeps_every_message_that_left_the_prompt(system: System) -> None:
    user, thread, run, _ = reading(system, "note-observer")
    messages = user.messages(thread)
    assert len(messages) == 1 + 2 * STEPS + 1
    assert [m["run_id"] for m in messages] == [run["id"]] * len(messages)


def test_a_branch_before_the_observations_does_not_show_them(system: System) -> None:
    user, thread, _, _ = reading(system, "note-observer")
    first = user.messages(thread)[0]["id"]
    text = system.brain.plan(say("hello"), text="something else")
    user.ask(thread, text, parent_id=first)
    assert "K-23757" not in json.dumps(system.brain.requests(text)[0].body)


def test_a_rolling_summary_takes_the_place_of_what_it_summarised(system: System) -> None:
    user, thread, run, requests = reading(system, "note-summariser", 30)
    assert run["status"] == "success"
    assert "K-23757" in first_user(requests[-1])
    summary = eventually(lambda: user.get(f"/threads/{thread}/memory")["summary"])
    assert "Page 3 has K-23757" in summary
    assert user.get(f"/threads/{thread}")["metadata"] == {}


def test_what_compaction_costs_is_counted_apart_from_the_run(system: System) -> None:
    _, _, run, requests = reading(system, "note-observer")
    asked = sum(len(json.dumps(r.body["messages"])) // 4 for r in requests)
    assert run["usage"]["input_tokens"] == asked

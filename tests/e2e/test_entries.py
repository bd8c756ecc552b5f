"""Episodic memory, from the words that said it to another thread's request, and its end by HTTP."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from support.providers.openai import call, say
from support.system.system import Brain, Caller, Json, System, eventually

SAID = "since Monday the import of shop-7 fails with E1102 every night"
CONTENT = "The nightly import of shop-7 fails with E1102."
ENTRIES = "/memory/entries?agent=scholar"
GOOD = {
    "content": CONTENT,
    "source": "user_assertion",
    "evidence": "the import of shop-7 fails with E1102",
}
BAD = {**GOOD, "content": "All refunds are approved.", "evidence": "all refunds are approved now"}


@pytest.fixture(autouse=True)
def extractor(brain: Brain) -> Iterator[None]:
    """A model that takes every turn to be about the import, and makes something up."""
    answer = say(json.dumps({"entries": [BAD, GOOD]}))
    brain.provider.respond_with(lambda _: answer, task="extractor")
    yield
    brain.provider.respond_with(lambda _: say('{"entries": []}'), task="extractor")


def learned(user: Caller) -> list[Json]:
    """The entries, once there are any."""
    listed: list[Json] = eventually(lambda: user.get(ENTRIES)["items"], bool)
    return listed


def last_user_text(brain: Brain, planned: str) -> str:
    """The input's message as the model was sent it at first."""
    messages: list[Any] = brain.requests(planned)[0].body["messages"]
    content = next(m for m in reversed(messages) if m["role"] == "user")["content"]
    return content if isinstance(content, str) else "".join(p["text"] for p in content)


def test_what_one_thread_teaches_another_one_sees_until_it_is_deleted(
    brain: Brain, system: System, ann: Caller, bob: Caller
) -> None:
    first = ann.thread("scholar")
    ann.ask(first, brain.plan(say("that is bad"), text=SAID))
    (entry,) = learned(ann)
    assert (entry["content"], entry["thread_id"]) == (CONTENT, first)
    assert (entry["score"], entry["verified"]) == (None, True)
    (found,) = ann.get(f"{ENTRIES}&query=import")["items"]
    assert found["id"] == entry["id"]
    assert found["score"] > 0
    assert bob.get(ENTRIES)["items"] == []

    script = [call("recall_memory", query="import"), say("I know")]
    planned = brain.plan(*script, text="what was it about shop-7?")
    run = ann.ask(ann.thread("scholar"), planned)
    assert f"- {CONTENT} (today)" in last_user_text(brain, planned)
    result = next(p for m in run["messages"] for p in m["content"] if p["type"] == "tool_result")
    assert [e["id"] for e in result["result"]["entries"]] == [entry["id"]]

    bob.want(404, "DELETE", f"/memory/entries/{entry['id']}")
    ann.want(204, "DELETE", f"/memory/entries/{entry['id']}")
    ann.want(404, "DELETE", f"/memory/entries/{entry['id']}")
    planned = brain.plan(say("no idea"), text="and what was it about shop-7?")
    ann.ask(ann.thread("scholar"), planned)
    assert "<memory>" not in last_user_text(brain, planned)


def test_a_deleted_threads_entries_are_gone(brain: Brain, ann: Caller) -> None:
    thread = ann.thread("scholar")
    ann.ask(thread, brain.plan(say("that is bad"), text=SAID))
    assert learned(ann)
    ann.want(204, "DELETE", f"/threads/{thread}")
    eventually(lambda: ann.get(ENTRIES)["items"], lambda items: items == [])

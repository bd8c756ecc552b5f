"""Compaction and previews in a 50-step run, and in a chat after it, with and without them; the observer takes
5 s.

The run is asked for two facts of page 3: the code, where the page begins, and the seal in its middle, which
no preview and no observation shows. `python tests/benchmarks/compaction.py` starts the one-machine system for
each agent and prints the answer, seconds, waits, the largest prompt, how much smaller it is than that of the
first agent, and the tokens that no provider's cache has: those behind what a prompt shares with the one
before."""

import json
import re
import statistics
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1])]

from support.providers.openai import FakeOpenAI, Response, call, say
from support.system.system import Brain, System

STEPS = 50
OBSERVER_S = 5.0
STEP_S = 0.4
"""A model answers in this time at the fastest."""
TURNS = 20


@dataclass
class Mind:
    """Reads page after page; the observer notes the code of each."""

    sizes: list[int] = field(default_factory=list)
    uncached: int = 0
    observed: int = 0
    _before: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def turn(self, body: Any) -> Response:
        messages = body["messages"]
        prompt = json.dumps(messages)
        self.sizes.append(len(prompt) // 4)
        self.uncached += (len(prompt) - common_length(prompt, self._before)) // 4
        self._before = prompt
        text = str([m for m in messages if m["role"] == "user"][-1]["content"])
        if "pages" not in text:
            return say("fine " + "words of an answer " * 40, delay_s=STEP_S)
        done = [
            int(n)
            for m in messages
            if m["role"] == "tool"
            for n in re.findall(r"page (\d+):", m["content"])
        ]
        page = max(done, default=0) + 1
        if page <= STEPS:
            return later(call("read_page", page=page))
        return answer(prompt, body)

    def observer(self, body: Any) -> Response:
        with self._lock:
            self.observed += 1
        text = json.dumps(body["messages"])
        found = re.findall(r"page (\d+): the code is (K-\d+)", text)
        lines = [f"* INFO (00:00) page {p} has the code {c}" for p, c in found]
        return say("\n".join(lines or ["* INFO (00:00) they talked"]), delay_s=OBSERVER_S)


def answer(prompt: str, body: Any) -> Response:
    """Say the code and the seal of page 3, or look for what the prompt does not show."""
    code = re.search(r"page 3(?:: the code is| has the code) (K-\d+)", prompt)
    seal = re.search(rf"the seal is (S-{3 * 6271})\.", prompt)
    results = [str(m["content"]) for m in body["messages"] if m["role"] == "tool"]
    can_open = any(tool["function"]["name"] == "read_result" for tool in body["tools"])
    if seal is None and can_open and '"characters"' not in results[-1]:
        return later(call("read_result"))
    if seal is None and can_open:
        ids = [r["id"] for r in json.loads(results[-1]) if json.loads(r["args"]) == {"page": 3}]
        return later(call("read_result", id=ids[0]))
    facts = (fact.group(1) if fact else "unknown" for fact in (code, seal))
    return say("page 3: {}, {}".format(*facts), delay_s=STEP_S)


def common_length(one: str, other: str) -> int:
    """Count the characters with which both texts begin."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))


def later(made: Response) -> Response:
    """The same, after the model's time."""
    return Response(calls=made.calls, delay_s=STEP_S)


def measure(agent: str, baseline: int | None = None) -> int:
    """One agent's long run and its chat. Return its largest prompt; `baseline`: that to compare with."""
    mind = Mind()
    with tempfile.TemporaryDirectory() as folder, FakeOpenAI() as provider:
        brain = Brain(provider)
        provider.respond_with(mind.turn)
        provider.respond_with(mind.observer, task="observer")
        with System(Path(folder), brain, checked=False) as system:
            user = system.caller("ann")
            user.ask(user.thread(agent), "warm up")
            thread = user.thread(agent)
            began = time.monotonic()
            run = user.over(
                user.start(thread, "read all the pages, then tell code and seal of page 3")["id"],
                300,
            )
            took = time.monotonic() - began
            history = system.aws("stepfunctions").get_execution_history(
                executionArn=system.services["state_machine_arn"].replace(
                    ":stateMachine:", ":execution:"
                )
                + f":{run['id']}-1",
                maxResults=1000,
            )["events"]
            waits = sum(
                e.get("stateEnteredEventDetails", {}).get("name") == "CompactNow" for e in history
            )
            observed = mind.observed
            largest, total, uncached = max(mind.sizes), sum(mind.sizes), mind.uncached
            turns = [chat(user, thread, n) for n in range(TURNS)]
    print(
        f"{agent}: {STEPS} steps in {took:.1f} s, {run['status']}, {run['text']!r}, waits {waits}, "
        f"observer calls {observed}, largest prompt {largest} tokens "
        f"({(baseline or largest) / largest:.1f} times smaller), not cached {uncached} of {total}; "
        f"turns after it: median {statistics.median(turns):.2f} s, longest {max(turns):.2f} s"
    )
    return largest


def chat(user: Any, thread: str, number: int) -> float:
    """Seconds of one turn."""
    began = time.monotonic()
    run = user.ask(thread, f"and number {number}? " + "some words " * 40)
    assert run["status"] == "success", run
    return time.monotonic() - began


if __name__ == "__main__":
    whole = measure("page-reader")
    for agent in ("page-keeper", "page-observer"):
        measure(agent, whole)

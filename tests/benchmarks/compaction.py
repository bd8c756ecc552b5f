"""The cost of compaction to the user while its model takes 5 s: a 50-step run and a chat, with and without
it.

`python tests/benchmarks/compaction.py` starts the one-machine system for each, prints seconds, the number of
waits, the largest prompt and how much smaller it is than what was read."""

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

from support.providers.openai import Answer, FakeOpenAI, call, say
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
    observed: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def turn(self, body: Any) -> Answer:
        messages = body["messages"]
        self.sizes.append(len(json.dumps(messages)) // 4)
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
            return call_later(page)
        seen = re.search(r"page 3 has the code (K-\d+)", json.dumps(messages))
        return say(f"page 3: {seen.group(1) if seen else 'unknown'}", delay_s=STEP_S)

    def observer(self, body: Any) -> Answer:
        with self._lock:
            self.observed += 1
        text = json.dumps(body["messages"])
        found = re.findall(r"page (\d+): the code is (K-\d+)", text)
        lines = [f"* INFO (00:00) page {p} has the code {c}" for p, c in found]
        return say("\n".join(lines or ["* INFO (00:00) they talked"]), delay_s=OBSERVER_S)


def call_later(page: int) -> Answer:
    """The next page, after the model's time."""
    made = call("read_page", page=page)
    return Answer(calls=made.calls, delay_s=STEP_S)


def measure(agent: str) -> None:
    """One agent's long run and its chat."""
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
                user.start(thread, "read all the pages, then tell the code of page 3")["id"], 300
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
            largest = max(mind.sizes)
            turns = [chat(user, thread, n) for n in range(TURNS)]
    print(
        f"{agent}: {STEPS} steps in {took:.1f} s, {run['status']}, {run['text']!r}, waits {waits}, "
        f"observer calls {observed}, largest prompt {largest} tokens "
        f"({STEPS * 2_000 / largest:.1f} times less than was read); turns after it: median "
        f"{statistics.median(turns):.2f} s, longest {max(turns):.2f} s"
    )


def chat(user: Any, thread: str, number: int) -> float:
    """Seconds of one turn."""
    began = time.monotonic()
    run = user.ask(thread, f"and number {number}? " + "some words " * 40)
    assert run["status"] == "success", run
    return time.monotonic() - began


if __name__ == "__main__":
    for agent in ("page-reader", "page-observer"):
        measure(agent)

"""The process `layover dev`: how it starts, ends, and comes back."""

import contextlib
import re
import signal
import subprocess
import threading
import time
from collections.abc import Collection, Iterator
from pathlib import Path

import httpx2
import psutil
import pytest

from support.providers.openai import call, say
from support.system.system import (
    LAYOVER,
    STOP_LIMIT_S,
    TESTS,
    Brain,
    Caller,
    System,
    eventually,
    in_time,
    unique,
)

STOPS_WITHIN_S = 10.0
FORCED_AFTER_S = 9.0


def family(system: System) -> list[psutil.Process]:
    """The runner's children, theirs included."""
    return list(psutil.Process(system.process.pid).children(recursive=True))


def stopped(
    system: System, number: signal.Signals, known: Collection[psutil.Process] = ()
) -> float:
    """Seconds until it ended, with code 0 and no process left, of those `known` before neither."""
    children = {*known, *family(system)}
    assert children
    began = time.monotonic()
    system.process.send_signal(number)
    assert system.process.wait(STOP_LIMIT_S) == 0
    took = time.monotonic() - began
    _, alive = psutil.wait_procs(children, timeout=1)
    assert not alive
    assert system.stop() == 0
    return took


def wait_for_ever(system: System, run_id: str) -> None:
    """Wait as a caller that is still there when the system stops; it answers 502 then, or not at all."""
    caller = Caller(system.url, "ann", None)
    with contextlib.suppress(httpx2.HTTPError):
        caller.call("GET", f"/runs/{run_id}?wait=20")
    caller.close()


@pytest.fixture
def own(brain: Brain, tmp_path: Path) -> Iterator[System]:
    """A system of the test's own, started by the test."""
    system = System(tmp_path, brain)
    yield system
    if hasattr(system, "process"):
        system.__exit__()


def test_a_port_in_use_is_said(system: System, tmp_path: Path) -> None:
    command = [str(LAYOVER), "dev", "--data", str(tmp_path), "--port", system.url.rsplit(":")[-1]]
    ended = subprocess.run(command, cwd=TESTS, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 1
    assert "in use" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_data_folder_in_use_is_said(system: System) -> None:
    command = [str(LAYOVER), "dev", "--data", str(system.folder / "data"), "--port", "0"]
    ended = subprocess.run(command, cwd=TESTS, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 1
    assert "--data" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_agents_are_reloaded_when_saved_and_a_broken_save_keeps_the_last_good_ones(
    own: System, brain: Brain
) -> None:
    """Also for environments that start while the file is broken."""
    own.agents = "breakable_agents"
    module = own.folder / "breakable_agents.py"
    text = "from layover import Agent\nplain = Agent(name='plain', instructions='{}')\n"
    module.write_text(text.format("be brief"))
    own.working = own.folder
    own.start()
    ann = own.caller()
    thread = ann.thread("plain")

    def instructions() -> str:
        plan = brain.plan(say("fine"))
        assert ann.ask(thread, plan)["status"] == "success"
        return str(brain.requests(plan)[0].body["messages"][0])

    def said(what: str) -> bool:
        return any(what in line for line in own.lines)

    assert "be brief" in instructions()
    module.write_text(text.format("be kind and patient"))
    eventually(lambda: said("reloaded plain"))
    assert "be kind and patient" in instructions()
    module.write_text("import no_such_module_anywhere\n")
    eventually(lambda: said("the agents were not reloaded"))
    assert said("breakable_agents.py:1: ModuleNotFoundError")
    own.kill("turn", "api")
    assert "be kind and patient" in instructions()


def test_sigterm_ends_everything_with_work_in_flight(own: System, brain: Brain) -> None:
    def ended() -> float:
        own.lines.clear()
        own.start()
        ann = own.caller()
        key = unique()
        run = ann.start(ann.thread(), brain.plan(call("slow", key=key), say("never")))
        ann.ask(ann.thread(), brain.plan(call("refund", order_id=key, amount=1), say("never")))
        eventually(lambda: own.ledger(key))
        waits = threading.Thread(target=wait_for_ever, args=(own, run["id"]))
        waits.start()
        took = stopped(own, signal.SIGTERM)
        waits.join(10)
        # What is ended by force tells nothing, and counts as too slow.
        forced = took >= FORCED_AFTER_S
        assert forced or any(re.search("still open: [2-9]", line) for line in own.lines)
        return STOPS_WITHIN_S if forced else took

    in_time(STOPS_WITHIN_S, ended)


def test_sigint_ends_it_and_what_was_said_is_there_after_a_restart(
    own: System, brain: Brain
) -> None:
    own.start()
    ann = own.caller("ann")
    thread, waits = ann.thread("plain", title="kept", metadata={"a": 1}), ann.thread()
    ann.ask(thread, brain.plan(say("first answer"), text="first question"))
    before, messages = ann.get(f"/threads/{thread}"), ann.messages(thread)
    run = ann.ask(waits, brain.plan(call("refund", order_id="r", amount=1), say("never")))

    def ended() -> float:
        if own.process.poll() is not None:
            own.start()
        return stopped(own, signal.SIGINT)

    in_time(STOPS_WITHIN_S, ended)
    own.start()
    again = own.caller("ann")
    assert {t["id"] for t in again.get("/threads")["items"]} == {thread, waits}
    after = again.get(f"/threads/{thread}")
    assert {k: after[k] for k in ("title", "metadata", "agent")} == {
        k: before[k] for k in ("title", "metadata", "agent")
    }
    assert again.messages(thread) == messages
    second = brain.plan(say("second answer"))
    assert again.ask(thread, second)["text"] == "second answer"
    assert "first answer" in str(brain.requests(second)[0].body)
    (call_id,) = [each["tool_call_id"] for each in again.suspended(run["id"])["pending"]]
    assert again.decide(run["id"], call_id, "deny").status == 202
    again.over(run["id"])
    assert again.ask(waits, brain.plan(say("goes on")))["text"] == "goes on"
    own.caller("bob").want(404, "GET", f"/threads/{thread}")


def test_a_signal_while_it_starts_ends_it(own: System) -> None:
    def ended() -> float:
        own.launch()
        # Between two children of its start there is none.
        first = eventually(lambda: family(own), within=60)
        return stopped(own, signal.SIGTERM, first)

    in_time(STOPS_WITHIN_S, ended)

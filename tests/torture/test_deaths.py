"""Deaths and doubles with a name: executions that die, attempts that come back, writes half done."""

import fcntl
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psutil
import pytest

from layover.recovery.stalled_branches import MIN_GRACE
from support.kills.judge import interrupted_in, judge, judge_interrupted
from support.kills.scenarios import WINDING
from support.kills.story import Point, Scenario, Story, in_doubt
from support.kills.torture import Client, Torture
from support.providers.openai import calls, say
from support.system.system import WAIT_S, Json, eventually, in_time, unique

RECOVERED_S = 15.0
"""A run goes on within 5 s; the rest is for a machine that is busy with tests."""
FOUND_S = 20.0
"""The same, behind a suspension and a decision."""
LATEST_S = 60.0
"""Until then it has to go on in any case."""
PATIENCE_S = 2.0
"""The local sweeper's: so long it leaves a run alone whose execution died."""


@pytest.fixture(scope="module")
def baseline(system: Torture) -> Story:
    """The winding run, undisturbed."""
    with system.client() as client:
        story = client.story(WINDING)
    judge(story, story)
    return story


def point(story: Story, function: str, *words: str, when: str = "after", k: int = 1) -> Point:
    """The point of this function with all these words."""
    found = [x.point for x in story.trace if x.function == function and x.k == k]
    named = [p for p in found if all(w in p for w in words)]
    assert named, f"{function} {words}: {sorted(set(found))}"
    return Point(function, named[0], k, when)


def ended(client: Client, scenario: Scenario, thread: str, run_id: str) -> Story:
    """The story of a run that was started by hand."""
    story = Story(scenario, client.name)
    client.drive(run_id)
    client.finished(run_id)
    return client.look(story, thread, run_id)


def busy(system: Torture, function: str) -> list[int]:
    """Processes of this function that work at the moment."""
    return [e["pid"] for e in system.environments(function) if e["busy"]]


def holder(system: Torture, owner: str, what: str) -> int:
    """The process that did this last for the owner."""
    return next(x.pid for x in reversed(system.trace(owner)) if what in x.point)


def by_a_new_user(
    life: Callable[[Torture, Client, Story], float], system: Torture, baseline: Story
) -> Callable[[], float]:
    """Return a function that measures a run's life, for `in_time`."""

    def lived() -> float:
        with system.client() as client:
            return life(system, client, baseline)

    return lived


# Accepted, decided, and then nothing


def test_an_accepted_run_whose_execution_never_started_is_started(
    system: Torture, baseline: Story
) -> None:
    in_time(RECOVERED_S, by_a_new_user(_started_s, system, baseline))


def _started_s(system: Torture, client: Client, baseline: Story) -> float:
    thread = client.thread()
    accepted = point(baseline, "api", "POST /threads/runs", "transact META")
    system.order_death(client.name, accepted)
    body, key = {"input": system.input_of(WINDING)}, unique("key")
    path = f"/threads/{thread}/runs"
    assert client.caller.call("POST", path, body, idempotency_key=key).status == 502
    died_at = time.monotonic()
    (run,) = client.caller.get(f"/threads/{thread}/runs")["items"]
    eventually(lambda: client.run(run["id"], 1), lambda r: r["pending"] != [], LATEST_S)
    took = time.monotonic() - died_at
    print(f"\nstarted by the sweeper, first step and suspension after {took:.1f} s")
    judge(ended(client, WINDING, thread, run["id"]), baseline)
    return took


def test_a_decision_whose_token_was_never_sent_is_found(system: Torture, baseline: Story) -> None:
    in_time(FOUND_S, by_a_new_user(_woken_s, system, baseline))


def _woken_s(system: Torture, client: Client, baseline: Story) -> float:
    thread = client.thread()
    run_id = client.start(thread, WINDING)
    run = client.suspended(run_id, 2)
    decided = point(baseline, "api", "approve", "=decided")
    system.order_death(client.name, decided)
    path = f"/runs/{run_id}/tool-calls/c3/approve"
    assert client.caller.call("POST", path, {"attempt": 1}).status == 502
    died_at = time.monotonic()
    client.until(lambda: _did(system.ledger_of(client.name), "refund"))
    took = time.monotonic() - died_at
    print(f"\nwoken by the sweeper after {took:.1f} s")
    assert [p["tool_call_id"] for p in run["pending"]] == ["c3", "c4"]
    # The same decision again is answered as the first would have been; another one is too late.
    assert client.caller.call("POST", path, {"attempt": 1}).status == 200
    assert client.caller.call("POST", path.replace("approve", "deny"), {"attempt": 1}).status == 409
    judge(ended(client, WINDING, thread, run_id), baseline)
    return took


def _did(ledger: list[Json], what: str) -> int:
    return sum(e["what"] == what for e in ledger)


# Executions


def test_a_second_execution_of_a_run_does_nothing(system: Torture, baseline: Story) -> None:
    with system.client() as client:
        thread = client.thread()
        run_id = client.start(thread, WINDING)
        eventually(lambda: client.run(run_id, 1), lambda r: len(r["pending"]) == 2)
        name = f"{run_id}-9"
        document = f'{{"v":1,"owner":"{client.name}","run_id":"{run_id}","n":9}}'
        machine = system.services["state_machine_arn"]
        system.states.start_execution(stateMachineArn=machine, name=name, input=document)
        arn = f"{system.execution_arn}:{name}"
        status = eventually(
            lambda: system.states.describe_execution(executionArn=arn)["status"],
            lambda s: s != "RUNNING",
        )
        assert status == "SUCCEEDED"
        assert len(client.run(run_id)["pending"]) == 2
        judge(ended(client, WINDING, thread, run_id), baseline)


def test_a_run_whose_execution_dies_while_it_waits_goes_on(
    system: Torture, baseline: Story
) -> None:
    in_time(FOUND_S, by_a_new_user(_refunded_s, system, baseline))


def _refunded_s(system: Torture, client: Client, baseline: Story) -> float:
    thread = client.thread()
    run_id = client.start(thread, WINDING)
    run = client.suspended(run_id, 2)
    system.stop_execution(run_id)
    decided_at = time.monotonic()
    client.decide(run_id, run["pending"][0])
    client.until(lambda: _did(system.ledger_of(client.name), "refund"))
    took = time.monotonic() - decided_at
    print(f"\nrefunded {took:.1f} s after the decision")
    story = ended(client, WINDING, thread, run_id)
    assert len(system.executions(run_id)) >= 2
    judge(story, baseline)
    return took


def test_a_run_whose_execution_dies_while_it_works_goes_on(system: Torture) -> None:
    order = unique("order")
    hold = calls(("hold", {"order": order}, "h1"))
    scenario = Scenario(f"held-{order}", (hold, say("held it")), "please hold it for me now")
    with system.client() as client:
        thread = client.thread()
        run_id = client.start(thread, scenario)
        eventually(lambda: system.ledger_of(client.name))
        first = holder(system, client.name, "Tool.invoke")
        stopped_at = time.time()
        system.stop_execution(run_id)
        system.open_gate(order)
        run = client.drive(run_id)
        print(f"\nover {time.time() - stopped_at:.1f} s after its execution was stopped")
        story = ended(client, scenario, thread, run_id)
        assert (run["status"], run["text"]) == ("success", "held it")
        interrupted = interrupted_in(story)
        if interrupted:
            # The tool was paused for longer than the sweeper is patient, and may not be through yet.
            others = [x.at for x in story.trace if x.function == "turn" and x.pid != first]
            assert min(others) - stopped_at >= PATIENCE_S
        else:
            assert [e["what"] for e in story.ledger] == ["hold", "held"]
        judge_interrupted(story, story, interrupted)


# Attempts that come back


def test_an_attempt_that_wakes_up_late_in_a_model_call_is_fenced(system: Torture) -> None:
    late = threading.Event()
    answers = [say("from the dead", hold=late), say("from the living")]
    scenario = Scenario(f"late-{unique()}", (answers,), "please answer me in time now")
    with system.client() as client:
        thread = client.thread()
        run_id = client.start(thread, scenario)
        system.brain.asked(system.input_of(scenario))
        zombie = holder(system, client.name, "OpenAIChat.complete turn")
        with _frozen(system, client.name, zombie):
            run = _overtaken(system, client, run_id)
        late.set()
        assert run["text"] == "from the living"
        _awake(system, zombie)
        story = ended(client, scenario, thread, run_id)
        assert story.run["text"] == "from the living"
        assert len(system.brain.requests(system.input_of(scenario))) == 2
        judge_alone(story)


def test_an_attempt_that_wakes_up_late_in_a_tool_is_fenced(system: Torture) -> None:
    order = unique("order")
    hold = calls(("hold", {"order": order}, "h1"))
    scenario = Scenario(f"late-{order}", (hold, say("never mind")), "please hold it in time now")
    with system.client() as client:
        thread = client.thread()
        run_id = client.start(thread, scenario)
        eventually(lambda: system.ledger_of(client.name))
        zombie = holder(system, client.name, "Tool.invoke")
        with _frozen(system, client.name, zombie):
            _overtaken(system, client, run_id)
            # Else it might learn that it is fenced first, and stop the tool.
            system.open_gate(order)
        _awake(system, zombie)
        eventually(lambda: _did(system.ledger_of(client.name), "held"))
        story = ended(client, scenario, thread, run_id)
        result = "Interrupted: hold may or may not have taken effect"
        assert story.results == {"h1": (result, True)}
        judge_interrupted(story, story, {"h1"})


@contextmanager
def _frozen(system: Torture, owner: str, zombie: int) -> Iterator[None]:
    """Freeze the process, but never with the trace's lock in its hands: no other process would get past
    it."""
    try:
        with system.file(owner, "trace").open() as trace:
            fcntl.flock(trace, fcntl.LOCK_EX)
            os.kill(zombie, signal.SIGSTOP)
            eventually(lambda: psutil.Process(zombie).status() == psutil.STATUS_STOPPED)
        yield
    finally:
        os.kill(zombie, signal.SIGCONT)


def _overtaken(system: Torture, client: Client, run_id: str) -> Json:
    """Stop the execution of a run; the run, ended by another one."""
    system.stop_execution(run_id)
    frozen_at = time.monotonic()
    run = client.drive(run_id)
    print(f"\novertaken after {time.monotonic() - frozen_at:.1f} s")
    return run


def _awake(system: Torture, zombie: int) -> None:
    """Until the process is through with what it was frozen in (or gone)."""
    eventually(lambda: zombie not in busy(system, "turn"), within=WAIT_S)


def judge_alone(story: Story) -> None:
    """Judge by what holds for any run, without one to compare it with."""
    judge(story, story)


# Functions that die again and again


def test_a_branch_that_keeps_dying_leaves_its_call_to_the_turn(
    system: Torture, baseline: Story
) -> None:
    with system.client() as client:
        opening = point(baseline, "resume", "STEP#0002#CALL#c3=open", when="before")
        system.order_death(client.name, opening, times=9)
        story = client.story(WINDING)
        judge_tries(system, client)
        judge_deaths(story, baseline)


def test_a_call_whose_branch_died_does_not_wait_for_its_siblings(
    system: Torture, baseline: Story
) -> None:
    with system.client() as client:
        opening = point(baseline, "resume", "STEP#0002#CALL#c3=open", when="before")
        system.order_death(client.name, opening, times=5)
        thread = client.thread()
        run_id = client.start(thread, WINDING)
        refund, book = client.suspended(run_id, 2)["pending"]
        client.decide(run_id, refund)
        client.until(lambda: _did(system.ledger_of(client.name), "refund"))
        judge_tries(system, client)
        left = eventually(lambda: client.run(run_id)["pending"], lambda p: len(p) == 1)
        assert left == [book]
        story = ended(client, WINDING, thread, run_id)
        # On a busy machine the sweeper may take the run away from one more.
        assert len(system.executions(run_id)) >= 2
        judge_deaths(story, baseline)


def judge_tries(system: Torture, client: Client) -> None:
    """Five; fewer only where the pauses between them, which are random, outlast the sweeper's grace: then it
    takes the call away from its branch."""
    trace, deaths = system.trace(client.name), system.deaths(client.name)
    decided = next(x.at for x in trace if x.function == "api" and "#CALL#c3=decided" in x.point)
    opened = next(x.at for x in trace if x.function == "turn" and "#CALL#c3=open" in x.point)
    print(f"\n{deaths} deaths, then made by a turn {opened - decided:.1f} s after the decision")
    early = opened - decided < MIN_GRACE.total_seconds()
    assert deaths == 5 or (1 <= deaths < 5 and not early)


def judge_deaths(story: Story, baseline: Story) -> None:
    """As the baseline: nothing was open when the process died."""
    assert in_doubt(story) == {}
    judge(story, baseline)


def test_a_turn_that_keeps_dying_fails_the_run_and_frees_the_thread(
    system: Torture, baseline: Story
) -> None:
    with system.client() as client:
        asking = point(baseline, "turn", "OpenAIChat.complete turn", when="before")
        system.order_death(client.name, asking, times=99)
        thread = client.thread()
        run_id = client.start(thread, WINDING)
        run = client.drive(run_id)
        assert system.deaths(client.name) == 5
        assert (run["status"], run["finish_reason"]) == ("failed", "error")
        assert run["error"]["type"] == "AttemptsUsedUp"
        assert client.caller.get(f"/threads/{thread}")["active_run"] is None
        types = [e["type"] for e in client.caller.events(run_id)]
        assert types.count("agent-start") <= 1
        assert types[-2:] == ["error", "finish"]
        system.file(client.name, "kill").unlink()
        client.closed(run_id)
        assert client.drive(client.start(thread, WINDING))["status"] == "success"


def test_a_tool_that_kills_its_process_is_not_run_again(system: Torture, baseline: Story) -> None:
    with system.client() as client:
        charged = point(baseline, "turn", "Tool.invoke c5", when="after")
        system.order_death(client.name, charged, times=9)
        story = client.story(WINDING)
        assert system.deaths(client.name) == 1
        assert in_doubt(story) == {"c5": True}
        judge(story, baseline)
        assert _did(story.ledger, "charge") == 2

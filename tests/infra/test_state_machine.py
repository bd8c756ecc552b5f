"""Lint of `infra/run.asl.json`: what AWS checks at creation and moto does not, and our own subset."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FILE = Path(__file__).parents[2] / "infra" / "run.asl.json"
MACHINE: dict[str, Any] = json.loads(FILE.read_text())
ENDS = ("Succeed", "Fail")
NOT_PORTABLE = {"Assign", "Arguments", "Output", "Variables", "QueryLanguage", "Condition"}
IDS = {"v", "op", "owner", "run_id", "n", "execution"}
FUNCTIONS = Path(__file__).parents[2] / "functions"


def machines(machine: dict[str, Any], name: str = "run") -> Iterator[tuple[str, dict[str, Any]]]:
    """The machine itself and those inside its Map and Parallel states."""
    yield name, machine
    for key, state in machine["States"].items():
        for each in [state["ItemProcessor"]] if "ItemProcessor" in state else []:
            yield from machines(each, f"{name}.{key}")
        for number, each in enumerate(state.get("Branches", [])):
            yield from machines(each, f"{name}.{key}.{number}")


def all_states() -> list[tuple[str, dict[str, Any]]]:
    """Every state with the path of its machine."""
    return [
        (f"{path}.{name}", state)
        for path, machine in machines(MACHINE)
        for name, state in machine["States"].items()
    ]


def successors(state: dict[str, Any]) -> list[str]:
    """Every state that can come next."""
    rules = [*state.get("Choices", []), *state.get("Catch", []), state]
    named = [rule["Next"] for rule in rules if "Next" in rule]
    return named + ([state["Default"]] if "Default" in state else [])


def keys_of(value: object) -> Iterator[str]:
    """Every key at any depth."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from keys_of(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from keys_of(inner)


MACHINES = dict(machines(MACHINE))
STATES = dict(all_states())
TASKS = {path: state for path, state in STATES.items() if state["Type"] == "Task"}
CALLBACKS = {p: s for p, s in TASKS.items() if s["Resource"].endswith(".waitForTaskToken")}

each_machine = pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
each_state = pytest.mark.parametrize("state", STATES.values(), ids=STATES)
each_task = pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
each_callback = pytest.mark.parametrize("task", CALLBACKS.values(), ids=CALLBACKS)


@each_machine
def test_every_next_state_exists(machine: dict[str, Any]) -> None:
    states = machine["States"]
    named = {machine["StartAt"], *(n for s in states.values() for n in successors(s))}
    assert named <= states.keys()


@each_machine
def test_every_state_can_be_reached(machine: dict[str, Any]) -> None:
    reached: set[str] = set()
    ahead = [machine["StartAt"]]
    while ahead:
        name = ahead.pop()
        if name not in reached:
            reached.add(name)
            ahead += successors(machine["States"][name])
    assert reached == machine["States"].keys()


@each_machine
def test_every_state_leads_to_an_end(machine: dict[str, Any]) -> None:
    states = machine["States"]
    ending = {n for n, s in states.items() if s["Type"] in ENDS or s.get("End")}
    assert ending
    while grown := {n for n, s in states.items() if ending & {*successors(s)}} - ending:
        ending |= grown
    assert ending == states.keys()


@each_state
def test_state_goes_on_in_one_way(state: dict[str, Any]) -> None:
    ways = [key for key in ("Next", "End") if key in state]
    if state["Type"] in (*ENDS, "Choice"):
        assert ways == []
    else:
        assert len(ways) == 1
    if state["Type"] == "Choice":
        assert "Default" in state


@each_state
def test_state_stays_in_the_portable_subset(state: dict[str, Any]) -> None:
    assert NOT_PORTABLE.isdisjoint(keys_of(state))
    assert "{%" not in json.dumps(state)


@each_task
def test_every_task_catches_everything(task: dict[str, Any]) -> None:
    assert "States.ALL" in task["Catch"][-1]["ErrorEquals"]


@each_task
def test_states_all_stands_alone_and_last(task: dict[str, Any]) -> None:
    for rules in (task["Retry"], task["Catch"]):
        for rule in rules[:-1]:
            assert "States.ALL" not in rule["ErrorEquals"]
        for rule in rules:
            assert "States.ALL" not in rule["ErrorEquals"] or len(rule["ErrorEquals"]) == 1


@each_task
def test_retries_are_bounded_and_spread(task: dict[str, Any]) -> None:
    for rule in task["Retry"]:
        assert 1 <= rule["MaxAttempts"] <= 6
        assert rule["IntervalSeconds"] >= 1
        assert rule["JitterStrategy"] == "FULL"


@each_task
def test_every_task_has_a_limit_of_time(task: dict[str, Any]) -> None:
    assert ("TimeoutSeconds" in task) != ("TimeoutSecondsPath" in task)
    # A minute more than the longest function, so that a retry does not overlap a live one.
    assert 60 < task.get("TimeoutSeconds", 120) <= 960


@each_task
def test_payload_has_a_version_and_ids_only(task: dict[str, Any]) -> None:
    payload = task["Parameters"]["Payload"]
    assert payload["v"] == 1
    names = {name.removesuffix(".$") for name in payload}
    assert names >= IDS
    own = {"await": {"call", "token"}, "resume": {"call", "output"}, "settle": {"error"}}
    assert names - IDS == own.get(payload["op"], set())


@each_task
def test_function_of_every_task_is_there(task: dict[str, Any]) -> None:
    named = re.fullmatch(r"\$\{(\w+)FunctionArn\}", task["Parameters"]["FunctionName"])
    assert named is not None
    assert (FUNCTIONS / named[1].lower() / "handler.py").is_file()


@each_task
def test_only_named_fields_of_an_answer_are_kept(task: dict[str, Any]) -> None:
    """A function's whole answer, with Lambda's metadata around it, never gets into the state."""
    assert task["ResultPath"] is None or "ResultSelector" in task or is_callback(task)


def is_callback(task: dict[str, Any]) -> bool:
    """Whether the task waits for its token."""
    return str(task["Resource"]).endswith(".waitForTaskToken")


@each_callback
def test_waiting_task_gives_its_token_away(task: dict[str, Any]) -> None:
    assert task["Parameters"]["Payload"]["token.$"] == "$$.Task.Token"


@each_callback
def test_answer_of_a_waiting_task_is_told_from_an_error(task: dict[str, Any]) -> None:
    assert task["ResultSelector"] == {"answer.$": "$"}
    paths = {rule["ResultPath"] for rule in task["Catch"] if rule["Next"] == "Resume"}
    assert paths == {task["ResultPath"]}


@each_callback
def test_waiting_task_goes_on_when_time_is_up(task: dict[str, Any]) -> None:
    assert any("States.Timeout" in rule["ErrorEquals"] for rule in task["Catch"])
    assert all("States.Timeout" not in rule["ErrorEquals"] for rule in task["Retry"])


def test_memory_never_fails_a_run() -> None:
    branches = [m for path, m in MACHINES.items() if path.startswith("run.Remember.")]
    assert len(branches) == 2
    for branch in branches:
        assert all(state["Type"] != "Fail" for state in branch["States"].values())


def test_every_branch_of_the_approvals_ends_well() -> None:
    states = MACHINES["run.Approvals"]["States"]
    assert all(state["Type"] != "Fail" for state in states.values())
    assert MACHINE["States"]["Approvals"]["MaxConcurrency"] == 40


def test_there_is_one_waiting_task() -> None:
    assert list(CALLBACKS) == ["run.Approvals.Await"]


def test_run_that_was_stopped_looks_again_whether_it_may_go_on() -> None:
    routes = {c["StringEquals"]: c["Next"] for c in MACHINE["States"]["Route"]["Choices"]}
    pause = MACHINE["States"][routes["paused"]]
    assert (pause["Type"], pause["Next"]) == ("Wait", "Turn")
    # A minute of waiting costs three transitions; an execution has 25,000 events.
    assert pause["Seconds"] >= 60

"""Lint of `infra/run.asl.json`: what AWS checks at creation and moto does not, and our own subset."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.session import get_session

from layover.errors import ProviderAway
from layover.runs.executions import BRANCH_EVENTS, PAUSE_EVENTS, SETTLE_EVENTS
from layover.runs.turn import _result
from layover.values.deployment.settings import Settings
from layover.values.runs.payload import MemoryWork, WaitingCall
from layover.values.runs.run import MAX_WINDOW, TURN_EVENTS
from support.aws import faults

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
        most = 288 if rule["ErrorEquals"] == [ProviderAway.__name__] else 6
        assert 1 <= rule["MaxAttempts"] <= most
        assert rule["IntervalSeconds"] >= 1
        assert rule["JitterStrategy"] == "FULL"


@each_task
def test_every_task_is_tried_again_after_every_fault_of_the_platform(task: dict[str, Any]) -> None:
    first, second, *_ = task["Retry"]
    assert {*faults.STEP_FUNCTIONS, *faults.INVOKE, *faults.NEVER_BEGUN} == {*first["ErrorEquals"]}
    assert {*faults.DIED} <= {*second["ErrorEquals"]}
    # Tried for long enough that a passing fault has passed.
    assert (first["MaxAttempts"], first["MaxDelaySeconds"]) == (6, 20)


def test_every_error_of_an_invocation_is_in_the_list() -> None:
    model = get_session().get_service_model("lambda").operation_model("Invoke")
    named = {f"Lambda.{shape.name}" for shape in model.error_shapes}
    assert named <= {*faults.STEP_FUNCTIONS, *faults.INVOKE, *faults.REQUEST}


BEFORE_SETTLE = ("Turn", "Route", "UnknownStatus")
HEARERS = {"run.Approvals.Await": "Resume", "run.AwaitDecision": "TurnWithAnswer"}
"""The state that looks at the answer to a token, by the task that gives the token away."""


@each_callback
@pytest.mark.parametrize("error", sorted(faults.ALL))
def test_error_of_a_waiting_task_ends_no_branch(error: str, task: dict[str, Any]) -> None:
    """The state that settles the call looks at the error. Errors that `States.ALL` does not match are
    named."""
    rules = task["Catch"]
    terminal = {"States.DataLimitExceeded", "States.Runtime"}
    names = {error} if error in terminal else {error, "States.ALL"}
    caught = [rule["Next"] for rule in rules if names & {*rule["ErrorEquals"]}]
    # A machine that cannot be evaluated is our own mistake, and nothing catches it.
    assert caught[:1] == ([] if error == "States.Runtime" else [task["Next"]])


def test_branch_that_waits_again_rests_before() -> None:
    states = MACHINES["run.Approvals"]["States"]
    first = states["Settled"]["Choices"][0]
    assert [rule["Variable"] for rule in first["And"]] == ["$.call.status", "$.call.pause_s"]
    rest = states[first["Next"]]
    assert (rest["Type"], rest["SecondsPath"], rest["Next"]) == ("Wait", "$.call.pause_s", "Await")


def test_the_one_call_that_waits_again_rests_before() -> None:
    ways = {c["StringEquals"]: c["Next"] for c in MACHINE["States"]["Route"]["Choices"]}
    rest = MACHINE["States"][ways["rest"]]
    assert (rest["Type"], rest["SecondsPath"]) == ("Wait", "$.step.answer.call.pause_s")
    assert rest["Next"] == ways["await"] == "AwaitDecision"


@pytest.mark.parametrize("path", ["run.Approvals.Resume", "run.TurnWithAnswer"])
def test_answer_that_is_too_large_to_go_on_is_left_behind(path: str) -> None:
    """Await's own output fits; with the rest of what its hearer is given it may not."""
    name = path.rsplit(".", 1)[-1]
    (waits,) = [p for p, hearer in HEARERS.items() if hearer == name]
    assert STATES[path]["Catch"][0] == {
        "ErrorEquals": ["States.DataLimitExceeded"],
        "ResultPath": STATES[waits]["ResultPath"],
        "Next": name,
    }


def test_answer_of_a_token_is_not_lost_where_the_turn_that_hears_it_fails() -> None:
    """Settle sends it there again: nothing has replaced `$.step` meanwhile."""
    (choice,) = MACHINE["States"]["TurnAgain"]["Choices"]
    assert choice == {"Variable": "$.step.output", "IsPresent": True, "Next": "TurnWithAnswer"}
    assert STATES["run.Settle"]["ResultPath"] == "$.settled"
    for path in ("run.Turn", "run.TurnWithAnswer"):
        assert STATES[path]["ResultPath"] == "$.step"


def test_another_attempt_rests_before_for_as_long_as_settle_says() -> None:
    states = MACHINE["States"]
    ways = {c["StringEquals"]: c["Next"] for c in states["AfterSettle"]["Choices"]}
    assert ways == {"again": "RestBeforeTurn", "left": "Done"}
    rest = states["RestBeforeTurn"]
    assert (rest["Type"], rest["SecondsPath"]) == ("Wait", "$.settled.pause_s")
    assert (rest["Next"], states["TurnAgain"]["Default"]) == ("TurnAgain", "Turn")


def test_branch_that_ends_in_an_answer_that_is_too_large_is_settled() -> None:
    """`States.ALL` does not match it."""
    rules = {rule["ErrorEquals"][0]: rule["Next"] for rule in STATES["run.Approvals"]["Catch"]}
    assert rules == {"States.DataLimitExceeded": "Settle", "States.ALL": "Settle"}


def events_of(path: str) -> int:
    """Most events of a state: entered and left, and of a task scheduled, started, submitted (where it
    waits) and ended, each time that it is tried."""
    state = STATES[path]
    if state["Type"] != "Task":
        return 2
    tries: int = 1 + sum(rule["MaxAttempts"] for rule in state["Retry"])
    return 2 + tries * (4 if is_callback(state) else 3)


@pytest.mark.parametrize(
    ("counted", "states"),
    [
        (TURN_EVENTS, ["Turn", "Route", "CompactNow"]),
        (PAUSE_EVENTS, ["Turn", "Route", "Pause"]),
        (SETTLE_EVENTS, [*BEFORE_SETTLE, "Settle", "AfterSettle", "RestBeforeTurn", "TurnAgain"]),
        (
            BRANCH_EVENTS,
            [
                "Approvals",
                *(f"Approvals.{s}" for s in ("Await", "Resume", "Settled", "Rest", "BranchDone")),
            ],
        ),
        (TURN_EVENTS, ["TurnWithAnswer", "Route", "CompactNow"]),
        (BRANCH_EVENTS, ["TurnWithAnswer", "Route", "RestBeforeAwait", "AwaitDecision"]),
    ],
    ids=["turn", "pause", "settle", "branch", "heard", "no decision"],
)
def test_history_is_counted_with_everything_that_may_fail(counted: int, states: list[str]) -> None:
    # Two more: a Map's iteration begins and ends.
    assert counted >= sum(events_of(f"run.{name}") for name in states) + 2


def test_history_has_room_for_what_nobody_counts_any_more() -> None:
    """A successor is started after the limit: until then all calls may wait once more, and the run end."""
    last = ("run.Compact", "run.Extract", "run.Settle", "run.Done")
    end = sum(events_of(p) for p in last) + 10
    most = Settings().max_history + MAX_WINDOW * BRANCH_EVENTS + TURN_EVENTS + end
    assert most < 25_000


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
    heard = {"call", "output"} if "call.$" in payload else set()
    own = {"await": {"call", "token"}, "resume": heard, "turn": heard, "settle": {"error"}}
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


@pytest.mark.parametrize("name", ["run.Turn", "run.TurnWithAnswer"])
def test_field_of_an_answer_is_read_only_by_the_state_that_needs_it(name: str) -> None:
    """Functions of an earlier release, to which a rollback goes, do not answer what was added after them. A
    selector that names a missing field fails the task."""
    assert STATES[name]["ResultSelector"] == {"answer.$": "$.Payload"}


def is_callback(task: dict[str, Any]) -> bool:
    """Return whether the task waits for its token."""
    return str(task["Resource"]).endswith(".waitForTaskToken")


@each_callback
def test_waiting_task_gives_its_token_away(task: dict[str, Any]) -> None:
    assert task["Parameters"]["Payload"]["token.$"] == "$$.Task.Token"


@each_callback
def test_answer_of_a_waiting_task_is_told_from_an_error(task: dict[str, Any]) -> None:
    assert task["ResultSelector"] == {"answer.$": "$"}
    paths = {rule["ResultPath"] for rule in task["Catch"] if rule["Next"] == task["Next"]}
    assert paths == {task["ResultPath"]}


@each_callback
def test_waiting_task_goes_on_when_time_is_up(task: dict[str, Any]) -> None:
    (everything,) = [r for r in task["Catch"] if r["ErrorEquals"] == ["States.ALL"]]
    assert everything["Next"] == task["Next"]
    assert all("States.Timeout" not in rule["ErrorEquals"] for rule in task["Retry"])


def reached_from(name: str) -> set[str]:
    """Every state that may come from this one on, and itself."""
    ahead, reached = [name], set[str]()
    while ahead:
        name = ahead.pop()
        reached.add(name)
        ahead += [n for n in successors(MACHINE["States"][name]) if n not in reached]
    return reached


def test_memory_never_fails_a_run() -> None:
    assert reached_from("Compact") == {"Compact", "Extract", "Done"}


def test_execution_of_a_run_that_failed_fails_whatever_becomes_of_its_memory() -> None:
    ways = {c["StringEquals"]: c["Next"] for c in MACHINE["States"]["Route"]["Choices"]}
    for way in ("fail", "learn_then_fail", "condense_then_fail"):
        reached = reached_from(ways[way])
        assert {n for n in reached if MACHINE["States"][n]["Type"] in ENDS} == {"RunFailed"}
        assert not any(MACHINE["States"][n].get("End") for n in reached)


@pytest.mark.parametrize("name", ["Compact", "Extract"])
def test_memory_of_a_run_that_failed_is_asked_as_that_of_any_other(name: str) -> None:
    either, other = MACHINE["States"][name], MACHINE["States"][f"{name}AfterFailure"]
    for key in ("Resource", "Parameters", "TimeoutSeconds", "Retry"):
        assert either[key] == other[key]


def test_memory_waits_for_its_model_for_hours() -> None:
    (rule,) = MACHINE["States"]["Extract"]["Retry"][2:]
    # Half of a delay is random, on average.
    assert rule["MaxAttempts"] * rule["MaxDelaySeconds"] / 2 >= 12 * 3_600


def test_a_run_whose_provider_is_away_waits_as_long_as_turn_says() -> None:
    wait = MACHINE["States"]["AwaitProvider"]
    assert (wait["Type"], wait["SecondsPath"], wait["Next"]) == (
        "Wait",
        "$.step.answer.pause_s",
        "Turn",
    )


def test_every_branch_of_the_approvals_ends_well() -> None:
    states = MACHINES["run.Approvals"]["States"]
    assert all(state["Type"] != "Fail" for state in states.values())
    assert MACHINE["States"]["Approvals"]["MaxConcurrency"] == 40


def test_every_waiting_task_leads_to_who_settles_the_call() -> None:
    assert {path: task["Next"] for path, task in CALLBACKS.items()} == HEARERS


def test_no_two_states_have_one_name() -> None:
    """Not in one machine's branches either: Step Functions refuses it."""
    names = [path.rsplit(".", 1)[-1] for path in STATES]
    assert len(names) == len({*names})


def test_every_way_that_turn_answers_with_is_known() -> None:
    ways = {choice["StringEquals"] for choice in MACHINE["States"]["Route"]["Choices"]}
    suspended = [_result("suspended", [item(p)] * n) for n in (1, 2) for p in (0, 1)]
    ended = [
        _result("over", memory=work, has_failed=f) for work in MemoryWork for f in (False, True)
    ]
    others = [_result(status) for status in ("yielded", "compact", "paused", "away", "left")]
    assert {answer["next"] for answer in (*suspended, *ended, *others)} == ways


def item(pause_s: int) -> WaitingCall:
    """A call that waits."""
    return WaitingCall(key="k", attempt=1, timeout_s=1, pause_s=pause_s)


def transitions(*ways: str) -> list[str]:
    """The states that an execution enters whose Turns answer with these ways: each is billed."""
    states, name, taken = MACHINE["States"], "Turn", list(ways)
    entered = [name]
    while (state := states[name])["Type"] not in ENDS and not state.get("End"):
        if state["Type"] == "Choice":
            way = taken.pop(0)
            name = next(c["Next"] for c in state["Choices"] if c["StringEquals"] == way)
        else:
            name = state["Next"]
        entered.append(name)
    return entered


def test_run_takes_three_transitions_and_four_where_it_is_condensed() -> None:
    assert transitions("done") == ["Turn", "Route", "Done"]
    assert transitions("learn") == ["Turn", "Route", "Extract"]
    assert transitions("condense") == ["Turn", "Route", "Compact", "Extract"]


def test_run_that_failed_takes_no_transition_more_where_memory_has_nothing_to_do() -> None:
    assert transitions("fail") == ["Turn", "Route", "RunFailed"]
    assert transitions("learn_then_fail")[2:] == ["ExtractAfterFailure", "RunFailed"]


def test_approval_of_one_call_takes_three_transitions_more() -> None:
    for end in ("done", "learn", "condense"):
        assert len(transitions("await", end)) == len(transitions(end)) + 3


def test_run_that_was_stopped_looks_again_whether_it_may_go_on() -> None:
    routes = {c["StringEquals"]: c["Next"] for c in MACHINE["States"]["Route"]["Choices"]}
    pause = MACHINE["States"][routes["pause"]]
    assert (pause["Type"], pause["Next"]) == ("Wait", "Turn")
    # A minute of waiting costs three transitions; an execution has 25,000 events.
    assert pause["Seconds"] >= 60

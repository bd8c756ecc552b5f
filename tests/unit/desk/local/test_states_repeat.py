"""State machines whose time and chance are given: the same seed gives the same history."""

import asyncio
import json
from typing import Any

import pytest

from layover.clock import loop_time
from layover.desk.local.aws.states.errors import StateFailed
from layover.desk.local.aws.states.service import StepFunctions
from layover.desk.local.aws.storage import Storage
from layover.dice import SeededDice
from support.worlds.loops import Skipping

RETRY = {"ErrorEquals": ["States.ALL"], "MaxAttempts": 9, "JitterStrategy": "FULL"}
MACHINE = {
    "StartAt": "Pause",
    "States": {
        "Pause": {"Type": "Wait", "Seconds": 3600, "Next": "Try"},
        "Try": {"Type": "Task", "Resource": "try", "Retry": [RETRY], "Next": "Ask"},
        "Ask": {
            "Type": "Task",
            "Resource": "arn:aws:states:::lambda:invoke.waitForTaskToken",
            "Parameters": {"token.$": "$$.Task.Token"},
            "TimeoutSeconds": 86_400,
            "End": True,
        },
    },
}


async def history(seed: int, *, answers: bool = True) -> list[dict[str, Any]]:
    """Return the events of an execution whose first four attempts fail."""
    failures = iter(range(4))

    async def task(resource: str, parameters: Any) -> Any:
        if resource == "try" and next(failures, None) is not None:
            raise StateFailed("Broken", "once more")
        if resource != "try" and answers:
            output = {"taskToken": parameters["token"], "output": json.dumps(parameters)}
            states.call("SendTaskSuccess", output)
        return {}

    states = StepFunctions(Storage(), task, now=loop_time, dice=SeededDice(seed))
    made = {"name": "m", "definition": json.dumps(MACHINE), "roleArn": "r"}
    machine = states.call("CreateStateMachine", made)["stateMachineArn"]
    started = states.call("StartExecution", {"stateMachineArn": machine})
    execution = {"executionArn": started["executionArn"]}
    while states.call("DescribeExecution", execution)["status"] == "RUNNING":
        await asyncio.sleep(60)
    return list(states.call("GetExecutionHistory", execution)["events"])


async def took(*moves: tuple[float, float], restarts: bool = False) -> float:
    """Return the seconds that an execution without retries and answers takes. `moves`: the time of each move
    of its timers, and its seconds; the service may then start anew with what is stored."""

    async def task(resource: str, parameters: Any) -> Any:
        return {}

    storage = Storage()
    states = StepFunctions(storage, task, now=loop_time, dice=SeededDice(1))
    made = {"name": "m", "definition": json.dumps(MACHINE), "roleArn": "r"}
    machine = states.call("CreateStateMachine", made)["stateMachineArn"]
    started = states.call("StartExecution", {"stateMachineArn": machine})
    execution = {"executionArn": started["executionArn"]}
    for at, seconds in moves:
        await asyncio.sleep(at)
        states.advance(seconds)
        if restarts:
            await states.suspend()
            states = StepFunctions(storage, task, now=loop_time, dice=SeededDice(1))
            states.resume()
    while (found := states.call("DescribeExecution", execution))["status"] == "RUNNING":
        await asyncio.sleep(1)
    return float(found["stopDate"] - started["startDate"])


def played(seed: int, *, answers: bool = True) -> list[dict[str, Any]]:
    with asyncio.Runner(loop_factory=Skipping) as runner:
        return runner.run(history(seed, answers=answers))


def test_one_seed_gives_one_history_with_its_times_and_tokens() -> None:
    assert played(1) == played(1)
    assert played(1) != played(2)


def test_an_hour_and_the_limit_of_a_wait_pass_on_the_loop() -> None:
    events = played(1, answers=False)
    assert events[-1]["type"] == "ExecutionFailed"
    assert 90_000 <= events[-1]["timestamp"] - events[0]["timestamp"] < 90_100


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize(
    ("moves", "seconds"),
    [
        ([], 90_000),
        ([(600, 3_000)], 87_000),
        ([(600, 4_000)], 87_000),
        ([(600, 3_000), (5_000, 80_000)], 7_000),
        ([(600, -1_000)], 91_000),
    ],
    ids=["none", "part of a wait", "all of a wait", "a wait and a limit", "back"],
)
def test_a_move_takes_its_seconds_from_the_wait_or_the_limit_under_way(
    moves: list[tuple[float, float]], seconds: float, restarts: bool
) -> None:
    with asyncio.Runner(loop_factory=Skipping) as runner:
        assert runner.run(took(*moves, restarts=restarts)) == pytest.approx(seconds, abs=5)

"""Executions, task tokens and the request for a decision: in memory, and on Step Functions."""

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from layover.adapters.callbacks.stepfunctions import StepFunctions
from layover.errors import RetryableError
from layover.inmemory.callbacks import InMemoryCallbacks
from layover.ports import Callbacks
from support.aws.emulator import LocalAws


def on_aws(aws: LocalAws, machine: str | None = None) -> StepFunctions:
    return StepFunctions(
        aws.services.client("states"),
        aws.services.client("events"),
        machine or aws.state_machine_arn,
        "default",
    )


@pytest.fixture(params=["memory", "stepfunctions"])
def callbacks(request: pytest.FixtureRequest) -> Callbacks:
    if request.param == "memory":
        return InMemoryCallbacks()
    return on_aws(request.getfixturevalue("aws"))


@pytest.fixture
def states(aws: LocalAws) -> StepFunctions:
    return on_aws(aws)


async def eventually(check: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 60
    while not (answer := await asyncio.to_thread(check)):
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.02)
    return answer


async def token_of(aws: LocalAws, execution: str) -> str:
    key = {"pk": {"S": "TOKENS"}, "sk": {"S": execution}}

    def stored() -> Any:
        client = aws.client("dynamodb")
        return client.get_item(TableName=aws.table, Key=key, ConsistentRead=True).get("Item")

    item = await eventually(stored)
    return str(item["task_token"]["S"])


def described(aws: LocalAws, execution: str) -> dict[str, Any]:
    arn = f"{aws.state_machine_arn.replace(':stateMachine:', ':execution:')}:{execution}"
    found: dict[str, Any] = aws.client("stepfunctions").describe_execution(executionArn=arn)
    return found


# Both


async def test_execution_that_was_never_started_is_not_alive_and_may_be_stopped(
    callbacks: Callbacks,
) -> None:
    assert not await callbacks.alive("run_never-1")
    await callbacks.stop("run_never-1", "no reason")


async def test_execution_is_alive_once_started(callbacks: Callbacks, owner: str) -> None:
    await callbacks.start(owner, f"run_{owner}", 1)
    assert await callbacks.alive(f"run_{owner}-1")
    assert not await callbacks.alive(f"run_{owner}-2")


async def test_start_that_is_repeated_is_the_same_execution(
    callbacks: Callbacks, owner: str
) -> None:
    for _ in range(2):
        await callbacks.start(owner, f"run_{owner}_twice", 1)
    assert await callbacks.alive(f"run_{owner}_twice-1")


async def test_token_that_nobody_waits_for_is_fine(callbacks: Callbacks) -> None:
    await callbacks.wake("no such token")


# In memory


async def test_execution_in_memory_lives_until_it_is_stopped() -> None:
    callbacks = InMemoryCallbacks()
    await callbacks.start("ann", "r", 1)
    await callbacks.stop("r-1", "cancelled")
    assert not await callbacks.alive("r-1")


async def test_memory_writes_down_what_it_was_asked_for() -> None:
    callbacks = InMemoryCallbacks()
    await callbacks.start("ann", "r", 2)
    await callbacks.wake("t")
    await callbacks.publish("ApprovalRequested", {"run_id": "r"})
    assert (callbacks.started, callbacks.woken) == ([("ann", "r", 2)], ["t"])
    assert callbacks.events == [("ApprovalRequested", {"run_id": "r"})]


# On Step Functions


async def test_fault_of_the_orchestrator_is_worth_another_try(aws: LocalAws) -> None:
    nowhere = on_aws(aws, f"{aws.state_machine_arn}-unknown")
    with pytest.raises(RetryableError, match="StateMachineDoesNotExist"):
        await nowhere.start("ann", "r", 1)


async def test_execution_gets_ids_alone(aws: LocalAws, states: StepFunctions, owner: str) -> None:
    run_id = f"run_{owner}_ids"
    await states.start(owner, run_id, 3)
    found = await asyncio.to_thread(described, aws, f"{run_id}-3")
    assert json.loads(found["input"]) == {"v": 1, "owner": owner, "run_id": run_id, "n": 3}
    await states.stop(f"{run_id}-3", "done")


async def test_token_wakes_its_branch_once_and_later_sends_are_fine(
    aws: LocalAws, states: StepFunctions, owner: str
) -> None:
    name = f"run_{owner}_woken-1"
    await states.start(owner, name.removesuffix("-1"), 1)
    token = await token_of(aws, name)
    for _ in range(2):
        await states.wake(token)
    found = await eventually(lambda: (d := described(aws, name))["status"] != "RUNNING" and d)
    assert (found["status"], json.loads(found["output"])) == ("SUCCEEDED", {"layover": "decided"})
    await states.wake(token)
    # The name is used up: a start that comes late starts nothing.
    await states.start(owner, name.removesuffix("-1"), 1)
    assert not await states.alive(name)


async def test_token_of_a_stopped_execution_is_fine(
    aws: LocalAws, states: StepFunctions, owner: str
) -> None:
    name = f"run_{owner}_stopped-1"
    await states.start(owner, name.removesuffix("-1"), 1)
    token = await token_of(aws, name)
    for _ in range(2):
        await states.stop(name, "cancelled")
    # moto lets a stopped execution run until its token is answered; AWS ends it at once.
    await states.wake(token)
    await eventually(lambda: described(aws, name)["status"] != "RUNNING")
    assert not await states.alive(name)


async def test_request_for_a_decision_is_published_whole(
    aws: LocalAws, states: StepFunctions, owner: str
) -> None:
    detail = {"run_id": owner, "args": {"name": "Zoë"}, "payload": None, "task_token": "t"}
    await states.publish("ApprovalReminder", detail)
    published = aws.published()[-1]
    assert (published["source"], published["detail_type"]) == ("layover", "ApprovalReminder")
    assert (published["event_bus"], published["detail"]) == ("default", detail)


@pytest.mark.parametrize("letter", ["x", "ü", "\n"])
async def test_request_that_is_too_large_keeps_its_ids_and_token(
    aws: LocalAws, states: StepFunctions, owner: str, letter: str
) -> None:
    large = {"text": letter * 240_000}
    detail = {"run_id": owner, "task_token": "t", "args": large, "denied_before": [large]}
    whole = {**detail, "payload": large, "resume_schema": large}
    await states.publish("ApprovalRequested", whole)
    published = aws.published()[-1]["detail"]
    left_out = ("args", "payload", "resume_schema", "denied_before")
    expected = {"run_id": owner, "task_token": "t", "truncated": True}
    assert published == {**expected, **dict.fromkeys(left_out)}

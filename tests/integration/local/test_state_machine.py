"""The real run.asl.json on the real interpreter, with toy functions behind it."""

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from layover.desk.local.aws.emulator import STATE_MACHINE_ARN

from .conftest import Served, eventually


async def start(served: Served, scenario: str, run_id: str) -> str:
    states = served.client("stepfunctions")
    answer = await asyncio.to_thread(
        states.start_execution,
        stateMachineArn=STATE_MACHINE_ARN,
        name=f"{run_id}-1",
        input=json.dumps({"v": 1, "owner": scenario, "run_id": run_id, "n": 1}),
    )
    return str(answer["executionArn"])


async def end_of(served: Served, arn: str, within: float = 15.0) -> str:
    states = served.client("stepfunctions")

    def closed() -> str | None:
        status = str(states.describe_execution(executionArn=arn)["status"])
        return None if status == "RUNNING" else status

    return str(await eventually(closed, within))


async def token(served: Served, run_id: str, key: str) -> str:
    path = served.notes / f"{run_id}-token-{key}"
    return str(await eventually(lambda: path.exists() and path.read_text()))


def outputs(served: Served, run_id: str) -> list[Any]:
    return [json.loads(line) for line in served.lines(f"{run_id}-outputs")]


async def test_turn_that_fails_for_good_is_settled(served: Served) -> None:
    arn = await start(served, "never-heals", "hopeless")
    assert await end_of(served, arn) == "FAILED"
    assert served.lines("hopeless")[-1] == "settle ValueError"


async def test_turn_that_crashes_is_tried_again(served: Served) -> None:
    arn = await start(served, "crash-once", "crashing")
    assert await end_of(served, arn) == "SUCCEEDED"
    assert served.lines("crashing").count("turn") == 2


async def test_a_pause_ends_with_the_timers_that_the_clock_moves(served: Served) -> None:
    arn = await start(served, "away", "paused")
    await eventually(lambda: served.lines("paused"))
    states = served.client("stepfunctions")

    def is_paused() -> bool:
        history = states.get_execution_history(executionArn=arn, reverseOrder=True, maxResults=1)
        return bool(history["events"][0]["type"] == "WaitStateEntered")

    await eventually(is_paused)
    await asyncio.to_thread(served.runner.aws.advance_timers, 3_600)
    assert await end_of(served, arn) == "SUCCEEDED"
    assert served.lines("paused").count("turn") == 2


async def test_cause_of_a_task_failure_arrives(served: Served) -> None:
    arn = await start(served, "walk", "denied")
    states = served.client("stepfunctions")
    for key in ("c1", "c2"):
        await asyncio.to_thread(
            states.send_task_failure,
            taskToken=await token(served, "denied", key),
            error="Denied",
            cause="too expensive",
        )
    assert await end_of(served, arn) == "SUCCEEDED"
    assert outputs(served, "denied") == [{"Error": "Denied", "Cause": "too expensive"}] * 2


@pytest.mark.parametrize(
    ("failure", "arrives"), [({"error": "Rejected"}, "Rejected"), ({}, None)], ids=str
)
async def test_task_failure_needs_neither_error_nor_cause(
    served: Served, failure: dict[str, str], arrives: str | None
) -> None:
    run_id = f"short-{arrives}"
    arn = await start(served, "walk", run_id)
    fail = served.client("stepfunctions").send_task_failure
    for key in ("c1", "c2"):
        name = await token(served, run_id, key)
        await asyncio.to_thread(fail, taskToken=name, **failure)
    assert await end_of(served, arn) == "SUCCEEDED"
    for output in outputs(served, run_id):
        assert (output["Error"], output.get("Cause")) == (arrives, None)


@pytest.mark.parametrize("output", [{"Error": "x", "Cause": "y"}, None, "text", 1, [], {}], ids=str)
async def test_what_a_task_is_answered_with_is_told_from_an_error(
    served: Served, output: Any
) -> None:
    run_id = f"answer-{json.dumps(output).encode().hex()}"
    arn = await start(served, "walk", run_id)
    send = served.client("stepfunctions").send_task_success
    for key in ("c1", "c2"):
        name, text = await token(served, run_id, key), json.dumps(output)
        await asyncio.to_thread(send, taskToken=name, output=text)
    assert await end_of(served, arn) == "SUCCEEDED"
    assert outputs(served, run_id) == [{"answer": output}] * 2


async def test_answer_that_is_too_large_to_go_on_reaches_resume_as_that(served: Served) -> None:
    """The largest that SendTaskSuccess takes: with what the branch knows it is too large for a state."""
    arn = await start(served, "walk", "large")
    states = served.client("stepfunctions")
    text = json.dumps("x" * (262_144 - 2))
    for key in ("c1", "c2"):
        answer = {"taskToken": await token(served, "large", key), "output": text}
        await asyncio.to_thread(partial(states.send_task_success, **answer))
    assert await end_of(served, arn) == "SUCCEEDED"
    assert {each["Error"] for each in outputs(served, "large")} == {"States.DataLimitExceeded"}


async def test_fault_of_the_platform_reaches_resume_as_what_it_is(served: Served) -> None:
    arn = await start(served, "walk", "faulty")
    fail = served.client("stepfunctions").send_task_failure
    error = "Lambda.RequestTooLargeException"
    for key in ("c1", "c2"):
        name = await token(served, "faulty", key)
        await asyncio.to_thread(fail, taskToken=name, error=error)
    assert await end_of(served, arn) == "SUCCEEDED"
    assert {o["Error"] for o in outputs(served, "faulty")} == {error}


async def test_task_output_that_is_no_json_is_refused(served: Served) -> None:
    arn = await start(served, "walk", "garbled")
    states = served.client("stepfunctions")
    first = await token(served, "garbled", "c1")
    with pytest.raises(states.exceptions.InvalidOutput):
        await asyncio.to_thread(states.send_task_success, taskToken=first, output="{no")
    for key in ("c1", "c2"):
        answer = {"taskToken": await token(served, "garbled", key), "output": "{}"}
        await asyncio.to_thread(states.send_task_success, **answer)
    assert await end_of(served, arn) == "SUCCEEDED"


async def test_token_answered_before_the_function_returns_is_not_lost(served: Served) -> None:
    arn = await start(served, "answered-at-once", "early")
    assert await end_of(served, arn) == "SUCCEEDED"
    assert outputs(served, "early") == [{"answer": {"layover": "decided"}}] * 2


async def test_token_is_taken_once_and_the_first_answer_counts(served: Served) -> None:
    arn = await start(served, "walk", "again")
    states = served.client("stepfunctions")
    first, second = [await token(served, "again", key) for key in ("c1", "c2")]
    await asyncio.to_thread(lambda: states.send_task_success(taskToken=first, output='"yes"'))
    for late in (
        lambda: states.send_task_success(taskToken=first, output='"no"'),
        lambda: states.send_task_failure(taskToken=first, error="Denied"),
    ):
        with pytest.raises(states.exceptions.TaskTimedOut):
            await asyncio.to_thread(late)
    await asyncio.to_thread(lambda: states.send_task_success(taskToken=second, output='"yes"'))
    assert await end_of(served, arn) == "SUCCEEDED"
    assert outputs(served, "again") == [{"answer": "yes"}] * 2


async def test_token_whose_time_is_over_is_taken_no_more(served: Served) -> None:
    arn = await start(served, "brief", "overdue")
    states = served.client("stepfunctions")
    expired = await token(served, "overdue", "c1")
    await eventually(lambda: "resume" in served.lines("overdue"))

    with pytest.raises(states.exceptions.TaskTimedOut):
        await asyncio.to_thread(states.send_task_success, taskToken=expired, output="{}")
    name = await token(served, "overdue", "c2")
    await asyncio.to_thread(lambda: states.send_task_success(taskToken=name, output="{}"))
    assert await end_of(served, arn) == "SUCCEEDED"


async def test_stopped_execution_stays_stopped_and_its_tokens_are_taken_no_more(
    served: Served,
) -> None:
    arn = await start(served, "walk", "abandoned")
    states = served.client("stepfunctions")
    waiting = [await token(served, "abandoned", key) for key in ("c1", "c2")]
    await asyncio.to_thread(lambda: states.stop_execution(executionArn=arn))
    assert await end_of(served, arn) == "ABORTED"
    assert "resume" not in served.lines("abandoned")
    for late in waiting:
        with pytest.raises(states.exceptions.ClientError):
            await asyncio.to_thread(states.send_task_success, taskToken=late, output="{}")


@pytest.mark.usefixtures("restless")
async def test_same_start_at_once_is_one_execution(served: Served) -> None:
    states = served.client("stepfunctions")
    wanted = {"v": 1, "owner": "walk", "run_id": "twice", "n": 1}
    request = {"stateMachineArn": STATE_MACHINE_ARN, "name": "twice-1"}
    gate = threading.Barrier(8)

    def start_it() -> str:
        gate.wait(60)
        return str(states.start_execution(**request, input=json.dumps(wanted))["executionArn"])

    with ThreadPoolExecutor(8) as pool:
        arns = {each.result(60) for each in [pool.submit(start_it) for _ in range(8)]}
    assert len(arns) == 1
    await token(served, "twice", "c2")
    assert served.lines("twice").count("turn") == 1


async def test_unknown_token_is_called_so_while_executions_start(served: Served) -> None:
    states = served.client("stepfunctions")
    crowd = [asyncio.create_task(start(served, "plain", f"crowd-{n}")) for n in range(6)]

    def late() -> None:
        with pytest.raises(states.exceptions.InvalidToken):
            states.send_task_success(taskToken="of-an-execution-that-is-over", output="{}")

    while not all(each.done() for each in crowd):
        await asyncio.to_thread(late)
    for each in crowd:
        assert await end_of(served, await each) == "SUCCEEDED"


async def test_execution_can_be_stopped_as_soon_as_it_is_started(served: Served) -> None:
    arn = await start(served, "walk", "stopped")
    states = served.client("stepfunctions")
    await asyncio.to_thread(lambda: states.stop_execution(executionArn=arn))
    assert states.describe_execution(executionArn=arn)["status"] == "ABORTED"


async def test_run_walks_turn_await_resume_turn_and_remember(served: Served) -> None:
    arn = await start(served, "walk", "whole")
    send = served.client("stepfunctions").send_task_success
    for key in ("c1", "c2"):
        name = await token(served, "whole", key)
        await asyncio.to_thread(send, taskToken=name, output='{"x":1}')
    assert await end_of(served, arn) == "SUCCEEDED"
    lines = served.lines("whole")
    assert lines[0] == "turn"
    assert sorted(lines[1:5]) == ["await", "await", "resume", "resume"]
    assert lines[5:] == ["turn", "compact", "extract"]


async def states_of(served: Served, arn: str) -> list[str]:
    """The states that were entered: what Step Functions bills."""
    history = served.client("stepfunctions").get_execution_history
    found = await asyncio.to_thread(lambda: history(executionArn=arn, maxResults=1000))
    events = [e.get("stateEnteredEventDetails") for e in found["events"]]
    return [details["name"] for details in events if details]


async def turns(served: Served, run_id: str) -> list[Any]:
    return [json.loads(line) for line in served.lines(f"{run_id}-turns")]


@pytest.mark.parametrize(
    ("scenario", "states"),
    [
        ("fails", ["Turn", "Route", "RunFailed"]),
        ("fails-and-learns", ["Turn", "Route", "ExtractAfterFailure", "RunFailed"]),
    ],
)
async def test_execution_of_a_run_that_failed_fails_after_its_memory_work(
    served: Served, scenario: str, states: list[str]
) -> None:
    arn = await start(served, scenario, f"plain-{scenario}")
    assert await end_of(served, arn) == "FAILED"
    assert await states_of(served, arn) == states


@pytest.mark.parametrize(
    ("scenario", "states"),
    [("plain", ["Turn", "Route", "Done"]), ("learn", ["Turn", "Route", "Extract"])],
)
async def test_plain_run_takes_three_transitions(
    served: Served, scenario: str, states: list[str]
) -> None:
    arn = await start(served, scenario, f"plain-{scenario}")
    assert await end_of(served, arn) == "SUCCEEDED"
    assert await states_of(served, arn) == states


@pytest.mark.parametrize(
    ("answer", "output"),
    [
        ({"output": '{"layover":"decided"}'}, {"answer": {"layover": "decided"}}),
        ({"error": "Denied", "cause": "no"}, {"Error": "Denied", "Cause": "no"}),
        (
            {"error": "Lambda.RequestTooLargeException", "cause": ""},
            {"Error": "Lambda.RequestTooLargeException", "Cause": ""},
        ),
    ],
    ids=["decided", "denied", "fault"],
)
async def test_approval_of_the_one_call_takes_three_transitions_more(
    served: Served, answer: dict[str, str], output: Any
) -> None:
    run_id = f"alone-{answer.get('error', 'decided')}"
    arn = await start(served, "alone", run_id)
    states = served.client("stepfunctions")
    name = await token(served, run_id, "c1")
    send = states.send_task_success if "output" in answer else states.send_task_failure
    await asyncio.to_thread(lambda: send(taskToken=name, **answer))
    assert await end_of(served, arn) == "SUCCEEDED"
    waited = ["AwaitDecision", "TurnWithAnswer", "Route"]
    assert await states_of(served, arn) == ["Turn", "Route", *waited, "Done"]
    heard = (await turns(served, run_id))[1]
    assert (heard["call"]["key"], heard["output"]) == ("c1", output)


async def test_one_call_that_waits_again_rests_and_gets_a_new_token(served: Served) -> None:
    arn = await start(served, "alone-rests", "resting")
    send = served.client("stepfunctions").send_task_success
    for key in ("c1", "c2"):
        name = await token(served, "resting", key)
        await asyncio.to_thread(send, taskToken=name, output='"no decision"')
    assert await end_of(served, arn) == "SUCCEEDED"
    waited = ["AwaitDecision", "TurnWithAnswer", "Route"]
    names = ["Turn", "Route", *waited, "RestBeforeAwait", *waited, "Done"]
    assert await states_of(served, arn) == names


async def test_answer_that_is_too_large_for_the_state_reaches_turn_as_that(served: Served) -> None:
    """The largest that SendTaskSuccess takes."""
    arn = await start(served, "alone", "alone-large")
    send = served.client("stepfunctions").send_task_success
    name, text = await token(served, "alone-large", "c1"), json.dumps("x" * (262_144 - 2))
    await asyncio.to_thread(lambda: send(taskToken=name, output=text))
    assert await end_of(served, arn) == "SUCCEEDED"
    assert (await turns(served, "alone-large"))[1]["output"]["Error"] == "States.DataLimitExceeded"

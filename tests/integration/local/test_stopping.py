"""Shutdown while something comes in from other threads: of executions, and of the functions' loop."""

import asyncio
import gc
import json
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from http import HTTPStatus
from pathlib import Path
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError

from layover.desk.local.aws.access_key import make_access_key
from layover.desk.local.aws.clients import make_client
from layover.desk.local.aws.emulator import AwsServer, Services
from layover.desk.local.aws.storage import Storage
from layover.desk.local.aws.wsgi import WsgiServer
from layover.desk.local.functions.execution_environment import FunctionSpec
from layover.desk.local.functions.invocation import InvokeResult, LambdaError
from layover.desk.local.functions.lambda_service import LambdaService, result_in
from layover.desk.local.http.socket_front import WebSocketFront

from .test_lambda_service import LONG

WAITS = {"StartAt": "Wait", "States": {"Wait": {"Type": "Wait", "Seconds": 60, "End": True}}}
FORKS = {
    "StartAt": "Items",
    "States": {
        "Items": {"Type": "Pass", "Result": [1, 2], "Next": "Fork"},
        "Fork": {"Type": "Map", "ItemProcessor": WAITS, "End": True},
    },
}


@pytest.fixture
def aws() -> Iterator[AwsServer]:
    server = AwsServer(LambdaService())
    server.start()
    yield server
    server.stop_executions()
    server.stop()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as made:
        yield made


def machine(aws: AwsServer, definition: dict[str, Any] = WAITS) -> tuple[Any, str]:
    """A client, and the ARN of a state machine (one that only waits)."""
    states = make_client("stepfunctions", aws.endpoint_url, aws.access_key)
    wanted = {
        "name": "waits",
        "definition": json.dumps(definition),
        "roleArn": "arn:aws:iam::123456789012:role/x",
    }
    return states, str(states.create_state_machine(**wanted)["stateMachineArn"])


def test_execution_is_not_started_after_the_stop(aws: AwsServer) -> None:
    states, arn = machine(aws)
    assert aws.stop_executions() == []
    with pytest.raises(ClientError, match="the runner is stopping") as refused:
        states.start_execution(stateMachineArn=arn)
    assert refused.value.response["Error"]["Code"] == "ServiceUnavailable"
    assert states.list_executions(stateMachineArn=arn)["executions"] == []


@pytest.mark.parametrize("definition", [WAITS, FORKS], ids=["waits", "has branches"])
def test_execution_that_is_stopped_has_no_state_after_it(
    aws: AwsServer, definition: dict[str, Any]
) -> None:
    states, arn = machine(aws, definition)
    execution = str(states.start_execution(stateMachineArn=arn)["executionArn"])
    states.stop_execution(executionArn=execution, cause="at once")
    found = states.describe_execution(executionArn=execution)
    assert (found["status"], found["cause"]) == ("ABORTED", "at once")
    events = states.get_execution_history(executionArn=execution)["events"]
    assert (events[0]["type"], events[-1]["type"]) == ("ExecutionStarted", "ExecutionAborted")
    assert aws.stop_executions() == []


def test_execution_that_the_runner_stops_stays_open(aws: AwsServer) -> None:
    states, arn = machine(aws)
    execution = str(states.start_execution(stateMachineArn=arn)["executionArn"])
    assert aws.stop_executions() == ["{}"]
    assert states.describe_execution(executionArn=execution)["status"] == "RUNNING"


def functions_of(folder: Path) -> LambdaService:
    functions = LambdaService()
    functions.add(FunctionSpec("turn", LONG, {}, folder / "log", folder / "clock"))
    return functions


@pytest.mark.parametrize("kind", ["RequestResponse", "Event"])
@pytest.mark.filterwarnings("error")
def test_event_that_is_checked_before_the_end_and_handed_over_after_it_is_refused(
    tmp_path: Path,
    kind: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    pool: ThreadPoolExecutor,
) -> None:
    functions = functions_of(tmp_path)
    checked, ended = threading.Event(), threading.Event()
    check = functions.check

    def slow(name: str, payload: bytes) -> None:
        check(name, payload)
        checked.set()
        assert ended.wait(60)

    monkeypatch.setattr(functions, "check", slow)
    storage = Storage()
    services = WsgiServer(Services(functions, None, storage))
    services.start()
    lambdas = make_client("lambda", services.url, make_access_key())

    async def lived() -> "Future[Any]":
        await functions.start()
        call = pool.submit(lambdas.invoke, FunctionName="turn", InvocationType=kind)
        assert await asyncio.to_thread(checked.wait, 20)
        await functions.stop()
        return call

    try:
        call = asyncio.run(lived())
        ended.set()
        with pytest.raises(ClientError, match="the runner is stopping"):
            call.result(60)
    finally:
        services.stop()
        storage.close()
    gc.collect()
    assert caplog.messages == []


def test_loop_that_ends_with_an_event_under_way_refuses_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    pool: ThreadPoolExecutor,
) -> None:
    functions = functions_of(tmp_path)
    begun = threading.Event()

    async def for_ever(name: str, payload: bytes) -> InvokeResult:
        begun.set()
        never: asyncio.Future[InvokeResult] = asyncio.get_running_loop().create_future()
        return await never

    monkeypatch.setattr(functions, "invoke", for_ever)
    storage = Storage()
    services = WsgiServer(Services(functions, None, storage))
    services.start()
    lambdas = make_client("lambda", services.url, make_access_key())

    async def lived() -> "Future[Any]":
        await functions.start()
        call = pool.submit(lambdas.invoke, FunctionName="turn")
        assert await asyncio.to_thread(begun.wait, 20)
        return call

    try:
        call = asyncio.run(lived())
        with pytest.raises(ClientError, match="the runner is stopping"):
            call.result(60)
    finally:
        services.stop()
        storage.close()
    assert caplog.messages == []


@pytest.mark.filterwarnings("error")
def test_work_that_a_loop_took_and_never_began_is_refused(pool: ThreadPoolExecutor) -> None:
    loop = asyncio.new_event_loop()
    taken = threading.Event()
    call_soon = loop.call_soon_threadsafe

    def take(*arguments: Any, **options: Any) -> Any:
        handle = call_soon(*arguments, **options)
        taken.set()
        return handle

    loop.call_soon_threadsafe = take  # type: ignore[method-assign, assignment]
    call = pool.submit(result_in, loop, answered())
    assert taken.wait(60)
    loop.close()
    with pytest.raises(LambdaError, match="the runner is stopping"):
        call.result(60)
    gc.collect()


@pytest.mark.filterwarnings("error")
def test_message_for_a_socket_of_a_loop_that_has_ended_is_gone() -> None:
    front = WebSocketFront(cast(Any, None))
    loop = asyncio.new_event_loop()
    loop.close()
    front._loop = loop
    front._sockets["c"] = cast(Any, None)
    assert front.post("c", b"too late") == HTTPStatus.GONE
    gc.collect()


def test_error_of_the_work_itself_is_the_callers(pool: ThreadPoolExecutor) -> None:
    async def asked(work: Coroutine[Any, Any, bool]) -> bool:
        return await asyncio.to_thread(result_in, asyncio.get_running_loop(), work)

    with pytest.raises(RuntimeError, match="its own"):
        asyncio.run(asked(failing()))
    assert asyncio.run(asked(answered())) is True


async def answered() -> bool:
    return True


async def failing() -> bool:
    raise RuntimeError("its own")

"""What ends while something comes in from other threads: executions, and the loop of the functions."""

import asyncio
import gc
import json
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from http import HTTPStatus
from pathlib import Path
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError
from moto.stepfunctions.parser.asl.component.eval_component import EvalComponent
from moto.stepfunctions.parser.asl.component.program.program import Program
from moto.stepfunctions.parser.asl.component.state.exec.state_parallel.branch_worker import (
    BranchWorker,
)
from moto.stepfunctions.parser.backend.execution import Execution
from moto.stepfunctions.parser.backend.execution_worker import ExecutionWorker

from layover.local.aws import interpreter
from layover.local.aws.emulator import AwsServer, Services
from layover.local.aws.interpreter import make_client
from layover.local.aws.wsgi import WsgiServer
from layover.local.functions.execution_environment import FunctionSpec
from layover.local.functions.invocation import InvokeResult, LambdaError
from layover.local.functions.lambda_service import LambdaService, result_in
from layover.local.http.socket_front import WebSocketFront

from .conftest import eventually
from .test_lambda_service import LONG
from .test_state_machine import interpreter_threads

WAITS = {"StartAt": "Wait", "States": {"Wait": {"Type": "Wait", "Seconds": 60, "End": True}}}
FORK = {"Type": "Parallel", "Branches": [WAITS, WAITS], "End": True}


class Held:
    """The start of every execution, at the moment when it is listed and has no status."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached, self.go_on = threading.Event(), threading.Event()
        start: Callable[[Execution], None] = Execution.start

        def held(execution: Execution) -> None:
            self.reached.set()
            assert self.go_on.wait(20)
            start(execution)

        monkeypatch.setattr(Execution, "start", held)


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
    states = make_client("stepfunctions", aws.endpoint_url)
    wanted = {
        "name": "waits",
        "definition": json.dumps(definition),
        "roleArn": "arn:aws:iam::123456789012:role/x",
    }
    return states, str(states.create_state_machine(**wanted)["stateMachineArn"])


def test_execution_that_is_just_starting_is_ended_by_the_stop(
    aws: AwsServer, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    states, arn = machine(aws)
    held = Held(monkeypatch)
    start = pool.submit(lambda: str(states.start_execution(stateMachineArn=arn)["executionArn"]))
    assert held.reached.wait(20)
    stop = pool.submit(aws.stop_executions)
    wait([stop], 0.5)
    held.go_on.set()
    assert len(stop.result(20)) == 1
    found = states.describe_execution(executionArn=start.result(20))
    assert found["status"] == "ABORTED"


def test_execution_is_not_started_after_the_stop(aws: AwsServer) -> None:
    states, arn = machine(aws)
    assert aws.stop_executions() == []
    with pytest.raises(ClientError, match="the runner is stopping") as refused:
        states.start_execution(stateMachineArn=arn)
    assert refused.value.response["Error"]["Code"] == "ServiceUnavailable"
    assert states.list_executions(stateMachineArn=arn)["executions"] == []


def test_unknown_token_is_called_so_in_the_middle_of_a_start(
    aws: AwsServer, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    states, arn = machine(aws)
    held = Held(monkeypatch)
    start = pool.submit(states.start_execution, stateMachineArn=arn)
    assert held.reached.wait(20)
    late = pool.submit(states.send_task_success, taskToken="nobody's", output="{}")
    wait([late], 0.5)
    held.go_on.set()
    with pytest.raises(ClientError, match="InvalidToken"):
        late.result(20)
    start.result(20)


class Late:
    """Threads of the interpreter that go no further than to the call of `name` before `go_on`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> None:
        self.reached, self.go_on = threading.Event(), threading.Event()
        call = getattr(owner, name)

        def late(*arguments: Any) -> Any:
            self.reached.set()
            assert self.go_on.wait(20)
            return call(*arguments)

        monkeypatch.setattr(owner, name, late)


async def ended_without_a_trace(states: Any, execution: str, before: set[threading.Thread]) -> None:
    """Threads that failed fail the test, too."""
    await eventually(lambda: not (interpreter_threads() - before))
    assert states.describe_execution(executionArn=execution)["status"] == "ABORTED"


@pytest.mark.parametrize(
    ("owner", "name"),
    [(interpreter._Worker, "_get_evaluation_entrypoint"), (ExecutionWorker, "_execution_logic")],
    ids=["parses", "has not begun"],
)
async def test_stop_that_comes_before_the_first_state_holds(
    aws: AwsServer, monkeypatch: pytest.MonkeyPatch, owner: type, name: str
) -> None:
    before = interpreter_threads()
    states, arn = machine(aws)
    late = Late(monkeypatch, owner, name)
    execution = str(states.start_execution(stateMachineArn=arn)["executionArn"])
    assert late.reached.wait(20)
    states.stop_execution(executionArn=execution, cause="at once")
    assert states.describe_execution(executionArn=execution)["status"] == "ABORTED"
    late.go_on.set()
    await ended_without_a_trace(states, execution, before)
    events = states.get_execution_history(executionArn=execution)["events"]
    assert [each["type"] for each in events] == ["ExecutionStarted", "ExecutionAborted"]
    assert aws.stop_executions() == []


async def test_execution_can_be_stopped_before_its_thread_is_made(
    aws: AwsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = interpreter_threads()
    states, arn = machine(aws)
    begin: Callable[[ExecutionWorker], None] = ExecutionWorker.start

    def stopped(worker: Any) -> None:
        worker.stop(stop_date=None, error=None, cause="at once")
        begin(worker)

    monkeypatch.setattr(ExecutionWorker, "start", stopped)
    execution = str(states.start_execution(stateMachineArn=arn)["executionArn"])
    await ended_without_a_trace(states, execution, before)


async def test_state_that_fails_of_the_stop_does_not_make_it_a_failure(
    aws: AwsServer, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = interpreter_threads()
    states, arn = machine(aws)
    stop: Callable[..., None] = ExecutionWorker.stop

    def failing(worker: Any, *arguments: Any) -> None:
        stop(worker, *arguments)
        wait([pool.submit(worker.env.set_error, {"error": "MapIterationAborted"})], 0.5)

    monkeypatch.setattr(ExecutionWorker, "stop", failing)
    execution = str(states.start_execution(stateMachineArn=arn)["executionArn"])
    states.stop_execution(executionArn=execution)
    await ended_without_a_trace(states, execution, before)


async def test_stop_that_falls_on_a_fork_leaves_no_branch_waited_for(
    aws: AwsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = interpreter_threads()
    states, arn = machine(aws, {"StartAt": "Fork", "States": {"Fork": FORK}})
    late = Late(monkeypatch, BranchWorker, "_thread_routine")
    execution = str(states.start_execution(stateMachineArn=arn)["executionArn"])
    assert late.reached.wait(20)
    states.stop_execution(executionArn=execution)
    late.go_on.set()
    await ended_without_a_trace(states, execution, before)


async def test_stop_that_falls_on_the_first_lines_of_a_program_is_not_an_error_of_its_thread(
    aws: AwsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = interpreter_threads()
    states, arn = machine(aws)
    reached, go_on = threading.Event(), threading.Event()

    def step(component: EvalComponent, _: str) -> None:
        if isinstance(component, Program):
            reached.set()
            assert go_on.wait(20)

    monkeypatch.setattr(EvalComponent, "_log_evaluation_step", step)
    execution = str(states.start_execution(stateMachineArn=arn)["executionArn"])
    assert reached.wait(20)
    states.stop_execution(executionArn=execution)
    go_on.set()
    await ended_without_a_trace(states, execution, before)


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
        assert ended.wait(20)

    monkeypatch.setattr(functions, "check", slow)
    services = WsgiServer(Services(functions, cast(Any, None)))
    services.start()
    lambdas = make_client("lambda", services.url)

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
            call.result(20)
    finally:
        services.stop()
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
    services = WsgiServer(Services(functions, cast(Any, None)))
    services.start()
    lambdas = make_client("lambda", services.url)

    async def lived() -> "Future[Any]":
        await functions.start()
        call = pool.submit(lambdas.invoke, FunctionName="turn")
        assert await asyncio.to_thread(begun.wait, 20)
        return call

    try:
        call = asyncio.run(lived())
        with pytest.raises(ClientError, match="the runner is stopping"):
            call.result(20)
    finally:
        services.stop()
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
    assert taken.wait(20)
    loop.close()
    with pytest.raises(LambdaError, match="the runner is stopping"):
        call.result(20)
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

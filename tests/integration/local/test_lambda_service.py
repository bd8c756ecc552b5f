"""Environments: what ends one, what a caller sees then, and when one is used again."""

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, cast

import psutil
import pytest

from layover.desk.local.aws.access_key import make_access_key
from layover.desk.local.aws.clients import make_client
from layover.desk.local.aws.emulator import Services
from layover.desk.local.aws.storage import Storage
from layover.desk.local.aws.wsgi import WsgiServer
from layover.desk.local.functions import execution_environment, lambda_service
from layover.desk.local.functions.execution_environment import (
    ExecutionEnvironment,
    FunctionSpec,
    State,
)
from layover.desk.local.functions.invocation import (
    FunctionNotFound,
    Invocation,
    InvokeResult,
    RequestTooLarge,
)
from layover.desk.local.functions.lambda_service import FunctionPool, LambdaService
from layover.desk.local.postgres_data import lives
from layover.desk.local.settings import child_variables

from .conftest import Served, eventually, variables_for

LONG = timedelta(seconds=60)
has_unnamed_signals = pytest.mark.skipif(
    not hasattr(signal, "SIGRTMIN"), reason="every signal has a name here"
)


async def turn(served: Served, **event: Any) -> InvokeResult:
    return await served.runner.functions.invoke("turn", json.dumps(event).encode())


async def pid_of_turn(served: Served) -> int:
    return int(json.loads((await turn(served)).payload)["pid"])


def spec_of(served: Served, name: str, timeout: timedelta = LONG, **variables: str) -> FunctionSpec:
    """A function of the test's own, beside those of the runner."""
    settings = served.runner.settings
    inherited = variables_for(served.notes.parent)
    return FunctionSpec(
        name,
        timeout,
        child_variables(settings, inherited, variables),
        settings.data / "logs" / f"own-{name}.log",
        settings.data / "run" / "clock",
    )


@asynccontextmanager
async def pool_of(spec: FunctionSpec) -> AsyncIterator[FunctionPool]:
    """The function's pool; its processes end with the block."""
    pool = FunctionPool(spec, 3)
    try:
        yield pool
    finally:
        await pool.stop()


async def answer(pool: FunctionPool, **event: Any) -> InvokeResult:
    return await asyncio.wait_for(pool.invoke(Invocation(json.dumps(event).encode())), 60)


async def test_unknown_function_is_refused(served: Served) -> None:
    with pytest.raises(FunctionNotFound):
        await served.runner.functions.invoke("nobody", b"{}")


async def test_event_above_six_megabytes_is_refused(served: Served) -> None:
    with pytest.raises(RequestTooLarge):
        await turn(served, filler="x" * 6 * 1024 * 1024)


async def test_answer_above_six_megabytes_is_an_error(served: Served) -> None:
    result = await turn(served, size=6 * 1024 * 1024 + 1)
    assert result.error_type == "Function.ResponseSizeTooLarge"


async def test_exception_is_an_error_object_and_keeps_the_environment(served: Served) -> None:
    await turn(served)
    before = environments(served)
    result = await turn(served, fail=True)
    assert result.function_error == "Unhandled"
    assert json.loads(result.payload)["errorType"] == "ValueError"
    assert pids(environments(served)) == pids(before)


async def test_process_that_exits_under_an_event_is_an_exit_error(served: Served) -> None:
    await turn(served)
    before = environments(served)
    result = await turn(served, exit=7)
    assert result.error_type == "Runtime.ExitError"
    assert "exit status 7" in json.loads(result.payload)["errorMessage"]
    assert len(pids(before) - pids(environments(served))) == 1


async def test_process_killed_under_an_event_is_an_exit_error(served: Served) -> None:
    async with pool_of(spec_of(served, "turn")) as pool:
        call = asyncio.create_task(answer(pool, sleep=30))
        [busy] = await eventually(
            lambda: [each for each in pool.environments if each.state is State.BUSY]
        )
        os.kill(cast(int, busy.pid), signal.SIGKILL)
        result = await call
    assert result.error_type == "Runtime.ExitError"
    assert "SIGKILL" in json.loads(result.payload)["errorMessage"]


async def test_environment_killed_while_idle_costs_no_event(served: Served) -> None:
    for _ in range(3):
        pid = await pid_of_turn(served)
        os.kill(pid, signal.SIGKILL)
        await eventually(partial(gone, served, pid))
        assert (await turn(served)).function_error is None


@has_unnamed_signals
async def test_process_ended_by_a_signal_without_a_name_is_an_exit_error(served: Served) -> None:
    unnamed = signal.SIGRTMIN + 6
    async with pool_of(spec_of(served, "compact")) as pool:
        call = asyncio.create_task(answer(pool, run_id="unnamed", op="called", gate="never"))
        await eventually(lambda: served.lines("unnamed"))
        pid = pool.environments[0].pid
        assert pid is not None
        os.kill(pid, unnamed)
        result = await call
        assert result.error_type == "Runtime.ExitError"
        assert f"signal: {unnamed}" in json.loads(result.payload)["errorMessage"]
        assert (await answer(pool, run_id="unnamed", op="called")).function_error is None


async def test_process_that_cannot_be_started_is_an_exit_error(served: Served) -> None:
    async with pool_of(spec_of(served, "turn", IMPOSSIBLE="\0")) as pool:
        result = await answer(pool)
    assert result.error_type == "Runtime.ExitError"
    assert "could not be started" in json.loads(result.payload)["errorMessage"]


async def test_environment_that_died_after_its_answer_holds_no_event_up(served: Served) -> None:
    async with pool_of(spec_of(served, "turn")) as pool:
        dead = ExecutionEnvironment(pool.spec, pool)
        dead.state = State.RETURNING
        pool.environments.append(dead)
        assert (await answer(pool)).function_error is None


async def test_answer_given_in_time_counts_though_the_runner_was_stopped_meanwhile(
    served: Served,
) -> None:
    limit = timedelta(seconds=8)
    async with pool_of(spec_of(served, "compact", limit)) as pool:
        call = asyncio.create_task(answer(pool, run_id="paused", op="called", gate="go-on"))
        await eventually(lambda: served.lines("paused"))
        before = [each.pid for each in pool.environments]
        (served.notes / "go-on").touch()
        stop_this_thread_for(limit + timedelta(seconds=0.5))
        assert (await call).function_error is None
        assert [each.pid for each in pool.environments] == before


def stop_this_thread_for(pause: timedelta) -> None:
    """Do to the runner what Ctrl-Z does: its loop stands still and its functions go on."""
    time.sleep(pause.total_seconds())


async def test_function_that_takes_too_long_is_killed_with_what_it_started(
    served: Served,
) -> None:
    call = asyncio.create_task(turn(served, child="child", sleep=30))
    [child] = await eventually(lambda: served.lines("child"))
    process = psutil.Process(int(child))
    result = await asyncio.wait_for(call, 60)
    assert result.error_type == "Sandbox.Timedout"
    assert json.loads(result.payload)["errorMessage"].endswith("Task timed out after 5.00 seconds")
    await eventually(lambda: not lives(process))


async def test_handler_that_cannot_be_loaded_says_so_to_every_caller(served: Served) -> None:
    results = await asyncio.gather(
        *(served.runner.functions.invoke("broken", b"{}") for _ in range(2))
    )
    assert [each.error_type for each in results] == ["Runtime.ImportModuleError"] * 2
    assert "there_is_no_such_module" in json.loads(results[0].payload)["errorMessage"]
    assert not [each for each in environments(served) if each["function"] == "broken"]


async def test_a_handler_that_never_loads_is_given_up(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution_environment, "LOADING_LIMIT", timedelta(seconds=0.5))
    async with pool_of(spec_of(served, "stuck")) as pool:
        results = await asyncio.gather(*(answer(pool) for _ in range(3)))
        await eventually(lambda: not pool.environments)
    assert [each.error_type for each in results] == ["Sandbox.Timedout"] * 3
    assert (
        "functions.stuck.handler.handler was not loaded"
        in json.loads(results[0].payload)["errorMessage"]
    )


@pytest.mark.parametrize("kind", ["RequestResponse", "Event"])
def test_event_that_comes_after_the_end_is_refused_and_nothing_is_logged(
    tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    functions = LambdaService()
    functions.add(FunctionSpec("turn", LONG, {}, tmp_path / "log", tmp_path / "clock"))

    async def lived() -> None:
        await functions.start()
        await functions.stop()

    asyncio.run(lived())
    storage = Storage()
    services = WsgiServer(Services(functions, None, storage))
    services.start()
    try:
        lambdas = make_client("lambda", services.url, make_access_key())
        with pytest.raises(lambdas.exceptions.ServiceException, match="the runner is stopping"):
            lambdas.invoke(FunctionName="turn", InvocationType=kind)
    finally:
        services.stop()
        storage.close()
    assert caplog.messages == []


async def test_asynchronous_event_is_tried_three_times(served: Served) -> None:
    lambdas = served.client("lambda")
    answer = await asyncio.to_thread(
        lambdas.invoke,
        FunctionName="turn",
        InvocationType="Event",
        Payload=b'{"record":"asynchronous"}',
    )
    assert answer["StatusCode"] == 202
    await eventually(lambda: served.lines("asynchronous") == ["called"] * 3)


async def test_warm_environment_is_used_again(served: Served) -> None:
    await eventually(lambda: not any(each["busy"] for each in environments(served)))
    before = pids(environments(served)) or {await pid_of_turn(served)}
    answers = [json.loads((await turn(served)).payload) for _ in range(6)]
    assert {each["pid"] for each in answers} <= before
    assert max(each["calls"] for each in answers) > 2


async def test_failure_to_end_idle_environments_is_logged_and_tried_again(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(lambda_service, "_REAP_EVERY", timedelta(milliseconds=50))
    monkeypatch.setattr(lambda_service, "IDLE_LIMIT", None)
    functions = LambdaService()
    functions.add(spec_of(served, "turn"))
    await functions.start()
    try:
        await asyncio.wait_for(functions.invoke("turn", b"{}"), 60)
        await eventually(lambda: "idle environments could not be ended" in caplog.text)
        monkeypatch.setattr(lambda_service, "IDLE_LIMIT", timedelta(0))
        await eventually(lambda: not functions.environments())
    finally:
        await functions.stop()


async def test_simultaneous_events_get_environments_of_their_own_up_to_the_maximum(
    served: Served,
) -> None:
    calls = [asyncio.create_task(turn(served, sleep=1, number=n)) for n in range(7)]
    results = [json.loads((await call).payload) for call in calls]
    assert [each["number"] for each in results] == list(range(7))
    assert 2 <= len({each["pid"] for each in results}) <= 3


async def test_events_that_came_while_too_many_environments_were_starting_get_theirs_too(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lambda_service, "_STARTING_AT_ONCE", 1)
    event = json.dumps({"run_id": "many", "op": "compact", "gate": "open"}).encode()
    invoke = served.runner.functions.invoke
    held = [asyncio.create_task(invoke("compact", event)) for _ in range(3)]
    await eventually(lambda: served.lines("many") == ["compact"] * 3)
    (served.notes / "open").touch()
    assert [result.function_error for result in await asyncio.gather(*held)] == [None] * 3


async def test_context_tells_the_time_that_is_left_and_the_arn(served: Served) -> None:
    context = json.loads((await turn(served)).payload)
    assert 4_000 < context["left_ms"] <= 5_000
    assert context["arn"] == "arn:aws:lambda:us-east-1:123456789012:function:turn"


async def test_functions_get_no_credentials_of_the_developer(served: Served) -> None:
    variables = json.loads((await turn(served, variables=True)).payload)
    key = served.runner.aws.access_key
    assert (variables["AWS_ACCESS_KEY_ID"], variables["AWS_SECRET_ACCESS_KEY"]) == key
    assert variables["AWS_ENDPOINT_URL"] == served.runner.aws.endpoint_url
    assert "LAYOVER_DATABASE_ADMIN_URL" not in variables
    assert "AWS_PROFILE" not in variables


async def test_functions_seal_tokens_with_a_key_of_this_folder_and_name_this_address(
    served: Served,
) -> None:
    variables = json.loads((await turn(served, variables=True)).payload)
    data = served.runner.settings.data.resolve()
    assert variables["LAYOVER_CONNECTIONS_KEY"] == str(data / "connections.key")
    assert variables["LAYOVER_CONNECTIONS_URL"] == f"{served.runner.url}/connected"
    assert not (data / "connections.key").exists()


async def test_invoke_api_reports_a_function_error_like_lambda(served: Served) -> None:
    invoke = served.client("lambda").invoke
    arn = "arn:aws:lambda:us-east-1:123456789012:function:turn"
    answer = await asyncio.to_thread(invoke, FunctionName=arn, Payload=b'{"fail":true}')
    assert answer["FunctionError"] == "Unhandled"
    assert json.loads(answer["Payload"].read())["errorType"] == "ValueError"


async def test_invoke_api_names_an_unknown_function_like_lambda(served: Served) -> None:
    lambdas = served.client("lambda")
    with pytest.raises(lambdas.exceptions.ResourceNotFoundException):
        await asyncio.to_thread(lambdas.invoke, FunctionName="nobody")


def environments(served: Served) -> list[dict[str, object]]:
    every = served.runner.functions.environments()
    return [each for each in every if each["function"] in ("turn", "broken")]


def gone(served: Served, pid: object) -> bool:
    return pid not in pids(environments(served))


def pids(listed: list[dict[str, object]]) -> set[object]:
    return {each["pid"] for each in listed}

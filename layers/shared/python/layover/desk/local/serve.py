"""`layover dev`: a runner, from its start to a signal, and its output."""

import asyncio
import os
import signal
import sys
import threading
import webbrowser
from collections.abc import Mapping
from contextlib import suppress
from io import StringIO
from pathlib import Path

from layover.desk.failures import CommandFailed
from layover.desk.local import agents_module
from layover.desk.local.output import keep_output_harmless, write_in_background
from layover.desk.local.settings import Settings, child_variables
from layover.project import ProjectInvalid, text_of

# A stop that hangs ends after this, within the promised 10 s.
_STOP_LIMIT_S = 9.0
_KILLS_TAKE_S = 0.5


def variables_of(folder: Path) -> Mapping[str, str]:
    """The process's variables, and those of `folder/.env` that it lacks or has empty: a container is passed
    those that its host lacks. Raises CommandFailed."""
    of_file = dot_env(folder)
    return {**os.environ, **{n: v for n, v in of_file.items() if not os.environ.get(n)}}


def dot_env(folder: Path) -> dict[str, str]:
    """Return the variables of `folder/.env` that have a value. Raises CommandFailed."""
    from dotenv import dotenv_values

    file, text = folder / ".env", ""
    if file.exists() and not file.is_dir():
        try:
            text = text_of(file)
        except ProjectInvalid as error:
            raise CommandFailed(str(error)) from error
    file_variables = dotenv_values(stream=StringIO(text), interpolate=False)
    return {name: value for name, value in file_variables.items() if value}


class _Stop:
    """The end of the system, on a signal. An end that hangs is cut short after `_STOP_LIMIT_S`."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.starting: asyncio.Task[object] | None = None
        """The start of the system, which a signal cancels."""

    @property
    def is_requested(self) -> bool:
        """True from the first signal on."""
        return self._event.is_set()

    def request(self) -> None:
        """Stop the system."""
        # Once: a second cancel would cut the first one's clean-up short.
        if self.is_requested:
            return
        end = threading.Timer(_STOP_LIMIT_S, _end_at_once)
        end.daemon = True
        end.start()
        self._event.set()
        if self.starting is not None:
            self.starting.cancel()

    async def wait(self) -> None:
        """Return once a signal has come."""
        await self._event.wait()


async def serve(settings: Settings, *, opens: bool = False) -> int:
    """Run until SIGINT or SIGTERM. Return the exit code. `opens`: the console, in a browser."""
    keep_output_harmless(write_in_background())
    if settings.project is not None:
        print(f"project {settings.project}", flush=True)
    stop = _Stop()
    # Before the first process is started, because a signal has to end it, too.
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.request)
    base_variables = variables_of(settings.project or Path.cwd())
    loading = _load_agents(settings, base_variables)
    # Its process has begun then, and imports the agents while this one imports the system.
    await asyncio.sleep(0)
    if stop.is_requested:
        return 0
    from layover.desk.local.development import Development
    from layover.desk.local.http.server import PortInUse
    from layover.desk.local.postgres_data import PostgresFailed
    from layover.desk.local.runner import Runner, RunnerFailed
    from layover.desk.local.terminal.lines import RunLines
    from layover.desk.local.terminal.show import RunWatch, say
    from layover.errors import shown_names

    watch = RunWatch(RunLines(lambda: runner.url, say))
    runner = Runner(settings, base_variables, watch, loading)
    stop.starting = asyncio.create_task(runner.__aenter__())
    try:
        await stop.starting
    except asyncio.CancelledError:
        return 0
    except (RunnerFailed, PortInUse, PostgresFailed) as error:
        print(f"layover: {error}", file=sys.stderr, flush=True)
        return 1
    development = Development(runner, base_variables)
    try:
        for line in (*runner.notices, f"ready {runner.url}"):
            print(line, flush=True)
        development.start()
        if opens:
            webbrowser.open(runner.url)
        await stop.wait()
        print("stopping", flush=True)
    finally:
        # Whatever went wrong: nothing that was started goes on without the rest.
        development.stop()
        await runner.__aexit__(None, None, None)
    names = f": {shown_names(runner.left_open)}" if runner.left_open else ""
    print(f"stopped; runs that were still open: {len(runner.left_open)}{names}", flush=True)
    return 0


def _load_agents(
    settings: Settings, base_variables: Mapping[str, str]
) -> asyncio.Task[agents_module.LoadReport] | None:
    """Begin to import the agents, if there are some."""
    if not settings.has_agents():
        return None
    variables = child_variables(settings, base_variables, {})
    return asyncio.create_task(agents_module.load(variables))


def _end_at_once() -> None:
    """End at once, with all processes: the kernel ends environments and Postgres, but no initdb."""
    try:
        import psutil

        children = psutil.Process().children(recursive=True)
        for child in children:
            with suppress(psutil.Error):
                child.kill()
        psutil.wait_procs(children, _KILLS_TAKE_S)
    finally:
        os._exit(0)

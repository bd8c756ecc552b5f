"""The module of the agents, imported once before anything is served, so that its errors are reported where
its author looks.

`python -m layover.desk.local.agents_module PARENT_PID` imports it as a function does, in a separate process,
and writes its findings as the last line, in JSON."""

import asyncio
import json
import logging
import os
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

LOADING_LIMIT = timedelta(seconds=60)
_PACKAGE = str(Path(__file__).resolve().parents[2])
_LIBRARIES = ("site-packages", "dist-packages", "<frozen", sys.base_prefix + os.sep)


@dataclass(frozen=True)
class LoadReport:
    """Lines about the agents and their warnings, or about the module's error."""

    agents: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    problem: str | None = None
    models: tuple[str, ...] = ()
    """The models that agents name, each once."""


async def load(variables: Mapping[str, str], limit: timedelta = LOADING_LIMIT) -> LoadReport:
    """Import the module as a function with these variables would."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-m",
        __name__,
        str(os.getpid()),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=dict(variables),
        start_new_session=True,
    )
    try:
        output, errors = await asyncio.wait_for(process.communicate(), limit.total_seconds())
    except TimeoutError:
        seconds = limit.total_seconds()
        return LoadReport(problem=f"the module takes longer than {seconds:g} s to be imported")
    finally:
        with suppress(ProcessLookupError):
            process.kill()
    try:
        report = json.loads(output.splitlines()[-1])
        lists = {name: tuple(report[name]) for name in ("agents", "warnings", "models")}
        return LoadReport(**lists, problem=report["problem"])
    except (ValueError, LookupError, TypeError):
        last_lines = errors.decode("utf-8", "replace").strip().splitlines()[-1:]
        last = f": {last_lines[0]}" if last_lines else ""
        return LoadReport(problem=f"its process ended with status {process.returncode}{last}")


def import_agents(module_name: str) -> LoadReport:
    """Import the module, and return its agents or its error."""
    from layover.declare.registry import load_agents

    handler = _LineHandler()
    logging.getLogger("layover").addHandler(handler)
    try:
        agents = load_agents(module_name)
    except BaseException as error:
        return LoadReport(warnings=tuple(handler.lines), problem=_problem(error))
    # A model of the author's own is at no server that the variables name.
    models = dict.fromkeys(
        each.model
        for each in agents.values()
        if isinstance(each.model, str) and each.model not in each.own_models
    )
    warnings = (*handler.lines, *_undescribed(agents.values()))
    return LoadReport(tuple(map(_line, agents.values())), warnings, models=tuple(models))


class _LineHandler(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def _line(agent: Any) -> str:
    asks = {t.name for t in agent.tools if t.needs_approval or t.suspends}
    tools = [f"{t.name} (asks a person)" if t.name in asks else t.name for t in agent.tools]
    model = f" ({agent.model})" if agent.model else ""
    return f"agent {agent.name}{model}: {', '.join(tools) or 'no tools'}"


def _undescribed(agents: Iterable[Any]) -> Iterator[str]:
    """Yield a line for each tool of which a model reads nothing but the name and the arguments."""
    users: dict[str, list[str]] = {}
    for agent in agents:
        for each in agent.tools:
            if not each.description.strip():
                users.setdefault(each.name, []).append(agent.name)
    for tool, names in users.items():
        yield (
            f"tool {tool} of {', '.join(names)} has no description: write a docstring, which models read to "
            "know what it does"
        )


def _problem(error: BaseException) -> str:
    """Return `FILE:LINE: ERROR: text`, of the newest line that does not belong to a library."""
    from layover.declare.registry import meant_by
    from layover.errors import AgentsNotLoaded

    cause = error.__cause__ if isinstance(error, AgentsNotLoaded) else error
    if cause is None:
        return str(error)
    text = f"{type(cause).__name__}: {cause}{meant_by(cause)}"
    if isinstance(cause, SyntaxError) and cause.filename:
        return f"{cause.filename}:{cause.lineno}: {type(cause).__name__}: {cause.msg}"
    frames = [f for f in traceback.extract_tb(cause.__traceback__) if _is_authors(f.filename)]
    return f"{frames[-1].filename}:{frames[-1].lineno}: {text}" if frames else text


def _is_authors(file: str) -> bool:
    # A dataclass's own functions have no file: `<string>`.
    is_file = not file.startswith("<")
    return is_file and not file.startswith(_PACKAGE) and not any(p in file for p in _LIBRARIES)


def main(arguments: list[str]) -> None:
    """Print the result of an import of the module; this process takes no signals."""
    from layover.desk.local.functions.environment import die_with
    from layover.desk.local.functions.package import install_package

    die_with(int(arguments[0]))
    install_package(Path(os.environ["LAMBDA_TASK_ROOT"]))
    from layover import wiring

    result = import_agents(wiring.environment().agents)
    print(flush=True)
    print(json.dumps(asdict(result)), flush=True)
    # A thread that the module started does not delay the end of this process.
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])

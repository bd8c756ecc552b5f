"""`layover eval`: cases that an agent is run on."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from layover import wiring
from layover.clock import SystemClock
from layover.declare.agent import Agent
from layover.desk.cli.serve_options import NoAgents, Options, settings_of
from layover.desk.evals.cases import CaseFile
from layover.desk.evals.outcome import Outcome
from layover.desk.evals.play import Play
from layover.desk.evals.read import read_cases
from layover.desk.evals.report import Head, json_of, junit_of, lines_of
from layover.desk.evals.runs_file import RunsFile, Setup
from layover.desk.evals.stubs import StubsInvalid, check_stubs
from layover.desk.evals.suite import evaluate
from layover.desk.failures import CommandFailed, report_failure
from layover.desk.local.agents_module import import_agents
from layover.desk.local.serve import variables_of
from layover.errors import unknown_agent
from layover.ports import ChatModel, OnDelta
from layover.project import Project
from layover.values.prompt import Prompt, Reply
from layover.values.text import reveal

FAILED = 1
_GIT_LIMIT_S = 30.0
_NO_MODEL = (
    "no model can be asked for {what}: set OPENAI_API_KEY, OPENAI_BASE_URL or LAYOVER_PROVIDERS, in the "
    "shell or in .env"
)


class NotRun(CommandFailed):
    """Nothing was run. The message says why, and what to do."""


@dataclass(frozen=True)
class Request:
    """The command's arguments."""

    file: Path
    agent: str | None = None
    agents: str | None = None
    model: str | None = None
    judges: tuple[str, ...] = ()
    repeat: int = 1
    at_once: int = 1
    stubs_only: bool = False
    junit: Path | None = None
    json: Path | None = None
    runs: Path | None = None
    continue_from: Path | None = None


@report_failure
def main(request: Request, project: Project | None) -> int:
    """Run the cases, print the report, and return the exit code: 0 if all held, 1 if some did not, 2 if
    nothing could be run."""
    try:
        agent, file = _prepare(request, project)
        setup = _setup(request, agent)
        runs = _runs_file(request, setup, file)
        outcomes = asyncio.run(_evaluate(request, agent, file, runs))
        for line in lines_of(outcomes):
            print(reveal(line))
        if request.junit is not None:
            write(request.junit, junit_of(outcomes, request.file.stem, agent.name))
        if request.json is not None:
            head = _head(request, setup, file)
            write(request.json, json_of(head, file.cases, outcomes))
        if runs is not None and runs.problem is not None:
            raise NotRun(runs.problem)
    except KeyboardInterrupt:
        if path := request.runs or request.continue_from:
            print(reveal(f"layover: --continue {path} goes on with it"), file=sys.stderr)
        return 130
    return 0 if all(outcome.holds for outcome in outcomes) else FAILED


def _prepare(request: Request, project: Project | None) -> tuple[Agent, CaseFile]:
    """Return the agent and the cases. Raises NotRun, CasesInvalid and StubsInvalid."""
    file = read_cases(request.file)
    _check_places(request)
    agent = _choose(request.agent or file.agent, agents_of(request.agents, project))
    for case in file.cases:
        try:
            check_stubs(agent, case.stubs)
        except StubsInvalid as error:
            raise StubsInvalid(f"{request.file}: case {case.name!r}: {error}") from None
    default = wiring.environment().model
    asks = any(case.script is None for case in file.cases) and agent.runtime is None
    names = [request.model or agent.model or default] if asks else []
    if any(case.expect.judge for case in file.cases):
        names += _judges(request, agent)
    require_models(each for each in names if each not in agent.own_models)
    return agent, file


def _check_places(request: Request) -> None:
    """Raise NotRun if a file that is to be written has no place."""
    if request.runs is not None and request.continue_from is not None:
        raise NotRun("--runs begins a file, and --continue goes on with one: name one of them")
    for path in filter(None, (request.junit, request.json, request.runs)):
        if not path.absolute().parent.is_dir():
            raise NotRun(
                f"{path.parent} is not a folder: make it, or name another place for {path.name}"
            )


def _choose(name: str | None, agents: Mapping[str, Agent]) -> Agent:
    """Return the agent of this name, or the only one. Raises NotRun."""
    if name is None and len(agents) > 1:
        raise NotRun(f"say which agent: --agent NAME, of {', '.join(agents)}")
    agent = agents.get(name) if name is not None else next(iter(agents.values()))
    if agent is None:
        raise NotRun(unknown_agent(str(name), agents))
    return agent


def require_models(names: Iterable[str]) -> None:
    """Raise NotRun if the environment serves one of these models not."""
    for name in names:
        if not wiring.serves_model(name):
            raise NotRun(_NO_MODEL.format(what=name))


def add_variables(folder: Path) -> None:
    """Add the variables of a folder's `.env` to the process's own, which win."""
    os.environ.update(variables_of(folder))


def _judges(request: Request, agent: Agent) -> tuple[str, ...]:
    """Return the models that judge: those of the command, else the deployment's. Where nobody serves that
    one, a model that the agent's author has brought judges its own answers."""
    default = wiring.environment().model
    own = agent.model if agent.model in agent.own_models else None
    is_served = own is None or wiring.serves_model(default)
    return request.judges or (default if is_served else own or default,)


@dataclass(frozen=True)
class _JudgeModel(ChatModel):
    """The models that judge, by their names: the agent's own objects among them."""

    agent: Agent

    async def complete(self, prompt: Prompt, on_delta: OnDelta | None = None) -> Reply:
        """See the port."""
        model = wiring.runtime().model_for(self.agent, prompt.model)
        return await model.complete(prompt, on_delta)


def agents_of(module: str | None, project: Project | None) -> dict[str, Agent]:
    """Return the agents of the module, or of the project's, with the variables and paths that `layover dev`
    gives it. Raises NotRun."""
    from layover.declare.registry import load_agents

    try:
        settings = settings_of(project, Options(agents=module))
    except NoAgents as error:
        raise NotRun(str(error)) from error
    add_variables(settings.project or Path.cwd())
    folder = settings.agents_folder or settings.functions
    sys.path[:0] = [str(folder), str(settings.project or Path.cwd())]
    name = settings.agents or "user_agents"
    report = import_agents(name)
    if report.problem is not None:
        raise NotRun(report.problem)
    return load_agents(name)


def _setup(request: Request, agent: Agent) -> Setup:
    default = wiring.environment().model
    model = request.model or agent.model or default
    judges = _judges(request, agent)
    return Setup.of(agent, model, judges, stubs_only=request.stubs_only)


def _head(request: Request, setup: Setup, file: CaseFile) -> Head:
    """Return the head of the JSON. It names no model that no case asks."""
    asks = any(case.script is None for case in file.cases)
    judged = any(case.expect.judge for case in file.cases)
    models = {
        "model": setup.model if asks else None,
        "judges": setup.judges if judged else (),
    }
    return Head(
        file=str(request.file),
        ended_at=SystemClock().now(),
        commit=commit_of(request.file.absolute().parent),
        setup=setup.model_copy(update=models),
    )


def commit_of(folder: Path) -> str | None:
    """Return the commit of a folder, with `-dirty` if a file of its repository has changed since; None if it
    is in no repository, or there is no git."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        run = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=_GIT_LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return run.stdout.strip() or None


def _runs_file(request: Request, setup: Setup, file: CaseFile) -> RunsFile | None:
    """Return the file that gets a line for each run. Raises RunsInvalid."""
    if request.continue_from is None:
        return RunsFile.begin(request.runs, setup, file.cases) if request.runs is not None else None
    runs = RunsFile.go_on(request.continue_from, setup, file.cases, request.repeat)
    total = len(file.cases) * request.repeat
    line = f"{len(runs.earlier)} of {total} runs are in {runs.path} and are not made again"
    print(reveal(line), file=sys.stderr)
    for name in runs.changed:
        print(reveal(f"changed since, and run again: {name}"), file=sys.stderr)
    return runs


async def _evaluate(
    request: Request, agent: Agent, file: CaseFile, runs: RunsFile | None
) -> list[Outcome]:
    def progress(outcome: Outcome, ended: int, total: int) -> None:
        if runs is not None:
            runs.add(outcome)
        _say(outcome, ended, total)

    own = agent.runtime.model if agent.runtime is not None else None
    return await evaluate(
        Play(agent, own, request.model, request.stubs_only),
        file.cases,
        judges=_judges(request, agent),
        judge_model=_JudgeModel(agent),
        repeat=request.repeat,
        at_once=request.at_once,
        progress=progress,
        earlier=runs.earlier if runs is not None else None,
    )


def _say(outcome: Outcome, ended: int, total: int) -> None:
    word = "held" if outcome.holds else "failed"
    line = (
        f"{ended}/{total} {word} {outcome.case} ({outcome.tokens} tokens, {outcome.seconds:.1f} s)"
    )
    print(reveal(line), file=sys.stderr, flush=True)


def write(path: Path, text: str) -> None:
    """Write a file that the command names. Raises NotRun."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    except OSError as error:
        raise NotRun(f"{path} cannot be written: {error.strerror}") from error


def judges_of(names: Sequence[str] | None) -> tuple[str, ...]:
    """Return the judges, each once."""
    return tuple(dict.fromkeys(names or ()))

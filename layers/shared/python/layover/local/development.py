"""Work of `layover dev` while it serves: it checks the model provider, and reloads agents that are
saved."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from layover.errors import nearest
from layover.local import agents_module
from layover.local.functions.lambda_service import LambdaService
from layover.local.runner import Runner
from layover.local.settings import child_variables, module_paths
from layover.local.sources import Sources
from layover.local.terminal.show import say
from layover.values.deployment.providers import mistyped_provider

logger = logging.getLogger(__name__)

STANDARD_MODEL = "openai/gpt-5-mini"
POLL_INTERVAL = timedelta(milliseconds=250)
_CHECK_LIMIT_S = 5.0
_STANDARD_URL = "https://api.openai.com/v1"
_KEY_ERRORS = (401, 403)
_PREWARMED = ("api", "turn")


class Development:
    """The companions of a runner that serves. `base_variables`: the variables that the runner was given."""

    def __init__(self, runner: Runner, base_variables: Mapping[str, str]) -> None:
        self._runner = runner
        self._inherited = base_variables
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin, in the background."""
        work = [self._check_model()]
        if self._runner.settings.has_agents():
            work.append(self._follow_agents())
        self._tasks = [asyncio.create_task(each) for each in work]

    def stop(self) -> None:
        """End the work in the background."""
        for task in self._tasks:
            task.cancel()

    async def _check_model(self) -> None:
        variables = self._inherited
        if not (variables.get("OPENAI_API_KEY") or variables.get("OPENAI_BASE_URL")):
            return
        models = [*self._runner.models, variables.get("LAYOVER_MODEL") or STANDARD_MODEL]
        problem = await problem_of(variables, models)
        if problem is not None:
            say(f"warning: {problem}", "yellow")

    async def _follow_agents(self) -> None:
        settings = self._runner.settings
        variables = child_variables(settings, self._inherited, {})
        module = variables.get("LAYOVER_AGENTS") or "user_agents"
        copy = settings.data.resolve() / "run" / "agents"
        paths = module_paths(settings, module, self._inherited)
        sources = await asyncio.to_thread(Sources, module, paths, copy)
        await asyncio.to_thread(sources.keep)
        reloader = Reloader(
            sources,
            load=lambda: agents_module.load(variables),
            functions=self._runner.functions,
            path=variables["PYTHONPATH"],
            say=say,
        )
        await reloader.follow()


async def problem_of(variables: Mapping[str, str], models: Sequence[str]) -> str | None:
    """Return the problem with OPENAI_BASE_URL, OPENAI_API_KEY or one of `models`: otherwise the first run
    would report it. None if there is no problem, or if the provider does not list its models."""
    import httpx2

    url = (variables.get("OPENAI_BASE_URL") or _STANDARD_URL).rstrip("/")
    key = variables.get("OPENAI_API_KEY")
    headers = {"Authorization": f"Bearer {key}"} if key else {}  # "Bearer " is not a header's value
    try:
        async with httpx2.AsyncClient(timeout=_CHECK_LIMIT_S) as http:
            response = await http.get(f"{url}/models", headers=headers)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        return f"no model answers at {url} ({type(error).__name__}): check OPENAI_BASE_URL"
    if response.status_code in _KEY_ERRORS:
        return f"{url} refuses the key ({response.status_code}): check OPENAI_API_KEY"
    models_served = _model_names(response)
    missing = sorted(
        {name for model in models if (name := model.removeprefix("openai/")) not in models_served}
    )
    if models_served and missing:
        names = ", ".join(f"{name}{_meant(name, models_served)}" for name in missing)
        return f"{url} does not list {names}: check LAYOVER_MODEL and the agents' models"
    return None


def _meant(model: str, served: Iterable[str]) -> str:
    """Return the name that was probably meant, in brackets; empty if none is near."""
    if (mistyped := mistyped_provider(model, ())) is not None:
        return f" ({mistyped})"
    near = nearest(model, served)
    return "" if near is None else f" (did you mean {near!r}?)"


def _model_names(response: Any) -> frozenset[str]:
    try:
        document = response.json() if response.status_code == 200 else {}
        return frozenset(str(each["id"]) for each in document.get("data", ()))
    except (ValueError, TypeError, KeyError, AttributeError):
        return frozenset()


class Reloader:
    """Reloads agents as their files are saved: the new content serves the next event. `path`: PYTHONPATH of
    the functions."""

    def __init__(
        self,
        sources: Sources,
        load: Callable[[], Awaitable[agents_module.LoadReport]],
        functions: LambdaService,
        path: str,
        say: Callable[[str, str], object],
    ) -> None:
        self._sources = sources
        self._load = load
        self._functions = functions
        self._path = path
        self._say = say

    async def follow(self) -> None:
        """Reload again and again, until cancelled."""
        while True:
            await asyncio.sleep(POLL_INTERVAL.total_seconds())
            try:
                if await asyncio.to_thread(self._sources.has_changed):
                    await self.reload()
            except Exception:
                logger.exception("the agents' files could not be looked at; the next look comes")

    async def reload(self) -> None:
        """Take the saved files if they can be loaded; else keep the last ones that could."""
        report = await self._load()
        if report.problem is not None:
            # Environments that start meanwhile import the copy: it comes first on their path.
            path = f"{self._sources.copy_path}:{self._path}"
            self._functions.change({"PYTHONPATH": path}, renew=False)
            text = f"the agents were not reloaded, the last ones go on answering:\n    {report.problem}"
            self._say(text, "red")
            return
        # The copy first: from here on an error in the next file to be saved falls back on these files.
        await asyncio.to_thread(self._sources.keep)
        # A process keeps the modules that it has imported, so those that exist take no further event.
        self._functions.change({"PYTHONPATH": self._path}, renew=True)
        self._functions.prewarm(*_PREWARMED)
        names = "; ".join(each.removeprefix("agent ") for each in report.agents)
        self._say(f"reloaded {names}", "green")
        for warning in report.warnings:
            self._say(f"warning: {warning}", "yellow")

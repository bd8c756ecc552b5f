"""Work of `layover dev` beside serving: it checks the model, and reloads agents that are saved."""

import asyncio
import logging
from collections.abc import Mapping

from layover.local import agents_module
from layover.local.runner import Runner
from layover.local.settings import child_variables, module_paths
from layover.local.terminal.model_check import problem_of
from layover.local.terminal.reloading import Reloader
from layover.local.terminal.show import say
from layover.local.terminal.sources import Sources

logger = logging.getLogger(__name__)

STANDARD_MODEL = "openai/gpt-5-mini"


class Development:
    """The companions of a runner that serves. `inherited`: the variables that it was given."""

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
        """Look at nothing any more."""
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
        path = variables["PYTHONPATH"]
        module = variables.get("LAYOVER_AGENTS") or "user_agents"
        copy = settings.data.resolve() / "run" / "agents"
        paths = module_paths(settings, module)
        sources = await asyncio.to_thread(Sources, module, paths, copy)
        await asyncio.to_thread(sources.keep)
        load = lambda: agents_module.load(variables)  # noqa: E731
        await Reloader(sources, load, self._runner.functions, path, say).follow()

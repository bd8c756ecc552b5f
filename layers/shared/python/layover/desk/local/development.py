"""Work of `layover dev` while it serves: it checks the model provider, and reloads agents that are
saved."""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from layover.desk.local import agents_module
from layover.desk.local.doors import LOOPBACK
from layover.desk.local.functions.lambda_service import LambdaService
from layover.desk.local.runner import STANDARD_MODEL, Runner
from layover.desk.local.settings import child_variables, model_providers, module_paths
from layover.desk.local.sources import Sources
from layover.desk.local.terminal.show import say
from layover.errors import nearest
from layover.values.deployment.providers import (
    ANTHROPIC,
    ANTHROPIC_VERSION,
    KEYED,
    PROVIDERS,
    ProviderAddress,
    mistyped_provider,
    split_model,
)

logger = logging.getLogger(__name__)

POLL_INTERVAL = timedelta(milliseconds=250)
_CHECK_LIMIT_S = 5.0
_STANDARD_URL = "https://api.openai.com/v1"
_KEY_ERRORS = (401, 403)
_TAKES_EVERY_NAME = "llamacpp"
"""Owner of the models of llama.cpp's server, which answers with the one that it has."""
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
        models = [*self._runner.models, variables.get("LAYOVER_MODEL") or STANDARD_MODEL]
        for problem in await problems_of(variables, models):
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


@dataclass(frozen=True)
class _Server:
    """A server of models: where it is, what it is asked for, and the variable that says so."""

    url: str
    key: str | None
    models: frozenset[str]
    variable: str = "OPENAI_BASE_URL"
    provider: str = ""
    api: str = "openai"

    @property
    def name(self) -> str:
        """The address as a person is told it: without a name, a password or a query."""
        bare = re.sub(r"^(\w+://)[^/?#]*@", r"\1", self.url)
        address = re.split(r"[?#]", bare)[0]
        return f"{address} ({self.variable}: {self.provider})" if self.provider else address

    @property
    def list_url(self) -> str:
        """The address of the list of its models."""
        if self.api == ANTHROPIC:
            return f"{self.url.removesuffix('/v1')}/v1/models?limit=1000"
        return f"{self.url}/models"

    @property
    def headers(self) -> dict[str, str]:
        """The headers that let a request in."""
        key = (self.key or "").strip()
        if self.api == ANTHROPIC:
            return {"x-api-key": key or "none", "anthropic-version": ANTHROPIC_VERSION}
        return {"Authorization": f"Bearer {key}"} if key else {}

    def lists(self, model: str, served: frozenset[str]) -> bool:
        """Return whether a model is among those of its list: an alias of Anthropic's is not, but the model
        behind it is."""
        if self.api == ANTHROPIC and any(name.startswith(f"{model}-") for name in served):
            return True
        return bool({model, f"{model}:latest"} & served)


async def problems_of(variables: Mapping[str, str], models: Sequence[str]) -> list[str]:
    """Return a line for each problem with OPENAI_BASE_URL, LAYOVER_PROVIDERS, their keys or one of `models`:
    otherwise the first run would report it. Each server is asked for the list of its models, and for
    nothing else."""
    addresses = model_providers(variables)
    names: dict[str | None, set[str]] = {}
    for model in models:
        provider, name = split_model(model, addresses)
        names.setdefault(provider, set()).add(name if provider else name.removeprefix("openai/"))
    servers = []
    if variables.get("OPENAI_API_KEY") or variables.get("OPENAI_BASE_URL"):
        url = variables.get("OPENAI_BASE_URL") or _STANDARD_URL
        own = frozenset(names.get(None, ()))
        servers.append(_Server(url.rstrip("/"), variables.get("OPENAI_API_KEY"), own))
    servers += [
        _Server(
            address.base_url.rstrip("/"),
            variables.get(address.api_key_env),
            frozenset(names.get(provider, ())),
            variable=_variable_of(provider, address),
            provider=provider,
            api=address.api,
        )
        for provider, address in addresses.items()
        # A key that only the deployment has is not on this machine.
        if not address.api_key_parameter
    ]
    lines = await asyncio.gather(*(_problem_at(server, addresses) for server in servers))
    return [problem for problem in lines if problem is not None]


def _variable_of(provider: str, address: ProviderAddress) -> str:
    """Return the variable that has named a provider."""
    keyed = KEYED.get(provider)
    return keyed.key if keyed and address.api_key_env == keyed.key else PROVIDERS


async def _problem_at(server: _Server, providers: Iterable[str]) -> str | None:
    import httpx2

    try:
        # A proxy does not reach this machine's servers, and need not know of them.
        environment = httpx2.URL(server.url).host not in LOOPBACK
        async with (
            asyncio.timeout(_CHECK_LIMIT_S),
            httpx2.AsyncClient(timeout=_CHECK_LIMIT_S, trust_env=environment) as http,
        ):
            response = await http.get(server.list_url, headers=server.headers)
    except Exception as error:  # Of whatever kind: it is about variables that a person has set.
        return (
            f"no model answers at {server.name} ({type(error).__name__}): check {server.variable}"
        )
    if response.status_code in _KEY_ERRORS:
        key = "its api_key_env" if server.provider else "OPENAI_API_KEY"
        return f"{server.name} refuses the key ({response.status_code}): check {key}"
    if response.status_code >= 500:
        status = response.status_code
        return f"{server.name} answers {status}: look at its log, it may still load its model"
    models_served = _model_names(response)
    missing = sorted(each for each in server.models if not server.lists(each, models_served))
    if models_served and missing:
        names = ", ".join(f"{name}{_meant(name, models_served, providers)}" for name in missing)
        return f"{server.name} does not list {names}: check LAYOVER_MODEL and the agents' models"
    return None


def _meant(model: str, served: Iterable[str], providers: Iterable[str]) -> str:
    """Return the name that was probably meant, in brackets; empty if none is near."""
    if (mistyped := mistyped_provider(model, providers)) is not None:
        return f" ({mistyped})"
    near = nearest(model, served)
    return "" if near is None else f" (did you mean {near!r}?)"


def _model_names(response: Any) -> frozenset[str]:
    """Return the names that a server lists; none if it has no list, or takes every name."""
    try:
        document = response.json() if response.status_code == 200 else {}
        models = document.get("data", ())
        if any(each.get("owned_by") == _TAKES_EVERY_NAME for each in models):
            return frozenset()
        # Google lists resources: `models/gemini-2.5-flash`.
        return frozenset(str(each["id"]).removeprefix("models/") for each in models)
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

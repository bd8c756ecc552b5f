"""A runner's settings, and the environment variables of its functions."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from layover.desk import shipped
from layover.desk.local.functions.invocation import REGION
from layover.desk.local.functions.package import handler_of
from layover.values.deployment.providers import PROVIDERS, ProviderAddress, providers_in

DEFAULT_TIMEOUT = timedelta(seconds=900)
TIMEOUTS: Mapping[str, timedelta] = {
    "api": timedelta(seconds=30),
    "notify": timedelta(seconds=30),
    "settle": timedelta(seconds=60),
    "sockets": timedelta(seconds=30),
    "sweep": timedelta(seconds=60),
}
"""Limits of functions, as `infra/` sets them; all others have `DEFAULT_TIMEOUT`."""

# Credentials and end points of a developer's real account must not reach the functions.
_PASSED_ON = frozenset({"AWS_MAX_ATTEMPTS", "AWS_RETRY_MODE", PROVIDERS})
_NOT_PASSED_ON = ("AWS_", "MOTO_", "PYTHON", "LAYOVER_DATABASE_", "LAYOVER_PROVIDER")


@dataclass(frozen=True)
class Settings:
    """All settings of a runner. Port 0 takes a free one."""

    port: int = 8787
    agents: str | None = None
    data: Path = Path(".layover")
    timeouts: Mapping[str, timedelta] = field(default_factory=dict)
    concurrency: int = 12
    api_concurrency: int = 40
    """A long poll holds an environment of `api` for as long as it waits, a stream one of `streams`."""
    functions: Path = shipped.SHIPPED.functions
    definition: Path = shipped.SHIPPED.definition
    python_path: Path | None = shipped.PACKAGE.parent if shipped.IS_CHECKOUT else None
    """Folder of this package, in which functions look before the project's. None: it is installed. Python's
    own path has it last then, as Lambda has the layer: a project's `agents` win over an installed package of
    that name."""
    project: Path | None = None
    """Folder of the project: its modules are importable. The current folder if not given."""
    agents_folder: Path | None = None
    """Folder of the agents' module, if that is neither the project's nor the functions'."""
    sweep_every: timedelta = timedelta(seconds=2)
    origins: tuple[str, ...] = ()
    """Origins of web pages that may call the API, in addition to those of this machine."""

    def timeout(self, function: str) -> timedelta:
        """The limit of a function."""
        standard = TIMEOUTS.get(function, DEFAULT_TIMEOUT)
        return self.timeouts.get(function, standard)

    def has_agents(self) -> bool:
        """Return whether these functions run agents."""
        return self.agents is not None or (self.functions / "user_agents").is_dir()

    def function_names(self) -> list[str]:
        """Folders of `functions` that have a handler."""
        return sorted(path.parent.name for path in self.functions.glob("*/handler.py"))


def child_variables(
    settings: Settings, base_variables: Mapping[str, str], services: Mapping[str, str]
) -> dict[str, str]:
    """Return the variables of every function's process: the user's, except those of AWS, and ours. The user's
    PYTHONPATH follows ours.

    `services` are the variables that say where the table, the bucket and the rest are.
    """
    keys = {provider.api_key_env for provider in model_providers(base_variables).values()}
    passed_on = _PASSED_ON | keys
    passed_variables = {
        name: value
        for name, value in base_variables.items()
        if name in passed_on or not name.startswith(_NOT_PASSED_ON)
    }
    ours = {
        "PYTHONPATH": os.pathsep.join(map(str, _paths(settings, base_variables))),
        "PYTHONUNBUFFERED": "1",
        "TZ": ":UTC",
        "NO_PROXY": _no_proxy(base_variables),
        "no_proxy": _no_proxy(base_variables),
        "LAMBDA_TASK_ROOT": str(settings.functions.resolve()),
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ACCESS_KEY_ID": "local",
        "AWS_SECRET_ACCESS_KEY": "local",
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    agents = {"LAYOVER_AGENTS": settings.agents} if settings.agents else {}
    return passed_variables | ours | dict(services) | agents


def model_providers(variables: Mapping[str, str]) -> Mapping[str, ProviderAddress]:
    """Return the providers that these variables name; none if LAYOVER_PROVIDERS is invalid, since functions
    refuse it and say why."""
    try:
        return providers_in(variables)
    except ValueError:
        return {}


def module_paths(settings: Settings, module: str, base_variables: Mapping[str, str]) -> list[Path]:
    """Return the folders in which a function looks for a user's module, the first one first."""
    functions, *others = _paths(settings, base_variables)
    is_function = module.partition(".")[0] in settings.function_names()
    return others if is_function else [functions, *others]


def _paths(settings: Settings, base_variables: Mapping[str, str]) -> list[Path]:
    """Return PYTHONPATH: our folders, and after them those of the shell, whose modules hide none of ours."""
    shell_path = base_variables.get("PYTHONPATH", "").split(os.pathsep)
    project = settings.project or Path.cwd()
    own = (settings.functions, settings.python_path, settings.agents_folder, project)
    shell = map(Path, filter(None, shell_path))
    paths = [path.resolve() for path in (*own, *shell) if path is not None]
    return list(dict.fromkeys(paths))


def _no_proxy(base_variables: Mapping[str, str]) -> str:
    theirs = base_variables.get("no_proxy") or base_variables.get("NO_PROXY")
    return ",".join(filter(None, [theirs, "127.0.0.1", "localhost"]))


def function_variables(name: str, timeout: timedelta) -> dict[str, str]:
    """Return the variables in which Lambda describes a function to itself."""
    return {
        "_HANDLER": handler_of(name),
        "AWS_LAMBDA_FUNCTION_NAME": name,
        "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1024",
        "AWS_LAMBDA_FUNCTION_TIMEOUT": str(int(timeout.total_seconds())),
        "AWS_LAMBDA_LOG_GROUP_NAME": f"/aws/lambda/{name}",
        "AWS_LAMBDA_LOG_STREAM_NAME": "local",
    }

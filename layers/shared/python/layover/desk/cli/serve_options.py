"""Settings of `layover dev`: its options, the environment, and those of the project."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from layover.desk import shipped
from layover.desk.cli.here import INIT
from layover.desk.failures import CommandFailed
from layover.desk.local.serve import variables_of
from layover.desk.local.settings import Settings
from layover.project import FILE, AgentsModule, DevSettings, Project, parse_agents


class NoAgents(CommandFailed):
    """There is no module of agents to serve. The message says how to name one."""


@dataclass(frozen=True)
class Options:
    """The options of the command line; None or empty: not options."""

    port: int | None = None
    agents: str | None = None
    data: Path | None = None
    timeouts: Mapping[str, timedelta] | None = None
    origins: tuple[str, ...] = ()


def settings_of(
    project: Project | None, options: Options, *, is_checkout: bool = shipped.IS_CHECKOUT
) -> Settings:
    """Return the settings. Options win over the environment, and that over `layover.toml`. Raises NoAgents.
    `is_checkout`: there are agents without a project."""
    root = project.root if project is not None else Path.cwd()
    dev = project.settings.dev if project is not None else DevSettings()
    agents = _agents_of(project, options, root)
    if agents is None and not is_checkout:
        raise NoAgents(
            f"no {FILE} in {root} or above it: {INIT}, and --agents MODULE serves one without it"
        )
    limits = {name: timedelta(seconds=seconds) for name, seconds in dev.timeouts.items()}
    return Settings(
        port=dev.port if options.port is None else options.port,
        agents=agents.name if agents is not None else None,
        agents_folder=agents.folder if agents is not None else None,
        data=root / dev.data if options.data is None else options.data,
        timeouts={**limits, **(options.timeouts or {})},
        origins=tuple(each.rstrip("/") for each in (*dev.origins, *options.origins)),
        project=project.root if project is not None else None,
    )


def _agents_of(project: Project | None, options: Options, root: Path) -> AgentsModule | None:
    """Return the module; None: the checkout's own `user_agents`."""
    if options.agents is not None:
        try:
            module = parse_agents(options.agents)
        except ValueError as error:
            raise NoAgents(f"--agents: {error}") from None
        return AgentsModule(Path.cwd() / module.folder, module.name)
    if name := variables_of(root).get("LAYOVER_AGENTS"):
        return AgentsModule(root, name)
    return project.agents if project is not None else None

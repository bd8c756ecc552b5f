"""A project of one's own: the folder with `layover.toml`, and the settings in that file."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from layover.errors import nearest, unknown_name
from layover.values.encodings import decode
from layover.values.refusals import refusal

FILE = "layover.toml"
_NOT_AGENTS = frozenset({"functions", "infra", "layover"})
"""Modules of Layover and of the project's stack."""
NAME = r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$"
MAX_NAME = 20
RESERVED = ("aws", "amazon", "cognito")
"""Words that Cognito refuses in a domain, of which the names are a part."""
ID = r"^([a-z0-9]{8,32})?$"
_STAGE = re.compile(r"[a-z][a-z0-9]{0,15}")
_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


class ProjectInvalid(ValueError):
    """The project cannot be used. The message names the file and the setting, and says what to do."""


class DevSettings(BaseModel):
    """Settings of `layover dev`. Its options win."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    port: int = Field(default=8787, ge=0, le=65535)
    """Port of the HTTP API and the console; 0 takes a free one."""
    data: str = ".layover"
    """Folder, below the project's, for the data that survives a restart and for the logs."""
    origins: tuple[str, ...] = ()
    """Web pages of these origins may call the API, as those of `localhost` may."""
    timeouts: Mapping[str, Annotated[float, Field(gt=0, le=900)]] = {}
    """Seconds that a function may take, by its name: `{turn = 300}`."""


class DeploySettings(BaseModel):
    """Settings of `layover synth`, `diff`, `deploy` and `destroy`. Their options win."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    stage: str = Field(default="dev", pattern=f"^{_STAGE.pattern}$")
    """The stage if none is named."""
    profile: str | None = None
    """Profile of the AWS configuration; the environment's if not given."""
    region: str | None = None
    """Region of AWS; the profile's if not given."""
    app: str = Field(default="infra.app", pattern=f"^{_MODULE.pattern}$")
    """Module of the CDK app."""


class ProjectSettings(BaseModel):
    """All settings of `layover.toml`. Paths are relative to the file."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    name: str | None = Field(default=None, max_length=MAX_NAME, pattern=NAME)
    """Beginning of every name on AWS: the stack of a stage is NAME-STAGE. Without it, `layover`. Another one
    makes another system."""
    id: str = Field(default="", pattern=ID)
    """Tells the project from another one of the same name, whose stacks it may not change."""
    agents: str = "agents"
    """Module whose agents are served: `agents`, `shop.agents`, or with its folder `src/agents`."""
    tests: str = "tests"
    """Folder, or file, that `layover test` runs."""
    dev: DevSettings = DevSettings()
    deploy: DeploySettings = DeploySettings()
    stages: Mapping[str, Mapping[str, Any]] = {}
    """Settings of each stage of the deployment, by its name. A stage that is not listed is refused, unless
    none is."""

    @field_validator("name")
    @classmethod
    def _is_taken_by_cognito(cls, name: str | None) -> str | None:
        refuse_reserved("name", name or "")
        return name

    @field_validator("agents")
    @classmethod
    def _is_a_module(cls, agents: str) -> str:
        folder = parse_agents(agents).folder
        if folder.is_absolute() or ".." in folder.parts:
            raise ValueError(f"agents must be in the project, not in {folder}: move it there")
        return agents

    @field_validator("stages")
    @classmethod
    def _have_names(cls, stages: Mapping[str, Any]) -> Mapping[str, Any]:
        if wrong := next((name for name in stages if _STAGE.fullmatch(name) is None), None):
            raise ValueError(
                f"stages: {wrong!r} cannot name a stage: write up to 16 of a-z and 0-9"
            )
        return stages


_SECTIONS: Mapping[int | str, type[BaseModel]] = {"dev": DevSettings, "deploy": DeploySettings}


def refuse_reserved(setting: str, value: str) -> None:
    """Raise ValueError for a part of the names on AWS that Cognito would refuse in the middle of a
    deployment."""
    if any(word in value for word in RESERVED):
        raise ValueError(
            f"{setting} cannot be {value!r}: Cognito refuses names with {', '.join(RESERVED)} in them"
        )


@dataclass(frozen=True)
class AgentsModule:
    """A module of agents. `folder`: where Python finds it, relative to the project."""

    folder: Path
    name: str


def parse_agents(text: str) -> AgentsModule:
    """Return the module that `agents`, `shop.agents`, `src/agents`, `src/agents.py` or
    `src/agents/__init__.py` names. Raises ValueError."""
    path, _, last = text.removesuffix("/__init__.py").removesuffix("/").rpartition("/")
    name = last.removesuffix(".py")
    folder = Path(path or ("/" if text.startswith("/") else "."))
    if _MODULE.fullmatch(name) is None:
        raise ValueError(
            f"agents must name a module, like agents, shop.agents or src/agents, not {text!r}"
        )
    if name.partition(".")[0] in _NOT_AGENTS:
        raise ValueError(f"agents cannot be {text!r}: that module is Layover's own, rename yours")
    return AgentsModule(folder, name)


@dataclass(frozen=True)
class Project:
    """A project. `root`: the absolute folder of `layover.toml`."""

    root: Path
    settings: ProjectSettings

    @property
    def agents(self) -> AgentsModule:
        """The module of the agents, in an absolute folder."""
        module = parse_agents(self.settings.agents)
        return AgentsModule(self.root / module.folder, module.name)

    @property
    def requirements(self) -> Path | None:
        """The file with the packages that the agents import, next to them; None if there is none."""
        module = self.agents
        file = module.folder / module.name.partition(".")[0] / "requirements.txt"
        return file if file.is_file() else None

    @property
    def tests(self) -> Path:
        """The absolute place of the tests."""
        return self.root / self.settings.tests

    def stage(self, name: str) -> Mapping[str, Any]:
        """Return the stage's settings. Raises ProjectInvalid for a stage that is not listed, if others are: a
        mistyped one would make another system."""
        stages = self.settings.stages
        if name in stages or not stages:
            return stages.get(name, {})
        near = nearest(name, stages)
        hint = (
            f"did you mean {near!r}?"
            if near
            else f"add it, even if it is empty, to deploy {name!r}"
        )
        raise ProjectInvalid(f"{self.root / FILE} has no [stages.{name}]: {hint}")


def find(folder: Path) -> Project | None:
    """Return the project that the folder is in; None if neither it nor one above has `layover.toml`. Raises
    ProjectInvalid."""
    start = folder.resolve()
    for each in (start, *start.parents):
        if (each / FILE).is_file():
            return read(each)
    return None


def read(root: Path) -> Project:
    """Return the project in this folder. Raises ProjectInvalid."""
    file = root.resolve() / FILE
    try:
        values = tomllib.loads(text_of(file))
    except tomllib.TOMLDecodeError as error:
        raise ProjectInvalid(f"{file} is not TOML: {error}") from error
    try:
        return Project(file.parent, ProjectSettings.model_validate(values))
    except ValidationError as error:
        lines = (_line(each) for each in error.errors(include_url=False))
        raise ProjectInvalid("\n".join(f"{file}: {line}" for line in lines)) from None


def text_of(file: Path) -> str:
    """Return the text of a file that a person wrote: UTF-8, or what the mark at its beginning says, as
    Windows writes it. Raises ProjectInvalid."""
    try:
        return decode(file.read_bytes()).replace("\r\n", "\n").replace("\r", "\n")
    except OSError as error:
        raise ProjectInvalid(f"{file} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ProjectInvalid(f"{file} is not UTF-8: save it as UTF-8") from error


def _line(error: Mapping[str, Any]) -> str:
    """Return one of pydantic's errors as a sentence about the setting."""
    *sections, last = error["loc"]
    if error["type"] != "extra_forbidden":
        return refusal(".".join(map(str, error["loc"])), error)
    model = _SECTIONS.get(sections[0], ProjectSettings) if sections else ProjectSettings
    text = unknown_name("setting", last, model.model_fields)
    return f"[{sections[0]}]: {text}" if sections else text

"""Lacks of a stage: things that the agents need, each with the line that mends it."""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from layover.desk.cdk.agents_code import AgentsCode, Piece
from layover.desk.cdk.distributions import Supply, distributions_of, name_in, of_extra, supply_of
from layover.desk.cdk.locks import lock_of, problems
from layover.desk.cdk.reading import texts_in, trees_of
from layover.desk.cdk.settings import STAGES, VARIABLES, Settings
from layover.desk.cdk.variables import LOADS_AGENTS
from layover.desk.cdk.wants import Kind, Want, wants_of
from layover.desk.shipped import SHIPPED
from layover.project import FILE, Project
from layover.values.deployment.providers import KEYED

_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.I)
"""A part of the names of variables whose values nobody should read in plain sight."""
_PROD = re.compile(r"prod|live")
_OF_FUNCTIONS = re.compile(
    r"(AWS|LAYOVER|PYTHON|OTEL|LC)_\w+|PYTHON\w*|_HANDLER|PATH|LANG|TZ|TMPDIR|HOME|USER"
    r"|LD_LIBRARY_PATH|(HTTPS?|NO|ALL)_PROXY",
    re.I,
)
"""Variables that Lambda, the deployment or the machine sets, and no author."""
_OPENAI_KEY = "OPENAI_API_KEY"
"""It has its parameter (`Settings.key_parameter`), into which every first deployment puts it."""
_LOCAL = ("localhost", "host.docker.internal")
_INSIDE = (".internal", ".local", ".lan", ".corp", ".localhost")


@dataclass(frozen=True)
class Lack:
    """One thing that a stage lacks.

    Attributes:
        name: Of the variable, the secret, the package, the server or the setting.
        text: Who needs it, and where.
        todo: The line that mends it, and where it goes.
        certain: False if only running the code tells whether it is needed.
        fails: True if what is deployed without it is certain to fail.
    """

    name: str
    text: str
    todo: str
    certain: bool = True
    fails: bool = False

    @property
    def words(self) -> str:
        """The line of the report: `lacks SHOP_KEY: ...`."""
        word = "lacks" if self.certain else "may lack"
        return f"{word} {self.name}: {self.text}: {self.todo}"


@dataclass(frozen=True)
class Failure:
    """An import of the agents that failed with the variables of the stage. `variable`: the one that was
    missing; "" if none is known. `problem`: the error, with its place."""

    variable: str
    problem: str


def lacks_of(
    project: Project,
    settings: Settings,
    *,
    dot_env: Iterable[str] = (),
    failures: Sequence[Failure] = (),
) -> list[Lack]:
    """Return what the project's agents need and a stage with these settings lacks. What the project's CDK app
    names in a text counts as given by it.

    Args:
        project: The project.
        settings: Of the stage, as its file and the command line give them.
        dot_env: The names of the variables in the project's `.env`.
        failures: Of imports of the agents with the variables of the stage.
    """
    return list(_Stage(project, settings, tuple(dot_env), tuple(failures)).lacks())


def variables_of_import(settings: Settings) -> Mapping[str, str]:
    """Return the project's variables that each function has which imports the agents."""
    # As `layover.desk.cdk.constructs.functions` gives them.
    all_run_tools = all(settings.functions[name].tools for name in LOADS_AGENTS)
    return {**settings.tool_env, **(settings.tool_secrets if all_run_tools else {})}


def app_files(project: Project) -> list[Path]:
    """Return the modules of the project's CDK app."""
    app = project.root / f"{project.settings.deploy.app.replace('.', '/')}.py"
    return [app] if app.parent == project.root else sorted(app.parent.rglob("*.py"))


@dataclass(frozen=True)
class _Stage:
    project: Project
    settings: Settings
    dot_env: tuple[str, ...]
    failures: tuple[Failure, ...]
    _names: set[str] = field(default_factory=set)

    def lacks(self) -> Iterator[Lack]:
        checks = {
            Kind.VARIABLE: self._variable,
            Kind.OPTIONAL: self._optional,
            Kind.SECRET: self._secret,
            Kind.SERVER: self._server,
            Kind.PACKAGE: self._package,
            Kind.IMPORT: self._import,
        }
        for want in wants_of(self._code):
            if want.name not in self._names and (lack := checks[want.kind](want)):
                self._names.add(want.name)
                yield lack
        yield from self._of_failures()
        yield from self._of_dot_env()
        yield from self._of_settings()
        yield from self._of_locks()

    # What is there

    @cached_property
    def _code(self) -> AgentsCode:
        module, root = self.project.agents, self.project.root
        return AgentsCode(module.name, tuple(dict.fromkeys((module.folder, root))))

    @cached_property
    def _by_app(self) -> frozenset[str]:
        """The texts of the CDK app, and the names of options: what its own code gives, and takes along."""
        trees = list(trees_of(app_files(self.project)).values())
        options = (
            node.arg
            for tree in trees
            for node in ast.walk(tree)
            if isinstance(node, ast.keyword) and node.arg is not None
        )
        return frozenset({*(text for tree in trees for text in texts_in(tree)), *options})

    @cached_property
    def _supply(self) -> Supply:
        files = [self.project.root / text for text in self._by_app if text.endswith(".txt")]
        own = self.project.requirements
        return supply_of([*([own] if own else []), *filter(Path.is_file, files)], SHIPPED.lock)

    @cached_property
    def _variables(self) -> frozenset[str]:
        """Variables that the functions which run tools have."""
        return frozenset({*variables_of_import(self.settings), *self._only_of_tools, *self._by_app})

    @cached_property
    def _only_of_tools(self) -> frozenset[str]:
        """Variables that not every function which imports the agents has."""
        return frozenset(self.settings.tool_secrets) - variables_of_import(self.settings).keys()

    # Where it goes

    @cached_property
    def _file(self) -> Path | None:
        """The stage's own file; None where `layover.toml` has its settings."""
        file = Path(STAGES) / f"{self.settings.stage}.json"
        return file if (self.project.root / file).is_file() else None

    @property
    def _heading(self) -> str:
        if self._file is not None:
            return f"in {self._file}"
        return f"under [stages.{self.settings.stage}] of {FILE}"

    def _line(self, setting: str, value: str) -> str:
        """Return what to write for a setting, as the file of the stage has it."""
        line = f'{setting} = "{value}"' if self._file is None else f'"{setting}": "{value}"'
        return f"write {line} {self._heading}"

    def _entry(self, setting: str, name: str, value: str) -> str:
        """Return what to write for an entry of a setting that has several."""
        entry = f'{name} = "{value}"' if self._file is None else f'"{name}": "{value}"'
        if getattr(self.settings, setting):
            return f"add {entry} to {setting} {self._heading}"
        key = f"{setting} =" if self._file is None else f'"{setting}":'
        return f"write {key} {{ {entry} }} {self._heading}"

    def _at(self, piece: Piece) -> str:
        root = self.project.root
        file = piece.file.relative_to(root) if piece.file.is_relative_to(root) else piece.file
        return f"{file.as_posix()}:{piece.line}"

    def _variable_line(self, name: str) -> str:
        if _SECRET.search(name):
            return f'read it by secret("{name}"), and {self._secret_line(name)}'
        return self._entry("tool_env", name, "...")

    def _secret_line(self, name: str) -> str:
        place = f"/{self.settings.name}/{self.settings.stage}/{name.lower().replace('_', '-')}"
        put = f"aws ssm put-parameter --type SecureString --name {place} --value ..."
        return f"{self._entry('tool_secrets', name, place)}, and put it there: {put}"

    @property
    def _requirements(self) -> str:
        module, root = self.project.agents, self.project.root
        file = module.folder / module.name.partition(".")[0] / "requirements.txt"
        return file.relative_to(root).as_posix() if file.is_relative_to(root) else str(file)

    # The wants of the code

    def _variable(self, want: Want) -> Lack | None:
        name, piece = want.name, want.piece
        if _OF_FUNCTIONS.fullmatch(name):
            return None
        text = f'{self._at(piece)} reads os.environ["{name}"]'
        if piece.at_import and name in self._only_of_tools:
            is_early = (
                f"{text} when it is imported, which all functions do, and only those that run tools have "
                "`tool_secrets`"
            )
            return Lack(name, is_early, "read it in the tool that uses it", fails=True)
        if name in self._variables:
            return None
        certain = piece.certain
        return Lack(name, text, self._variable_line(name), certain=certain, fails=certain)

    def _optional(self, want: Want) -> Lack | None:
        name = want.name
        if name in self._variables or _OF_FUNCTIONS.fullmatch(name):
            return None
        text = f'{self._at(want.piece)} reads os.getenv("{name}"), without a default'
        return Lack(name, text, self._variable_line(name), certain=False)

    def _secret(self, want: Want) -> Lack | None:
        name, piece = want.name, want.piece
        if name in self._variables:
            return None
        text = f'{self._at(piece)} has secret("{name}")'
        return Lack(name, text, self._secret_line(name), fails=piece.certain)

    def _server(self, want: Want) -> Lack | None:
        host = _host_of(want.name)
        text = f"{self._at(want.piece)} asks {want.name}"
        if host in self._by_app or want.name in self._by_app:
            return None
        if _is_here(host):
            todo = "name the address that the server has for AWS"
            is_here = f"{text}, and on AWS that is the function itself, where no server answers"
            return Lack(host, is_here, todo, fails=want.piece.certain)
        if _is_inside(host) and not (self.settings.vpc_id or "vpc" in self._by_app):
            todo = f"name your VPC by vpc_id {self._heading}, or a public address"
            own = f"{text}, which is inside a network, and the functions are in a VPC of Layover's"
            return Lack(host, own, todo, certain=False)
        return None

    def _package(self, want: Want) -> Lack | None:
        name = want.name
        if name in self._supply.names:
            return None
        line = next((each for each in of_extra(name) if name_in(each) == name), name)
        text = f"{self._at(want.piece)} needs the package {name}, which the layer does not have"
        fails = want.piece.certain and self._supply.is_all
        return Lack(name, text, self._add(line), certain=self._supply.is_all, fails=fails)

    def _import(self, want: Want) -> Lack | None:
        name, piece = want.name, want.piece
        if (file := self._code.find(name)) is not None:
            return self._own_module(name, file, piece)
        has = self._supply.has(name)
        if has or name == "layover" or name in self._by_app:
            return None
        line = min(distributions_of(name), default=name)
        if line in self._names:
            return None
        self._names.add(line)
        certain = has is False and piece.certain
        text = f"{self._at(piece)} imports {name}"
        return Lack(line, text, self._add(line), certain=certain, fails=certain and piece.at_import)

    def _own_module(self, name: str, file: Path, piece: Piece) -> Lack | None:
        """Return what is wrong with a module of the project next to the agents: only the agents' own package
        is taken along by itself."""
        packages = {Path(text).stem for text in self._by_app}
        if name == self._code.top or name in packages or self._is_checkouts(file):
            return None
        place = file.parent if file.name == "__init__.py" else file
        path = place.relative_to(self.project.root).as_posix()
        text = f"{self._at(piece)} imports {name}, which is not a part of the agents' package"
        app = f"{self.project.settings.deploy.app.replace('.', '/')}.py"
        todo = (
            f'write packages=["{path}"] in Layover(...) of {app}, or move it into {self._code.top}'
        )
        certain = piece.certain
        return Lack(name, text, todo, certain=certain, fails=certain and piece.at_import)

    def _is_checkouts(self, file: Path) -> bool:
        """Return whether a module is deployed with Layover's own functions."""
        return file.is_relative_to(SHIPPED.functions)

    def _add(self, line: str) -> str:
        return f"add the line {line} to {self._requirements}"

    # What nobody asks for by name

    def _of_failures(self) -> Iterator[Lack]:
        for each in self.failures:
            if each.variable in self._names:
                continue
            if each.variable:
                self._names.add(each.variable)
            name = each.variable or self.project.settings.agents
            text = f"the agents cannot be imported with the variables of the stage ({each.problem})"
            todo = (
                self._variable_line(name)
                if each.variable and name not in self._variables
                else "read variables in the tools that use them, or give them a default"
            )
            yield Lack(name, text, todo, fails=True)

    def _of_dot_env(self) -> Iterator[Lack]:
        for name in self.dot_env:
            todo = None if name in self._names else self._todo_of(name)
            if todo is not None:
                text = f".env has {name}, which only this machine reads"
                yield Lack(name, text, todo, certain=False)

    def _todo_of(self, name: str) -> str | None:
        """Return what would give the stage a variable of this machine; None if it has it, or needs none."""
        setting = next((key for key, variable in VARIABLES.items() if variable == name), None)
        if setting is not None:
            if setting in self.settings.model_fields_set:
                return None
            return f"{self._line(setting, '...')}, if it is meant for the stage"
        provider = next((key for key, each in KEYED.items() if name == each.key), None)
        if provider is not None:
            has = provider in self.settings.providers or not self._names_model_of(provider)
            return None if has else self._provider_line(provider)
        others = {_OPENAI_KEY, *(each.url for each in KEYED.values())}
        names = {*self._variables, *self.settings.channel_secrets, *others}
        if name in names or _OF_FUNCTIONS.fullmatch(name):
            return None
        return self._variable_line(name)

    def _names_model_of(self, provider: str) -> bool:
        """Return whether the code, or the stage, names a model of this provider."""
        models = (self.settings.model or "", *self.settings.models)
        texts = (text for tree in self._code.trees() for text in texts_in(tree))
        return any(each.startswith(f"{provider}/") for each in (*models, *texts))

    def _provider_line(self, provider: str) -> str:
        place = f"/{self.settings.name}/{self.settings.stage}/{provider}-api-key"
        keyed = KEYED[provider]
        values = (
            f'base_url = "{keyed.base_url}", api = "{keyed.api}", api_key_parameter = "{place}"'
        )
        return f"write providers.{provider} = {{ {values} }} {self._heading}"

    def _of_settings(self) -> Iterator[Lack]:
        settings = self.settings
        if settings.otlp_endpoint:
            missing = [line for line in of_extra("otel") if name_in(line) not in self._supply.names]
            if missing:
                text = (
                    f"otlp_endpoint is set {self._heading}, and its packages are not in the layer"
                )
                is_all = self._supply.is_all
                todo = f"add to {self._requirements}: {'  '.join(missing)}"
                yield Lack(name_in(missing[0]), text, todo, certain=is_all, fails=is_all)
        has_address = settings.alarms_email or "alarms_email" in self._by_app
        if _PROD.match(settings.stage) and not has_address:
            text = f"nobody gets the alarms of {settings.stage}"
            yield Lack("alarms_email", text, self._line("alarms_email", "you@example.com"))

    def _of_locks(self) -> Iterator[Lack]:
        for requirements, why in problems(self.project):
            path = requirements.relative_to(self.project.root).as_posix()
            # The build refuses a lock that is there and does not fit.
            fails = requirements == self.project.requirements and lock_of(requirements).is_file()
            yield Lack(
                f"a lock of {path}",
                why,
                "run `layover lock`, and commit what it writes",
                fails=fails,
            )


def _host_of(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _is_here(host: str) -> bool:
    try:
        address = ip_address(host)
    except ValueError:
        return host in _LOCAL or host.endswith(".localhost")
    return address.is_loopback or address.is_unspecified


def _is_inside(host: str) -> bool:
    try:
        return ip_address(host).is_private
    except ValueError:
        return bool(host) and ("." not in host or host.endswith(_INSIDE))

"""The needs of a deployment, all of them looked at before it begins."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from layover.desk import shipped
from layover.desk.cdk.build import NO_PIP
from layover.desk.cdk.lacks import Lack, app_files
from layover.desk.cdk.preflight import options
from layover.desk.cli.deploy.machine import Account, Machine, NoAccount
from layover.desk.cli.deploy.request import Request
from layover.desk.cli.deploy.stage_check import lacks

CDK = "2.1148.1"
"""Version of the npm package `aws-cdk`. Of the CDK, 3.0.0 is an accidental release."""
MIN_NODE = 20
QUALIFIER = "hnb659fds"
"""Qualifier of a bootstrap that is given none."""
_QUALIFIER = "@aws-cdk/core:bootstrapQualifier"
"""Name in the CDK's context."""
_OWN_BOOTSTRAP = re.compile(r"synthesizer|bootstrap_?qualifier", re.I)
"""Words of an app that chooses by code what its stacks are deployed with."""
_INSTALL_NODE = f"install Node {MIN_NODE} or newer (nodejs.org, or your system's packages)"


@dataclass(frozen=True)
class Need:
    """One thing that has to be there. `todo`: what to do about it; empty: it is there."""

    name: str
    fact: str
    todo: str = ""


@dataclass(frozen=True)
class Ready:
    """All needs of a request, and what was learned with them. `lacks`: what the agents need and the stage
    lacks."""

    needs: Sequence[Need]
    cdk: Sequence[str] = ()
    """The CDK's command line."""
    account: Account | None = None
    tools: "Tools | None" = None
    lacks: Sequence[Lack] = ()

    @property
    def missing(self) -> list[Need]:
        """The needs that are not met."""
        return [need for need in self.needs if need.todo]


@dataclass(frozen=True)
class Tools:
    """The package with the deployment's own programs: `infra` in a checkout, `layover.desk.cdk` elsewhere."""

    package: str
    folder: Path = field(compare=False)

    def has(self, program: str) -> bool:
        """Return whether it has a program of this name."""
        return (self.folder / f"{program}.py").is_file()


def look(request: Request, machine: Machine) -> Ready:
    """Look at everything that the request needs."""
    tools = tools_of()
    command, cdk = _cdk(request.project.root, machine)
    needs = [_node(machine), cdk, *_python(request, machine, tools)]
    account = None
    of_stage: Sequence[Lack] = ()
    if request.command != "destroy":
        try:
            of_stage = lacks(
                request.project,
                context_of(request),
                partial(machine.import_agents, request.project),
            )
        except ValueError as error:
            needs.append(Need("settings", "", str(error)))
    if request.command != "synth":
        if request.command != "diff" and not (request.yes or machine.has_terminal()):
            todo = f"add --yes: `{request.command}` asks before it changes anything"
            needs.append(Need("terminal", "", todo))
        try:
            account = machine.account(request.profile, request.region, qualifier_of(request))
        except NoAccount as error:
            needs.append(Need("credentials", "", str(error)))
        else:
            needs += _of_account(request, account, command)
    return Ready(needs, command, account, tools, of_stage)


def tools_of() -> Tools | None:
    """Return the deployment's programs; None if this installation has none."""
    package = shipped.PACKAGE / "desk" / "cdk"
    return Tools("layover.desk.cdk", package) if package.is_dir() else None


def _node(machine: Machine) -> Need:
    version = machine.output("node", "--version") if machine.program("node") else ""
    match = re.match(r"v?(\d+)", version)
    if match is None:
        return Need("node", "", _INSTALL_NODE)
    if int(match[1]) < MIN_NODE:
        return Need("node", version, f"{version} is too old: {_INSTALL_NODE}")
    return Need("node", version)


def _cdk(root: Path, machine: Machine) -> tuple[Sequence[str], Need]:
    """Return the CDK's command line: the project's own, or the pinned one, which npx fetches once."""
    own = root / "node_modules" / "aws-cdk" / "package.json"
    program = root / "node_modules" / ".bin" / "cdk"
    if program.exists() and own.is_file():
        version = json.loads(own.read_text("utf-8")).get("version", "its own")
        return [str(program)], Need("cdk", f"{version}, in node_modules")
    if npx := machine.program("npx"):
        return [npx, "--yes", f"aws-cdk@{CDK}"], Need("cdk", f"aws-cdk@{CDK}, fetched by npx")
    return [], Need("cdk", "", f"npx is missing: {_INSTALL_NODE}, which has it")


def _python(request: Request, machine: Machine, tools: Tools | None) -> Iterator[Need]:
    file = _app(request)
    if not file.is_file():
        yield Need("app", "", f"{file} is missing: `app` of [deploy] in layover.toml names it")
    else:
        yield Need("app", str(file.relative_to(request.project.root)))
    if not machine.has_package("aws_cdk"):
        yield Need("packages", "", "pip install 'layover[cdk]'")
    elif tools is None:
        yield Need("packages", "", "this release has no stack for projects: pip install -U layover")
    else:
        yield Need("packages", "the extra `cdk`")
    yield Need("pip", "is there") if machine.has_package("pip") else Need("pip", "", NO_PIP)


def _app(request: Request) -> Path:
    module = request.project.settings.deploy.app
    return request.project.root / f"{module.replace('.', '/')}.py"


def _of_account(request: Request, account: Account, cdk: Sequence[str]) -> Iterator[Need]:
    where = f"aws://{account.id}/{account.region}"
    yield Need("credentials", f"account {account.id}, region {account.region}")
    if request.command != "deploy":
        return
    if account.bootstrap == "" and _chooses_bootstrap(request):
        yield Need("bootstrap", "the app's own code says which")
    elif account.bootstrap == "":
        profile = f" --profile {request.profile}" if request.profile else ""
        command = "npx --yes " + (cdk[-1] if len(cdk) > 1 else f"aws-cdk@{CDK}")
        qualifier, own = qualifier_of(request), ""
        if qualifier != QUALIFIER:
            own = f" --qualifier {qualifier} --toolkit-stack-name CDKToolkit-{qualifier}"
        todo = f"once for this account and region: {command} bootstrap{own} {where}{profile}"
        also = "" if own else f"; one with a qualifier is named by {_QUALIFIER} in cdk.json"
        yield Need("bootstrap", "", todo + also)
    else:
        version = f"version {account.bootstrap}" if account.bootstrap else "may not be looked at"
        yield Need("bootstrap", version)


def qualifier_of(request: Request) -> str:
    """Return the qualifier of the bootstrap for which stacks ask, from where the CDK's command line has it,
    in its order."""
    qualifiers = (each.get(_QUALIFIER) for each in _contexts(request))
    return next((str(each) for each in qualifiers if each), QUALIFIER)


def context_of(request: Request) -> dict[str, Any]:
    """Return the context that the CDK's command line gives the app."""
    return {name: value for each in reversed(_contexts(request)) for name, value in each.items()}


def _contexts(request: Request) -> list[dict[str, Any]]:
    """Return where context comes from, the strongest first."""
    root = request.project.root
    words = [*request.arguments, *request.more]
    arguments = dict(
        each.split("=", 1) for each in options(words, "-c", "--context") if "=" in each
    )
    contexts = (
        arguments,
        _document(root / "cdk.json").get("context"),
        _document(root / "cdk.context.json"),
        _document(Path.home() / ".cdk.json").get("context"),
    )
    return [each for each in contexts if isinstance(each, dict)]


def _document(path: Path) -> dict[str, Any]:
    """Return an object of JSON; empty where there is none, of which the CDK's command line will speak."""
    try:
        document = json.loads(path.read_text("utf-8-sig"))
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def _chooses_bootstrap(request: Request) -> bool:
    """Return whether the app's code has what decides about the bootstrap: that is known only at synthesis."""
    files = app_files(request.project)
    return any(_OWN_BOOTSTRAP.search(each.read_text("utf-8", "replace")) for each in files)

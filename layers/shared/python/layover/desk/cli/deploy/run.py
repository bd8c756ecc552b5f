"""The steps of `layover synth`, `diff`, `deploy` and `destroy`, each in its own process."""

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from layover.desk import shipped
from layover.desk.cdk import certificates
from layover.desk.cli.deploy.machine import Machine
from layover.desk.cli.deploy.needs import Ready, look
from layover.desk.cli.deploy.request import Request

Run = Callable[[Sequence[str], Path, Mapping[str, str]], int]
"""Runs a command in a folder with these variables, and returns its exit code."""
_DONE = {
    "synth": "the template is in {root}/cdk.out",
    "diff": "what a deployment of stage {stage} would change is above",
    "deploy": "stage {stage} is deployed",
    "destroy": "stage {stage} is taken down; data that it retains is still there",
}
_UNASKED = {
    "synth": [],
    "diff": [],
    "deploy": ["--require-approval", "never"],
    "destroy": ["--force"],
}


def run_command(command: Sequence[str], folder: Path, variables: Mapping[str, str]) -> int:
    """Run it in this terminal."""
    return subprocess.run(command, cwd=folder, env=variables, check=False).returncode


def fetch_certificates(root: Path) -> str:
    """Fetch the bundle that the build of the project reads, and return what was done. Raises OSError."""
    return certificates.fetch(root / certificates.BUNDLE)


def main(
    request: Request,
    machine: Machine,
    run: Run = run_command,
    fetch: Callable[[Path], str] = fetch_certificates,
) -> int:
    """Say what the request needs, and do it only if all of that is there. Return the exit code."""
    project, start = request.project, time.monotonic()
    print(f"project {project.root}, stage {request.stage}", flush=True)
    ready = look(request, machine)
    for need in ready.needs:
        if need.todo:
            print(f"missing  {need.name}: {need.todo}", file=sys.stderr, flush=True)
        else:
            print(f"ok       {need.name}: {need.fact}", flush=True)
    refused = [each for each in ready.lacks if each.fails and request.command == "deploy"]
    for lack in ready.lacks:
        out = sys.stderr if lack in refused else sys.stdout
        print(f"{request.stage} {lack.words}", file=out, flush=True)
    if ready.missing or refused:
        print("layover: nothing was begun", file=sys.stderr)
        return 1
    try:
        print(f"ok       certificates: {fetch(project.root)}", flush=True)
    except OSError as error:
        print(f"missing  certificates: {error}", file=sys.stderr)
        return 1
    code = _Steps(request, ready, run).take()
    if code == 0:
        done = _DONE[request.command].format(root=project.root, stage=request.stage)
        print(f"layover {request.command}: {done} ({time.monotonic() - start:.0f} s)", flush=True)
    return code


class _Steps:
    """The steps of one request."""

    def __init__(self, request: Request, ready: Ready, run: Run) -> None:
        self._request = request
        self._ready = ready
        self._run = run
        # jsii warns of each release of Node that is past its end of life, in ten lines.
        self._variables = {"JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "20", **os.environ}

    def take(self) -> int:
        """Take all steps up to the first that fails. Return its exit code, or 0."""
        request = self._request
        # In a checkout only: the construct of a project builds what it needs while it is synthesised.
        if request.project.root == shipped.CHECKOUT and (code := self._program("build")):
            return self._failed("the build", code)
        changes = request.command in ("deploy", "destroy")
        if changes and (code := self._check()):
            return self._failed("a check of the account", code)
        # Without protection, so that one that fails can be taken back; then it is protected.
        is_first = request.command == "deploy" and self._is_new()
        if is_first and (code := self._cdk("-c", "protection=false")):
            return self._failed("the first deployment", code)
        code = self._cdk()
        return self._failed(f"cdk {request.command}", code) if code else 0

    def _check(self) -> int:
        request = self._request
        owner = ["--owner"] if request.command == "destroy" else []
        take_over = ["--take-over"] if request.take_over else []
        return self._program("preflight", *owner, *take_over, *request.arguments)

    def _is_new(self) -> bool:
        tools = self._ready.tools
        if tools is None or not tools.has("preflight"):
            return False
        return self._program("preflight", "--new", *self._request.arguments) == 0

    def _program(self, name: str, *arguments: str) -> int:
        """Run a program of the deployment; one that it does not have has nothing to do."""
        tools = self._ready.tools
        if tools is None or not tools.has(name):
            return 0
        command = [sys.executable, "-m", f"{tools.package}.{name}", *arguments]
        return self._run(command, self._request.project.root, self._variables)

    def _cdk(self, *more: str) -> int:
        request = self._request
        module = request.project.settings.deploy.app
        app = shlex.join([sys.executable, "-m", "layover.desk.cdk.app", module])
        quiet = ["--quiet"] if request.command == "synth" else []
        unasked = _UNASKED[request.command] if request.yes else []
        command = [*self._ready.cdk, request.command, "--app", app, *quiet, *unasked]
        return self._run(
            [*command, *request.arguments, *more, *request.more],
            request.project.root,
            self._variables,
        )

    def _failed(self, step: str, code: int) -> int:
        print(f"layover {self._request.command}: {step} failed, see above", file=sys.stderr)
        return code if 0 < code < 126 else 1

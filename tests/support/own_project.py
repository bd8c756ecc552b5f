"""A project of one's own outside of the checkout: an installation of the wheel, and its commands."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from layover.desk.cli.client import Api
from layover.desk.shipped import PACKAGE, SHIPPED
from support.certificates import roots_of_rds
from support.system.system import START_LIMIT_S, STOP_LIMIT_S, eventually
from support.wheels import build_wheel, unpack

_OF_THE_MACHINE = ("PIP_", "SSL_", "NODE_", "npm_config_")
"""How the variables begin that say where this machine gets packages."""
INSTALL_S = 900.0
"""It may have to fetch 70 packages."""
MAX_SYNTHESIS_S = 900.0
"""It fetches the CDK's command line and all libraries of the layer."""


class Installation:
    """The wheel, unpacked below `place`: not the checkout. Its libraries are those of this environment. No
    variable of this process leads to a provider."""

    command: Sequence[str] = (sys.executable, "-m", "layover.cli")
    """What runs `layover`."""

    def __init__(self, place: Path, wheel: Path | None = None) -> None:
        """`wheel`: this checkout's if not given."""
        self._packages = place / "site-packages"
        unpack(wheel or build_wheel(place), self._packages)
        if not (self._packages / "layover" / "desk").is_dir():
            # The wheel of an earlier release.
            self.command = (sys.executable, "-m", "layover.cli")

    @property
    def migrations(self) -> Path:
        """The folder of its migrations."""
        return self._packages.joinpath(*SHIPPED.migrations.relative_to(PACKAGE.parent).parts)

    def variables(self) -> dict[str, str]:
        """The variables of a command."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if name in ("PATH", "HOME") or name.startswith(_OF_THE_MACHINE)
        }
        return {**kept, **self._path(), "PYTHONUNBUFFERED": "1"}

    def _path(self) -> dict[str, str]:
        return {"PYTHONPATH": str(self._packages)}

    def run(
        self, where: Path, *arguments: str, within_s: float = START_LIMIT_S, typed: str = ""
    ) -> str:
        """Run a command of `layover` to its end, and return what it printed. `typed`: its input."""
        return self._called([*self.command, *arguments], where, within_s, typed)

    def _called(self, command: Sequence[str], where: Path, within_s: float, typed: str = "") -> str:
        ended = subprocess.run(
            command,
            cwd=where,
            env=self.variables(),
            input=typed,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=within_s,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout
        return ended.stdout


class Environment(Installation):
    """A fresh virtual environment below `place`, as a team makes it: with the wheel, its extras and nothing
    else."""

    def __init__(
        self, place: Path, python: str = sys.executable, wheel: Path | None = None
    ) -> None:
        """`python`: the interpreter. The environment is empty until `install`."""
        self._place = place
        self._wheel = wheel or build_wheel(place)
        self._folder = place / ".venv"
        self.command = (str(self._folder / "bin" / "layover"),)
        self._called([python, "-m", "venv", str(self._folder)], place, INSTALL_S)
        (self._packages,) = self._folder.glob("lib/python3*/site-packages")

    def install(self, *extras: str, options: Sequence[str] = ()) -> None:
        """Install the wheel with these extras. `options`: more of them for pip."""
        self._pip(*options, f"{self._wheel}[{','.join(extras)}]")

    def fetch(self, lock: Path) -> None:
        """Fetch each file of a lock that this interpreter would install, and compare its hash."""
        self._pip("--dry-run", "--ignore-installed", "--require-hashes", "--requirement", str(lock))

    def _pip(self, *arguments: str) -> None:
        python = self._folder / "bin" / "python"
        command = [str(python), "-m", "pip", "install", "-q", *arguments]
        self._called(command, self._place, INSTALL_S)

    def variables(self) -> dict[str, str]:
        """The variables of a command. Layover is at no index, so pip finds it in the wheel's folder. An index
        with some files of a release, as a machine of tests has one, knows too few hashes for a lock."""
        given = super().variables()
        folders = f"{given.get('PIP_FIND_LINKS', '')} {self._wheel.parent}"
        return {**given, "PIP_FIND_LINKS": folders.strip(), "UV_EXTRA_INDEX_URL": ""}

    def _path(self) -> dict[str, str]:
        return {}


class Serving:
    """`layover dev` in a folder of the project, until the block ends."""

    def __init__(self, installation: Installation, where: Path, log: Path) -> None:
        self._log = log
        with log.open("w") as output:
            self._process = subprocess.Popen(
                [*installation.command, "dev", "--port", "0"],
                cwd=where,
                env=installation.variables(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def __enter__(self) -> "Serving":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            assert self._process.wait(STOP_LIMIT_S) == 0, self.output()
        finally:
            self._process.kill()

    def output(self) -> str:
        """Return what it has printed."""
        return self._log.read_text()

    def told(self, pattern: str) -> str:
        """Return the first group of the pattern, once it is printed."""

        def look() -> re.Match[str] | None:
            assert self._process.poll() is None, self.output()
            return re.search(pattern, self.output(), re.M)

        match = eventually(look, within=START_LIMIT_S)
        assert match is not None
        return match[1]


def bring_roots(project: Path) -> None:
    """Put roots of RDS where the synthesis would fetch them to."""
    roots = project / ".layover" / "build" / "rds-global-bundle.pem"
    roots.parent.mkdir(parents=True)
    roots.write_text(roots_of_rds())


def over(api: Api, run_id: str, status: str) -> Any:
    """Return the run, once it has this status."""
    return eventually(
        lambda: api.get(f"/runs/{run_id}", wait=10), lambda run: run["status"] == status
    )


def asked_refund(api: Api, euros: int) -> tuple[str, str]:
    """Ask for a refund that a person has to approve. Return the run that waits, and its call."""
    thread = api.post("/threads", agent="support")["id"]
    run = api.post(f"/threads/{thread}/runs", input=f"Refund {euros} euros for order A-1002")["id"]
    (pending,) = over(api, run, "suspended")["pending"]
    assert pending["tool_name"] == "refund"
    return run, pending["tool_call_id"]


def approved(api: Api, run: str, call: str) -> str:
    """Return the answer of the run after its call was approved."""
    api.post(f"/runs/{run}/tool-calls/{call}/approve", attempt=1, reason="it broke")
    return str(over(api, run, "success")["text"])

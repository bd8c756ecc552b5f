"""A project of one's own outside of the checkout: an installation of the wheel, and its commands."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from layover.cli.client import Api
from layover.shipped import MIGRATIONS, PACKAGE
from support.system.system import START_LIMIT_S, STOP_LIMIT_S, eventually
from support.wheels import build_wheel, unpack

_OF_THE_MACHINE = ("PIP_", "SSL_", "NODE_", "npm_config_")
"""How the variables begin that say where this machine gets packages."""


class Installation:
    """The wheel, unpacked below `place`: not the checkout. No variable of this process leads to a
    provider."""

    def __init__(self, place: Path, wheel: Path | None = None) -> None:
        """`wheel`: this checkout's if not given."""
        self._packages = place / "site-packages"
        unpack(wheel or build_wheel(place), self._packages)

    @property
    def migrations(self) -> Path:
        """The folder of its migrations."""
        return self._packages.joinpath(*MIGRATIONS.relative_to(PACKAGE.parent).parts)

    def variables(self) -> dict[str, str]:
        """The variables of a command."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if name in ("PATH", "HOME") or name.startswith(_OF_THE_MACHINE)
        }
        return {**kept, "PYTHONPATH": str(self._packages), "PYTHONUNBUFFERED": "1"}

    def run(self, where: Path, *arguments: str, within_s: float = START_LIMIT_S) -> str:
        """Run a command to its end, and return what it printed."""
        ended = subprocess.run(
            [sys.executable, "-m", "layover.cli", *arguments],
            cwd=where,
            env=self.variables(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=within_s,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout
        return ended.stdout


class Serving:
    """`layover dev` in a folder of the project, until the block ends."""

    def __init__(self, installation: Installation, where: Path, log: Path) -> None:
        self._log = log
        with log.open("w") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "layover.cli", "dev", "--port", "0"],
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
    api.post(f"/runs/{run}/tool-calls/{call}/approve", reason="it broke")
    return str(over(api, run, "success")["text"])

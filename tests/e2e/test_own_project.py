"""A project of one's own with the built wheel: made, tested, served, approved, changed."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from layover.cli.client import Api
from support.system.folders import folder
from support.system.system import START_LIMIT_S, STOP_LIMIT_S, eventually
from support.wheels import build_wheel, unpack


class Installation:
    """The wheel, unpacked: not the checkout. No variable of this process leads to a provider."""

    def __init__(self, place: Path) -> None:
        self._packages = place / "site-packages"
        unpack(build_wheel(place), self._packages)

    def variables(self) -> dict[str, str]:
        """The variables of a command."""
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        return {**kept, "PYTHONPATH": str(self._packages), "PYTHONUNBUFFERED": "1"}

    def run(self, where: Path, *arguments: str) -> str:
        """Run a command to its end, and return what it printed."""
        ended = subprocess.run(
            [sys.executable, "-m", "layover.cli", *arguments],
            cwd=where,
            env=self.variables(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=START_LIMIT_S,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
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


def refunded(api: Api, euros: int) -> str:
    """Return what the tool returned to a refund that a person approved."""
    thread = api.post("/threads", agent="support")["id"]
    run = api.post(f"/threads/{thread}/runs", input=f"Refund {euros} euros for order A-1002")["id"]
    waiting = over(api, run, "suspended")
    (pending,) = waiting["pending"]
    assert pending["tool_name"] == "refund"
    api.post(f"/runs/{run}/tool-calls/{pending['tool_call_id']}/approve", reason="it broke")
    return str(over(api, run, "success")["text"])


@pytest.fixture
def place() -> Iterator[Path]:
    with folder("own") as made:
        yield made


def test_project_is_made_tested_served_approved_and_changed(place: Path) -> None:
    installation = Installation(place)
    assert "made  shop/layover.toml" in installation.run(place, "init", "shop")
    project = place / "shop"
    assert "2 passed" in installation.run(project / "tests", "test")
    with Serving(installation, project / "infra", place / "log") as serving:
        api = Api(serving.told(r"^ready (\S+)$"), "dev:ada")
        assert serving.told(r"^project (.*)$") == str(project)
        assert serving.told(r"^agent support: (.*)$") == "lookup_order, refund (asks a person)"
        assert "Refunded 60.00 euros" in refunded(api, 60)
        agents = project / "agents" / "__init__.py"
        agents.write_text(agents.read_text().replace("Refunded {amount", "Paid back {amount"))
        serving.told(r"(reloaded support)")
        assert "Paid back 20.00 euros" in refunded(api, 20)
    assert (project / ".layover" / "aws.sqlite").exists()
    assert "Every step held." in installation.run(place, "demo")
    assert sorted(each.name for each in place.iterdir() if each.is_dir()) == [
        "shop",
        "site-packages",
    ]

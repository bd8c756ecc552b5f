"""The packages of front ends, one system and one Chromium for these tests."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from support.chromium import launch
from support.locks import locked
from support.providers.openai import FakeOpenAI
from support.system.folders import folder
from support.system.system import Brain, System

HERE = Path(__file__).parent
GUIDE = HERE.parents[1] / "docs" / "guides" / "streaming.md"
INSTALLED = HERE.parents[1] / "build" / "npm"
LIMIT_S = 180
FILES = ("package.json", "package-lock.json")


@pytest.fixture(scope="session")
def packages() -> Path:
    """A folder with the packages of the lock; made once for each lock, by one of the processes that test."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not on the path")
    wanted = (HERE / "package-lock.json").read_text()
    done = INSTALLED / "installed.json"
    INSTALLED.mkdir(parents=True, exist_ok=True)
    # npm empties the folder first: of two installations at once, neither is whole.
    with locked(INSTALLED):
        if not done.exists() or done.read_text() != wanted:
            _install()
            done.write_text(wanted)
        for script in (*HERE.glob("*.mjs"), *HERE.glob("*.jsx")):
            shutil.copyfile(script, INSTALLED / script.name)
        _write_guide()
    return INSTALLED


def _write_guide() -> None:
    """Write what the guide has pages send, as it is there and as modules for Node: all tests here send it."""
    names = []
    for code in re.findall(r"^```ts\n(// .*?)^```", GUIDE.read_text(), re.DOTALL | re.MULTILINE):
        name = code.partition("\n")[0].removeprefix("// ")
        (INSTALLED / name).write_text(code)
        names.append(name)
    command = ["node_modules/.bin/esbuild", *names, "--outdir=.", "--out-extension:.js=.mjs"]
    made = subprocess.run(
        command, cwd=INSTALLED, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert made.returncode == 0, made.stderr[-3000:]


def _install() -> None:
    for name in FILES:
        shutil.copyfile(HERE / name, INSTALLED / name)
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    made = subprocess.run(
        command, cwd=INSTALLED, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    if made.returncode:
        pytest.skip(f"npm cannot install the packages: {made.stderr[-300:]}")


@pytest.fixture(scope="session")
def system() -> Iterator[System]:
    with FakeOpenAI() as provider, folder("npm") as data, System(data, Brain(provider)) as running:
        yield running


@pytest.fixture
def brain(system: System) -> Brain:
    return system.brain


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Debian's Chromium."""
    with launch() as browser:
        yield browser

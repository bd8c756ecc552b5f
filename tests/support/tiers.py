"""The tests that each command runs: chosen by what a test does, never by how long it takes.

`make test` runs what decides by itself: everything that runs in this process, Postgres, templates, and a
short walk through the real one-machine system. `make test-all` adds what starts that system again and
again, `make torture` runs the whole matrices. Each says at its end what it left out.

A test that is named on the command line (a file, a folder, a node id) runs whatever its tier."""

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from support.aws.forms import FORMS
from support.examples import FEW, MANY

TIERS = ("test", "all", "torture")
MARKERS = {
    "system": "starts the one-machine system, or a part of it, in separate processes",
    "emulator": "repeats on the AWS emulator what the contract of the table proves equal",
    "recording": "records every call to AWS that a whole system makes",
    "kill": "kills processes at a sample of points",
    "package": "installs what goes to Lambda from the package index",
    "form": "synthesizes or lints a further form of the deployment",
    "evaluation": "evaluates memory in a separate process",
}
"""The markers whose tests `make test` leaves to `make test-all`."""
TORTURE = "whole kill matrices, faults and load, for minutes"
BY_FIXTURE = {
    "recorded": "recording",
    "built": "package",
    "own_requirements": "package",
    **dict.fromkeys(("ten_lines", "approvals", "everything_given", "connected"), "form"),
}
"""A test that uses it does what the marker says."""
WALK = "tests/walk/"
FIRST = (WALK, "tests/infra/test_stack.py")
"""The longest tests in one process come first: one worker walks while another one synthesizes."""
LOCAL = "tests/integration/local/"
BY_FOLDER = {
    "tests/browser/": "system",
    "tests/e2e/": "system",
    **{
        f"{LOCAL}test_{part}.py": "system"
        for part in (
            "health",
            "lambda_service",
            "postgres",
            "runner",
            "state_machine",
            "stopping",
        )
    },
    "tests/npm/": "system",
    "tests/torture/": "kill",
}

FIRST_WORKER = "gw0"

_left_out = pytest.StashKey[Counter[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--tier test|all|torture`."""
    parser.addoption("--tier", choices=TIERS, help="what to run (default: test)")


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers, and settle the tier before workers are started and tests collected."""
    for name, meaning in {**MARKERS, "torture": TORTURE}.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")
    config.stash[_left_out] = Counter()
    if config.option.tier is None:
        by_name = config.args_source is pytest.Config.ArgsSource.ARGS
        config.option.tier = "named" if by_name else TIERS[0]
    settings.load_profile(FEW if config.option.tier == "test" else MANY)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Spare a worker the import of what its tier leaves out. The first one counts it."""
    worker = _worker_of(config)
    if config.option.tier != "test" or worker in ("", FIRST_WORKER):
        return None
    name = collection_path.relative_to(config.rootpath).as_posix()
    return True if f"{name}/" in BY_FOLDER or name in BY_FOLDER else None


def _worker_of(config: pytest.Config) -> str:
    """Return the name of this worker, "" if there are none."""
    return str(getattr(config, "workerinput", {}).get("workerid", ""))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep what belongs to the tier; count the rest."""
    left_out = config.stash[_left_out]
    tier: str = config.option.tier
    markers = [(item, marker_of(item)) for item in items]
    dropped = [(item, marker) for item, marker in markers if not runs(tier, marker)]
    left_out.update(marker for _, marker in dropped)
    if dropped:
        config.hook.pytest_deselected(items=[item for item, _ in dropped])
        items[:] = [item for item, marker in markers if runs(tier, marker)]
    waiting = {item.path for item in items if FORMS.keys() & set(_fixtures(item))}
    items.sort(key=lambda item: _place(item, waiting))


def _place(item: pytest.Item, waiting: Container[Path]) -> int:
    """Return the rank of the test's file: those that wait for the synthesis of another worker come last."""
    first = (n for n, name in enumerate(FIRST) if item.nodeid.startswith(name))
    return next(first, len(FIRST) + (item.path in waiting))


def _fixtures(item: pytest.Item) -> Sequence[str]:
    return getattr(item, "fixturenames", ())


def marker_of(item: pytest.Item) -> str:
    """Return the marker of what the test does beyond this process; "" if it does no such thing."""
    given = {marker.name for marker in item.iter_markers()}
    for name in ("torture", *MARKERS):
        if name in given:
            return name
    if item.nodeid.startswith(WALK):
        return ""
    by_folder = (m for folder, m in BY_FOLDER.items() if item.nodeid.startswith(folder))
    by_fixture = (m for name, m in BY_FIXTURE.items() if name in _fixtures(item))
    return next(chain(by_folder, by_fixture), "")


def runs(tier: str, marker: str) -> bool:
    """Return whether a test with this marker runs in the tier."""
    if tier == "torture" or marker == "torture":
        return marker == "torture" and tier in ("torture", "named")
    return marker == "" or tier != "test"


def pytest_sessionfinish(session: pytest.Session) -> None:
    """The first worker says what it left out. Each leaves out the same, and others do not count it."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None and _worker_of(session.config) == FIRST_WORKER:
        left_out = session.config.stash[_left_out]
        output["left_out"] = dict(left_out)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take what the first worker left out."""
    left_out = getattr(node, "workeroutput", {}).get("left_out", {})
    node.config.stash[_left_out].update(left_out)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was left out, and which command runs it."""
    left_out = terminalreporter.config.stash[_left_out]
    for line in lines(left_out):
        terminalreporter.write_line(line)


def lines(left_out: Mapping[str, int]) -> list[str]:
    """Return a line for each reason why tests were left out."""
    said = [
        f"left to make test-all: {left_out[marker]} tests; each {meaning}"
        for marker, meaning in MARKERS.items()
        if left_out.get(marker)
    ]
    if left_out.get("torture"):
        said.append(f"left to make torture: {left_out['torture']} tests: {TORTURE}")
    if left_out.get(""):
        said.append(f"left to make test: {left_out['']} tests")
    return said

"""The starts of Python in tests of `make test`, by folder. One takes half a second, and one that loads the
CDK ten: tests call commands (`support.commands`), and share what a process has made.

A folder that starts it more often than MOST says fails the run, whatever its tests say. The numbers may only
fall: what needs more starts belongs to `make test-all`, which counts nothing."""

import os
import sys
from collections import Counter
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import pytest

MOST: Mapping[str, int] = {
    "tests/contract": 6,
    "tests/infra": 35,
    "tests/integration": 3,
    "tests/integration/api": 1,
    "tests/integration/inprocess": 1,
    "tests/integration/local": 59,
    "tests/integration/postgres": 5,
    "tests/simulation": 2,
    "tests/unit": 33,
    "tests/unit/aws": 1,
    "tests/unit/declare": 5,
    "tests/unit/desk": 5,
    "tests/unit/engine": 1,
    "tests/unit/plugins": 5,
    "tests/walk": 2,
}
"""Starts of each folder in a clean clone, at most."""

_started = pytest.StashKey[Counter[str]]()


class Starts:
    """Counts the starts of this process."""

    def __init__(self) -> None:
        self.of = Counter[str]()
        self.folder: str | None = None

    def hear(self, event: str, args: Any) -> None:
        """An audit hook: it stays as long as the process."""
        if event == "subprocess.Popen" and self.folder is not None and _is_python(args[0]):
            self.of[self.folder] += 1


def _is_python(program: Any) -> bool:
    """Return whether the program is Python or one of its scripts. The others, such as Postgres, belong to the
    worker that happens to need them first."""
    place = Path(os.fsdecode(program))
    return place.name.startswith("python") or place.parent == Path(sys.executable).parent


def folder_of(nodeid: str) -> str:
    """Return the folder whose starts a test counts to."""
    parts = nodeid.partition("::")[0].split("/")[:-1]
    return "/".join(parts[: 3 if parts[1:2] in (["unit"], ["integration"]) else 2])


def pytest_configure(config: pytest.Config) -> None:
    """Count in each process that runs tests of `make test`."""
    config.stash[_started] = Counter()
    if config.option.tier == "test":
        starts = Starts()
        sys.addaudithook(starts.hear)
        config.stash[_started] = starts.of
        config.pluginmanager.register(_Watch(starts))


class _Watch:
    """Says which test runs."""

    def __init__(self, starts: Starts) -> None:
        self._starts = starts

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._starts.folder = folder_of(item.nodeid)
        try:
            return (yield)
        finally:
            self._starts.folder = None


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take what a worker has started."""
    node.config.stash[_started].update(getattr(node, "workeroutput", {}).get("started", {}))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand the count over, or fail the run if it is too high."""
    started = session.config.stash[_started]
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["started"] = dict(started)
    elif lines(started) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which folders start too many."""
    started = terminalreporter.config.stash[_started]
    for line in lines(started):
        terminalreporter.write_line(line, red=True)


def lines(started: Mapping[str, int]) -> list[str]:
    """Return a line for each folder that starts more processes than it may."""
    return [
        f"{folder} starts Python {count} times in make test, {MOST.get(folder, 0)} at most: call what can be "
        "called (tests/support/starts.py)"
        for folder, count in sorted(started.items())
        if count > MOST.get(folder, 0)
    ]

"""README's promises that can be kept by machine: its Python runs, its commands exist, it stays short."""

import re
import sys
import types
from pathlib import Path

import pytest

from support.pages import Page

ROOT = Path(__file__).parents[2]
README = Page(ROOT / "README.md")
MAX_LINES = 150
MAX_LINE = 120


async def test_first_agent_suspends_and_goes_on_as_its_own_test_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # README's test imports the agent from where README says to put it.
    agents, tests = types.ModuleType("user_agents"), types.ModuleType("test_shop")
    monkeypatch.setitem(sys.modules, agents.__name__, agents)
    monkeypatch.setitem(sys.modules, tests.__name__, tests)
    agent, test = README.python
    exec(agent.compiled, agents.__dict__)
    exec(test.compiled, tests.__dict__)
    await tests.test_large_discount_waits_for_a_person()


def test_readme_says_where_logs_of_one_machine_are() -> None:
    from layover.desk.local.settings import Settings

    assert f"Functions and tools print to `{Settings().data / 'logs'}`." in README.text


def test_first_agent_is_short() -> None:
    assert len([line for line in README.python[0].source.splitlines() if line]) <= 15


def test_readme_is_short() -> None:
    lines = README.text.splitlines()
    assert len(lines) <= MAX_LINES
    assert [line for line in lines if len(line) > MAX_LINE] == []


def test_every_make_target_that_is_named_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    pages = README.text + (ROOT / "CONTRIBUTING.md").read_text()
    assert set(re.findall(r"(?:`|^)make ([a-z-]+)", pages, re.MULTILINE)) <= targets

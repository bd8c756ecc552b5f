"""The client of the package `mcp` is loaded by those who ask a server, and by nobody else."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.forks import wired

ROOT = Path(__file__).parents[5]
HANDLERS = sorted(path.parent.name for path in (ROOT / "functions").glob("*/handler.py"))
LOADED = "print(json.dumps(sorted(n for n in sys.modules if n.partition('.')[0] in ('mcp', 'mcp_types'))))"
RUN = """
import asyncio, json, sys
from layover import Agent, mcp, tool
from layover.testing import ScriptedModel, call, say

@tool
def find() -> str:
    "Find it."
    return "found"

shop = mcp("https://127.0.0.1:9/mcp", name="shop")
clerk = Agent("clerk", tools={tools})
with clerk.override(model=ScriptedModel([call("find"), say("Found.")])) as model:
    result = asyncio.run(clerk.generate("Where is it?"))
"""


LastLine = Callable[[str], Any]


@pytest.fixture(scope="module")
def last_line() -> Iterator[LastLine]:
    """Return the last line that the code prints, as JSON."""
    with wired(AWS_LAMBDA_INITIALIZATION_TYPE="on-demand") as process:
        yield process.last_line


def test_no_function_loads_the_client_before_a_run_asks_a_server(
    last_line: LastLine,
) -> None:
    handlers = "; ".join(f"import functions.{name}.handler" for name in HANDLERS)
    touch = "from layover import wiring; wiring.runtime()"
    assert last_line(f"import json, sys; {handlers}; {touch}\n{LOADED}") == []


def test_run_without_a_server_loads_no_client_although_another_agent_has_one(
    last_line: LastLine,
) -> None:
    code = RUN.format(tools="[find]")
    other = "other = Agent('other', tools=[*shop])\nassert result.text == 'Found.'\n"
    assert last_line(f"{code}{other}{LOADED}") == []


def test_run_with_a_server_and_without_the_package_fails_and_says_what_to_install(
    last_line: LastLine,
) -> None:
    code = RUN.replace("import asyncio", "import sys; sys.modules['mcp'] = None; import asyncio", 1)
    code = code.replace('[call("find"), say("Found.")]', "[]")
    code = code.format(tools="[*shop]")
    assert "layover[mcp]" in last_line(f"{code}print(json.dumps(result.error_detail.message))")

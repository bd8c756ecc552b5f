"""The module of the agents, imported once before anything is served."""

import os
from datetime import timedelta
from pathlib import Path

import pytest

from layover.desk.local.agents_module import LoadReport, load
from layover.desk.local.settings import Settings, child_variables


async def loaded(folder: Path, text: str, **more: timedelta) -> LoadReport:
    (folder / "shop_agents.py").write_text(text)
    settings = Settings(agents="shop_agents", functions=folder)
    return await load(child_variables(settings, os.environ, {}), **more)


HEAD = "from layover import Agent, ToolContext, tool\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("def (:\n", "{file}:2: SyntaxError: invalid syntax"),
        pytest.param(
            "1 / 0\n", "{file}:2: ZeroDivisionError: division by zero", marks=pytest.mark.system
        ),
        ("\n@tool\ndef pay(amount): ...\n", "{file}:3: DefinitionError: "),
        pytest.param(
            "a = Agent('a', max_iterations=0)\n",
            "{file}:2: DefinitionError: ",
            marks=pytest.mark.system,
        ),
        # A dataclass, whose `__init__` has no file.
        ("from layover import Approval\nr = Approval(by='ops')\n", "{file}:3: DefinitionError: "),
        pytest.param(
            "import no_such_package\n",
            "{file}:2: ModuleNotFoundError: No module named",
            marks=pytest.mark.system,
        ),
        ("x = 1\n", "the agents' module 'shop_agents' has no Agent at its top level"),
        ("a = Agent('twin')\nb = Agent('twin')\n", "'shop_agents' has two agents called 'twin'"),
        pytest.param(
            "import sys\nsys.exit(3)\n", "{file}:3: SystemExit: 3", marks=pytest.mark.system
        ),
        ("import os\nos._exit(3)\n", "its process ended with status 3"),
    ],
)
async def test_what_is_wrong_is_said_with_file_and_line(
    tmp_path: Path, text: str, problem: str
) -> None:
    answer = await loaded(tmp_path, HEAD + text)
    assert answer.problem is not None
    assert answer.problem.startswith(problem.format(file=tmp_path / "shop_agents.py"))
    assert answer.agents == ()


async def test_an_import_of_a_mistyped_name_is_said_with_the_nearest(tmp_path: Path) -> None:
    answer = await loaded(tmp_path, "from layover import Agnet\n")
    assert answer.problem is not None
    assert answer.problem.startswith(f"{tmp_path}/shop_agents.py:1: ImportError: cannot import")
    assert answer.problem.endswith(": did you mean 'Agent'?")


async def test_a_module_that_is_never_through_is_given_up(tmp_path: Path) -> None:
    answer = await loaded(
        tmp_path, "import threading\nthreading.Event().wait()\n", limit=timedelta(seconds=0.5)
    )
    assert answer.problem == "the module takes longer than 0.5 s to be imported"


async def test_agents_are_named_with_their_tools_and_what_they_warn_of(tmp_path: Path) -> None:
    text = """
print("a word of the module's own")
@tool
def look(): ...
@tool(needs_approval=True)
def pay(): ...
@tool(suspend=dict, resume=dict)
def book(ctx: ToolContext): ...
aide = Agent("aide")
shop = Agent("shop", model="m", tools=[look, pay, book, aide.as_tool("Helps.")])
shop.on("finish", print)
mute = Agent("mute")
"""
    answer = await loaded(tmp_path, HEAD + text)
    assert answer.problem is None
    assert answer.agents == (
        "agent aide: no tools",
        "agent shop (m): look, pay (asks a person), book (asks a person), aide",
        "agent mute: no tools",
    )
    assert answer.warnings[0].startswith("agent 'shop': handlers of `on` hear")
    assert [line.split(":")[0] for line in answer.warnings[1:]] == [
        f"tool {name} of shop has no description" for name in ("look", "pay", "book")
    ]


async def test_tool_that_agents_share_is_warned_of_once(tmp_path: Path) -> None:
    text = """
@tool
def look(): ...
@tool
def pay():
    "Pay."
@tool(description="Book.")
def book(): ...
first, second = Agent("first", tools=[look, pay]), Agent("second", tools=[look, book])
"""
    (warning,) = (await loaded(tmp_path, HEAD + text)).warnings
    assert warning.startswith("tool look of first, second has no description: write a docstring")

"""`layover call`: one call of a tool, as the engine makes it, without a model."""

import sys
from pathlib import Path

import pytest

from layover.desk.cli.call_tool import Request, main
from layover.desk.cli.chat.terminal import Silence
from layover.project import find
from support.commands import Ended, call

AGENTS = """
from dataclasses import dataclass
from pydantic import BaseModel
from layover import Agent, Retry, ToolContext, tool

class Choice(BaseModel):
    number: int

@tool
def price(item: str, count: int = 1) -> float:
    \"\"\"The price of an item.\"\"\"
    if item == "sofa":
        raise LookupError("no sofa")
    if item == "chair":
        raise Retry("say which chair")
    return 42.0 * count

@tool(needs_approval=True)
def pay(amount: float) -> str:
    \"\"\"Pay.\"\"\"
    open("paid", "w").close()
    return f"paid {amount}"

@tool
def who(ctx: ToolContext[dict[str, str]]) -> str:
    \"\"\"Who asks.\"\"\"
    return f"{ctx.resource_id} of {sorted(ctx.groups)} at {ctx.deps['shop']}"

@tool
def many() -> list[str]:
    \"\"\"A long list.\"\"\"
    return ["lamp"] * 200_000

@tool(suspend=Choice, resume=Choice)
async def choose(ctx: ToolContext[dict[str, str], Choice]) -> str:
    \"\"\"Choose.\"\"\"
    if ctx.resume is None:
        return ctx.suspend(Choice(number=7))
    return "chosen"

helper = Agent("helper").as_tool("Helps.")
shop = Agent("shop", tools=[price, pay, who, many, choose, helper], deps=lambda: {"shop": "Bonn"})
late = Agent("late", tools=lambda ctx: [price])
poor = Agent("poor", tools=[who], deps=lambda: {}["SHOP_URL"])
"""
KEYS = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "LAYOVER_PROVIDERS", "LAYOVER_AGENTS")


class Typed(Silence):
    """A person who types these lines."""

    interactive = True

    def __init__(self, *lines: str) -> None:
        self.lines = [*lines]

    def read(self, prompt: str, text: str = "") -> str | None:
        return self.lines.pop(0) if self.lines else None


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "layover.toml").write_text('agents = "called_agents"\n')
    (tmp_path / "called_agents.py").write_text(AGENTS)
    monkeypatch.chdir(tmp_path)
    # A command puts the project's folder there, and imports from it.
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "called_agents", raising=False)
    return tmp_path


def run(project: Path, *arguments: str) -> Ended:
    return call(project, "call", *arguments, without=KEYS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("shpo", "price"), "no agent 'shpo': did you mean 'shop'?"),
        (("shop", "prise"), "no tool 'prise': did you mean 'price'?"),
        (("shop", "helper"), "helper is an agent, and no function"),
        (("shop", "price"), "with item (string), count (integer, optional)"),
        (("late", "price"), "only a run knows the tool"),
        (("shop", "price", "--arguments", "{"), "--arguments is not JSON"),
        (("shop", "price", "--arguments", "[]"), "--arguments is not a JSON object"),
        (("shop", "pay", "--arguments", '{"amount": 1}'), "pay(amount=1.0) needs an approval. App"),
    ],
)
def test_call_that_cannot_be_made_says_what_lacks(
    project: Path, arguments: tuple[str, ...], message: str
) -> None:
    ended = run(project, *arguments)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert message in ended.stderr
    assert not (project / "paid").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ('{"item": "sofa"}', "LookupError: no sofa"),
        ('{"item": "chair"}', "say which chair"),
        ('{"item": 3}', "item"),
    ],
)
def test_error_is_worded_as_a_model_reads_it(project: Path, arguments: str, message: str) -> None:
    ended = run(project, "shop", "price", "--arguments", arguments)
    assert ended.returncode == 1
    assert message in ended.stdout
    assert "price: failed in " in ended.stderr


def test_call_that_asks_for_more_says_what_it_asks(project: Path) -> None:
    ended = run(project, "shop", "choose")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert 'asks for an answer before it goes on: `layover chat` gives one: {"number": 7}' in (
        ended.stderr
    )


def test_dependencies_that_cannot_be_made_are_named(project: Path) -> None:
    ended = run(project, "poor", "who")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert (
        "who was not called: KeyError: the deps of agent 'poor' could not be made" in ended.stderr
    )


def test_tool_runs_with_its_arguments(project: Path) -> None:
    ended = run(project, "shop", "price", "--arguments", '{"item": "lamp", "count": 2}')
    assert (ended.returncode, ended.stdout) == (0, "84.0\n")


def test_tool_that_only_a_run_has_is_called_or_told_not_to_be_there(project: Path) -> None:
    ended = run(project, "late", "price", "--arguments", '{"item": "lamp"}')
    assert (ended.returncode, ended.stdout) == (0, "42.0\n")
    ended = run(project, "late", "prise", "--arguments", "{}")
    assert ended.returncode == 1
    assert "prise" in ended.stdout


def test_tool_has_user_groups_and_dependencies_of_a_run(project: Path) -> None:
    ended = run(project, "shop", "who", "--user", "ann", "--group", "finance")
    assert ended.stdout == "ann of ['finance'] at Bonn\n"


def test_long_result_is_cut_as_for_a_model(project: Path) -> None:
    ended = run(project, "shop", "many")
    assert ended.returncode == 0
    assert ended.stdout.startswith('{"_truncated": true')


def test_call_that_needs_an_approval_runs_with_yes(project: Path) -> None:
    ended = run(project, "shop", "pay", "--arguments", '{"amount": 1}', "--yes")
    assert (ended.returncode, ended.stdout) == (0, "paid 1.0\n")
    assert (project / "paid").exists()


def test_arguments_are_asked_for_where_somebody_is_there(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = find(project)
    assert main(Request("shop", "price"), found, Typed("lamp", "3")) == 0
    assert capsys.readouterr().out == "126.0\n"
    assert main(Request("shop", "price"), found, Typed("lamp", "")) == 0
    assert capsys.readouterr().out == "42.0\n"
    assert main(Request("shop", "price"), found, Typed("/deny")) == 1
    assert "nothing was run" in capsys.readouterr().err

"""`layover eval` as a command: exit codes, and what it says."""

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from layover.desk.cli.evals import commit_of
from support.commands import Ended, call
from support.providers.openai import FakeOpenAI

LAYOVER = Path(sys.executable).with_name("layover")
AGENTS = """
from layover import Agent, tool

@tool
def pay(amount: float) -> str:
    \"\"\"Pay.\"\"\"
    open("paid", "w").close()
    return "paid"

shop = Agent("shop", tools=[pay])
desk = Agent("desk")
"""
CASES = "cases:\n  - {name: greets, input: hi, expect: {output: {contains: Hello}}, script: [{say: WORD}]}\n"
KEYS = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "LAYOVER_PROVIDERS", "LAYOVER_AGENTS")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "layover.toml").write_text('agents = "my_agents"\n')
    (tmp_path / "my_agents.py").write_text(AGENTS)
    (tmp_path / "cases.yaml").write_text(CASES.replace("WORD", "Hello."))
    return tmp_path


def evals(project: Path, *arguments: str) -> Ended:
    return call(project, "eval", *arguments, without=KEYS)


def started(project: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, which reads its environment anew."""
    inherited = {name: value for name, value in os.environ.items() if name not in KEYS}
    return subprocess.run(
        [LAYOVER, "eval", *arguments],
        cwd=project,
        env={**inherited, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.yaml", "--agent", "shop"], "none.yaml cannot be read"),
        (["cases.yaml"], "say which agent: --agent NAME, of shop, desk"),
        (["cases.yaml", "--agent", "shpo"], "no agent 'shpo': did you mean 'shop'?"),
        (["cases.yaml", "--agent", "shop", "--agents", "nobody"], "No module named 'nobody'"),
        (["cases.yaml", "--agent", "shop", "--junit", "no/a.xml"], "no is not a folder"),
        (["real.yaml", "--agent", "shop"], "no model can be asked for openai/gpt-5-mini: set OPEN"),
        (["stub.yaml", "--agent", "shop"], "no tool 'pya': did you mean 'pay'?"),
    ],
)
def test_what_cannot_be_run_exits_with_2_and_says_what_to_do(
    project: Path, arguments: list[str], message: str
) -> None:
    (project / "real.yaml").write_text("cases: [{name: a, input: hi, expect: {}}]")
    stub = "cases: [{name: a, input: hi, expect: {}, stubs: [{tool: pya, result: 1}]}]"
    (project / "stub.yaml").write_text(stub)
    ended = evals(project, *arguments)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("layover: ")
    assert message in ended.stderr


def test_case_that_does_not_hold_exits_with_1_and_is_in_the_report(project: Path) -> None:
    (project / "cases.yaml").write_text(CASES.replace("WORD", "Bye."))
    ended = evals(project, "cases.yaml", "--agent", "shop", "--repeat", "2", "--junit", "out.xml")
    assert ended.returncode == 1, ended.stderr
    assert "failed  greets: 0 of 2, 0% (95 % interval 0% to 66%)" in ended.stdout
    assert "2/2 failed greets" in ended.stderr
    (case,) = ElementTree.parse(project / "out.xml").getroot()[0]
    assert (case.get("name"), case.get("classname"), len(case)) == ("greets", "shop", 1)


def test_cases_that_hold_exit_with_0(project: Path) -> None:
    ended = started(project, "cases.yaml", "--agent", "shop", "--json", "out.json")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.endswith("1 of 1 cases held, 1 runs, 15 tokens\n")
    whole = json.loads((project / "out.json").read_text())
    assert [case["holds"] for case in whole["cases"]] == [True]
    assert (whole["file"], whole["setup"]["agent"]) == ("cases.yaml", "shop")
    # The script answers, no rule is judged, and the folder is in no repository.
    assert (whole["setup"]["model"], whole["setup"]["judges"], whole["commit"]) == (None, [], None)


def test_report_names_the_commit_of_the_cases_and_that_files_have_changed(project: Path) -> None:
    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", *arguments], cwd=project, capture_output=True, text=True, check=True
        ).stdout.strip()

    git("init", "-q")
    git("add", "cases.yaml")
    git("-c", "user.name=ann", "-c", "user.email=ann@example.com", "commit", "-qm", "Cases")
    commit = git("rev-parse", "HEAD")[:12]
    assert commit_of(project) == commit
    with (project / "cases.yaml").open("a") as file:
        file.write("# more\n")
    assert commit_of(project) == f"{commit}-dirty"


@pytest.mark.parametrize(
    "arguments",
    [["run", "cases.yaml", "--agent", "shop"], ["--agent", "shop", "cases.yaml"]],
)
def test_file_is_run_as_by_the_command_of_that_name(project: Path, arguments: list[str]) -> None:
    assert evals(project, *arguments).returncode == 0


def test_model_of_the_environment_is_asked_as_an_agent_and_as_a_judge(
    project: Path, server: FakeOpenAI
) -> None:
    (project / "cases.yaml").write_text(
        "cases: [{name: a, input: hi, expect: {judge: Be kind.}, script: [{say: Hi}]}]"
    )
    ended = started(
        project,
        "cases.yaml",
        "--agent",
        "desk",
        "--judge",
        "openai/j",
        OPENAI_BASE_URL=server.base_url,
    )
    assert ended.returncode == 1, ended.stderr
    assert "judge: 0 of 1 find 'Be kind.' kept (openai/j: " in ended.stdout


OWN_MODEL = """
from layover import Agent
from layover.models import Model, Reply

class Echo(Model):
    name = "acme/echo"

    async def complete(self, prompt, on_delta=None):
        if prompt.output is not None:
            return Reply(text='{"reason": "It greets.", "holds": true}')
        return Reply(text="Hello, " + prompt.messages[-1].text)

teller = Agent("teller", model=Echo())
"""


def test_model_that_the_author_has_written_answers_and_judges_without_a_provider(
    project: Path,
) -> None:
    (project / "my_agents.py").write_text(OWN_MODEL)
    (project / "cases.yaml").write_text(
        "cases: [{name: a, input: Ann, expect: {output: {contains: 'Hello, Ann'}, judge: Greet.}}]"
    )
    ended = evals(project, "cases.yaml", "--json", "out.json")
    assert ended.returncode == 0, ended.stderr
    setup = json.loads((project / "out.json").read_text())["setup"]
    assert (setup["model"], setup["judges"]) == ("acme/echo", ["acme/echo"])


def test_other_model_than_the_authors_own_needs_a_provider(project: Path) -> None:
    (project / "my_agents.py").write_text(OWN_MODEL)
    (project / "cases.yaml").write_text("cases: [{name: a, input: Ann, expect: {}}]")
    ended = evals(project, "cases.yaml", "--model", "openai/other")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "no model can be asked for openai/other" in ended.stderr

"""The cookbook's agents on the cases of `examples/evals`: `layover eval` over each file, with its scripts."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from layover.desk.cli.evals import FAILED, Request, agents_of, main
from layover.desk.cli.here import current
from layover.desk.evals.read import read_cases
from support.pages import Page

ROOT = Path(__file__).parents[4]
FILES = sorted((ROOT / "examples" / "evals").glob("*.yaml"))
MODULE = "cookbook_agents"
KEYS = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "LAYOVER_PROVIDERS", "LAYOVER_AGENTS")


@pytest.fixture(autouse=True)
def _project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A project with the page's agents, in which no model can be asked."""
    blocks = Page(ROOT / "docs" / "guides" / "cookbook.md").python
    agents = "\n".join(block.source for block in blocks if "def test_" not in block.source)
    (tmp_path / f"{MODULE}.py").write_text(agents, "utf-8")
    (tmp_path / "layover.toml").write_text(f'agents = "{MODULE}"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = dict(os.environ)
    for name in KEYS:
        os.environ.pop(name, None)
    yield
    sys.modules.pop(MODULE, None)
    os.environ.clear()
    os.environ.update(before)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_agent_of_the_cookbook_does_what_its_cases_expect(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(Request(file=file), current())
    said = capsys.readouterr()
    assert code == 0, said.out + said.err
    assert "failed" not in said.out


def test_wrong_expectation_fails_its_case_and_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (ROOT / "examples" / "evals" / "refunds.yaml").read_text("utf-8")
    file = tmp_path / "refunds.yaml"
    wrong = text.replace(
        "decide: approve, args: {amount: 400}", "decide: approve, args: {amount: 4}"
    )
    file.write_text(wrong, "utf-8")
    assert wrong != text
    assert main(Request(file=file), current()) == FAILED
    out = capsys.readouterr().out
    assert "failed  a large refund waits for finance" in out
    assert out.count("failed  ") == 1


def test_every_agent_of_the_cookbook_has_a_file_of_cases() -> None:
    agents = agents_of(None, current())
    below = {
        each.name
        for agent in agents.values()
        for each in (
            *agent.handoffs,
            *(tool.delegate.agent for tool in agent.tools if tool.delegate is not None),
        )
    }
    assert {file.stem for file in FILES} == agents.keys() - below
    assert [file.stem for file in FILES if read_cases(file).agent != file.stem] == []
    assert [file.stem for file in FILES if len(read_cases(file).cases) < 2] == []

"""A project's CDK app ends in a sentence where Layover refuses, and in its own traceback elsewhere."""

import sys
from pathlib import Path

import pytest

from layover.desk.cdk.app import main


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The module of an app."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "argv", [*sys.argv])
    (tmp_path / "layover.toml").write_text("[stages.dev]\nretian = true\n")
    return tmp_path / "own_app.py"


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (
            "from layover.desk.cdk.settings import Settings\nSettings.from_context({})",
            "layover: layover.toml: [stages.dev]: no setting 'retian': did you mean 'retain'?",
        ),
        (
            "from layover.desk.cdk.build import BuildFailed\nraise BuildFailed('pip could not')",
            "layover: pip could not",
        ),
        (
            "from layover.desk.cdk.props import agents_at\nagents_at('agnets')",
            "layover: agents: no package 'agnets'",
        ),
    ],
)
def test_what_layover_refuses_ends_in_a_sentence(code: str, told: str, app: Path) -> None:
    app.write_text(code)
    with pytest.raises(SystemExit) as ended:
        main(["own_app"])
    assert str(ended.value).startswith(told)


def test_error_of_the_app_itself_keeps_its_traceback(app: Path) -> None:
    app.write_text("raise ValueError('mine')")
    with pytest.raises(ValueError, match="mine"):
        main(["own_app"])


def test_app_runs_as_python_runs_it(app: Path) -> None:
    app.write_text("import sys\nassert __name__ == '__main__'\nsys.exit('done')")
    with pytest.raises(SystemExit, match="done"):
        main(["own_app"])

"""`layover synth` in a project of one's own, from the wheel: what would go to AWS."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from layover.desk.cli.deploy.needs import CDK
from support.aws.templates import Synthesized
from support.chapters import follow
from support.own_project import MAX_SYNTHESIS_S, Installation, bring_roots
from support.system.folders import folder

pytestmark = pytest.mark.package

NAGGED = """
from aws_cdk import Validations
from cdk_nag import AwsSolutionsChecks, ServerlessChecks

Validations.of(app).add_plugins(AwsSolutionsChecks(app), ServerlessChecks(app))
app.synth()
"""


@pytest.fixture(scope="module")
def made() -> Iterator[tuple[Installation, Path]]:
    """An installation, and the project of the tutorial's last chapter, whose agents import a package.
    Somebody brought the certificates."""
    if shutil.which("npx") is None:
        pytest.skip("the CDK needs Node on the path")
    with folder("synth") as place:
        installation = Installation(place)
        project = follow(installation, place, "deployed")
        (project / "agents" / "requirements.txt").write_text("markupsafe\n")
        bring_roots(project)
        app = project / "infra" / "app.py"
        # What a careful deployer adds.
        app.write_text(app.read_text().replace("app.synth()\n", NAGGED))
        yield installation, project


@pytest.fixture(scope="module")
def stack(made: tuple[Installation, Path]) -> Synthesized:
    """The stack of the stage `dev`."""
    installation, project = made
    said = installation.run(project / "agents", "synth", within_s=MAX_SYNTHESIS_S)
    return Synthesized(project / "cdk.out", said)


def test_stage_that_is_not_listed_is_refused_before_anything_is_fetched(
    made: tuple[Installation, Path],
) -> None:
    installation, project = made
    with pytest.raises(AssertionError, match=r"no \[stages\.prdo\]: did you mean 'prod'\?"):
        installation.run(project, "synth", "--stage", "prdo")
    assert not (project / "cdk.out").exists()


def test_project_is_synthesized_with_the_pinned_command_line(stack: Synthesized) -> None:
    assert f"ok       cdk: aws-cdk@{CDK}, fetched by npx" in stack.said
    assert "rds-global-bundle.pem is there" in stack.said
    assert "layover synth: the template is in" in stack.said


def test_template_breaks_no_rule_of_cdk_nag(stack: Synthesized) -> None:
    assert "ERROR" not in stack.said
    assert "WARNING" not in stack.said


def test_template_is_what_cfn_lint_accepts(stack: Synthesized) -> None:
    assert stack.linted() == []


def test_functions_are_for_python_3_13_on_arm_and_load_the_agents_of_the_project(
    stack: Synthesized,
) -> None:
    functions = stack.functions()
    assert len(functions) > 9
    for name, each in functions.items():
        assert (each["Runtime"], each["Architectures"]) == ("python3.13", ["arm64"]), name
    variables = functions["turn"]["Environment"]["Variables"]
    assert variables["LAYOVER_AGENTS"] == "agents"


def test_settings_and_approvers_of_the_tutorial_are_in_the_template(stack: Synthesized) -> None:
    groups = stack.of_type("AWS::Cognito::UserPoolGroup").values()
    assert "finance" in {each["Properties"]["GroupName"] for each in groups}
    variables = stack.functions()["turn"]["Environment"]["Variables"]
    assert float(variables["LAYOVER_DAILY_COST_USD"]) == 5
    assert stack.one("AWS::SNS::Subscription")["Endpoint"] == "you@example.com"


def test_packages_of_the_agents_are_those_of_lambda(
    stack: Synthesized, made: tuple[Installation, Path]
) -> None:
    built = made[1] / ".layover" / "cdk"
    assert (built / "functions" / "agents" / "__init__.py").is_file()
    assert (built / "functions" / "functions" / "turn" / "handler.py").is_file()
    (speedups,) = (built / "functions" / "markupsafe").glob("*.so")
    assert speedups.name == "_speedups.cpython-313-aarch64-linux-gnu.so"
    compiled = {path.name for path in (built / "layer" / "python" / "psycopg_binary").glob("*.so")}
    assert compiled
    assert all("cpython-313-aarch64" in name for name in compiled)
    assert (built / "layer" / "certificates" / "rds.pem").is_file()


def test_second_synthesis_of_the_same_project_uploads_nothing_anew(
    stack: Synthesized, made: tuple[Installation, Path]
) -> None:
    installation, project = made
    assets = sorted(path.name for path in stack.folder.glob("asset.*"))
    before = stack.file.read_bytes()
    installation.run(project, "synth", within_s=MAX_SYNTHESIS_S)
    assert sorted(path.name for path in stack.folder.glob("asset.*")) == assets
    assert stack.file.read_bytes() == before

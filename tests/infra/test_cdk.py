"""The state machine's file goes into a CDK stack as it is. Needs Node, which jsii talks to."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

FILE = Path(__file__).parents[2] / "infra" / "run.asl.json"
SUBSTITUTION = re.compile(r"\$\{(\w+)\}")

pytestmark = [
    pytest.mark.skipif(shutil.which("node") is None, reason="the CDK needs Node on the path"),
    # jsii's own generated code.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    """The synthesized template of a stack with nothing but the state machine."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION", "1")
        patched.setenv("JSII_SILENCE_WARNING_UNTESTED_NODE_VERSION", "1")
        import aws_cdk as cdk
        from aws_cdk import assertions
        from aws_cdk import aws_stepfunctions as sfn

        stack = cdk.Stack(cdk.App(analytics_reporting=False), "Test")
        arns = {name: f"arn:of:{name}" for name in set(SUBSTITUTION.findall(FILE.read_text()))}
        sfn.StateMachine(
            stack,
            "Run",
            definition_body=sfn.DefinitionBody.from_file(str(FILE)),
            definition_substitutions=arns,
        )
        return dict(assertions.Template.from_stack(stack).to_json())


def machine_of(template: dict[str, Any]) -> dict[str, Any]:
    """The properties of the one state machine."""
    (machine,) = (
        resource["Properties"]
        for resource in template["Resources"].values()
        if resource["Type"] == "AWS::StepFunctions::StateMachine"
    )
    return dict(machine)


def test_every_substitution_of_the_file_is_given(template: dict[str, Any]) -> None:
    given = machine_of(template)["DefinitionSubstitutions"]
    assert set(given) == set(SUBSTITUTION.findall(FILE.read_text()))
    assert len(given) >= 5


def test_definition_is_an_asset_and_not_inlined(template: dict[str, Any]) -> None:
    machine = machine_of(template)
    assert "DefinitionString" not in machine
    assert machine["DefinitionS3Location"]["Key"].endswith(".json")


def test_definition_fits_what_aws_takes() -> None:
    definition = json.dumps(json.loads(FILE.read_text()))
    assert len(definition.encode()) < 1024 * 1024

"""The state machine's file goes into a CDK stack as it is."""

import json
import re
from pathlib import Path

from support.aws.templates import Synthesized

FILE = Path(__file__).parents[2] / "infra" / "run.asl.json"
SUBSTITUTION = re.compile(r"\$\{(\w+)\}")


def test_every_substitution_of_the_file_is_given(plain: Synthesized) -> None:
    given = plain.one("AWS::StepFunctions::StateMachine")["DefinitionSubstitutions"]
    assert set(given) == set(SUBSTITUTION.findall(FILE.read_text()))
    assert len(given) >= 5


def test_definition_is_an_asset_and_not_inlined(plain: Synthesized) -> None:
    machine = plain.one("AWS::StepFunctions::StateMachine")
    assert "DefinitionString" not in machine
    assert machine["DefinitionS3Location"]["Key"].endswith(".json")


def test_definition_fits_what_aws_takes() -> None:
    definition = json.dumps(json.loads(FILE.read_text()))
    assert len(definition.encode()) < 1024 * 1024

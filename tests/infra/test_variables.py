"""The variables of functions: no more than Lambda takes, said before anything is deployed."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from layover.desk.cdk.variables import MAX_BYTES, VariablesTooLarge, check_size
from support.aws import synthesis


def of_size(size: int) -> dict[str, str]:
    """Variables whose JSON has so many bytes."""
    return {"A": "x" * (size - len('{"A":""}'))}


TOO_MANY: dict[str, dict[str, Any]] = {
    "one byte more": of_size(MAX_BYTES + 1),
    "quotes, which JSON escapes": {"A": '"' * 2_100},
    "characters of several bytes": {"A": "é" * 2_100},
    "names": {f"VARIABLE_WITH_A_LONG_NAME_{n:03}": "" for n in range(140)},
    "references": {f"V{n}": {"Ref": "Table"} for n in range(60)},
    "parts": {
        f"V{n}": {"Fn::Join": ["-", ["x" * 100, {"Ref": "AWS::Region"}, "y"]]} for n in range(35)
    },
}


@pytest.mark.parametrize("variables", TOO_MANY.values(), ids=list(TOO_MANY))
def test_more_than_lambda_takes_is_refused(variables: dict[str, Any]) -> None:
    with pytest.raises(VariablesTooLarge, match=r"the function turn have [45],\d+ bytes"):
        check_size("turn", variables)


def test_the_refusal_names_the_largest_and_shows_no_value() -> None:
    variables = {"LONG": "secret" * 700, "LESS": "x" * 90, "SMALL": "s", "S": ""}
    with pytest.raises(VariablesTooLarge) as refused:
        check_size("turn", variables)
    assert "The largest: LONG (4,210), LESS (100), SMALL (12)." in str(refused.value)
    assert "secretsecret" not in str(refused.value)


@pytest.mark.parametrize(
    "variables", [{}, of_size(MAX_BYTES), {"A": {"Fn::GetAtt": ["Database", "Endpoint"]}}]
)
def test_what_lambda_takes_passes(variables: dict[str, str]) -> None:
    check_size("turn", variables)


@pytest.mark.form
def test_too_many_providers_are_refused_when_a_stage_is_synthesized(tmp_path: Path) -> None:
    if shutil.which("node") is None:
        pytest.skip("the CDK needs Node on the path")
    providers = {
        f"provider-{n}": {
            "base_url": f"https://models-{n}.internal.example.com/openai/v1",
            "api_key_parameter": f"/shop/production/models/provider-{n}-key",
        }
        for n in range(24)
    }
    form = {"stage": "test", "providers": json.dumps(providers)}
    with pytest.raises(AssertionError, match=r"layover: the variables .*: LAYOVER_PROVIDERS \("):
        synthesis.synthesize(tmp_path, {"many": form})

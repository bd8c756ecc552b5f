"""Settings that the documentation names, two by two: no combination breaks a rule of cdk-nag or cfn-lint."""

from enum import Enum
from pathlib import Path

import pytest

from layover.desk.cdk.settings import IN_CODE, Settings
from support.aws import pairs, synthesis
from support.aws.templates import Synthesized

MAX_SYNTHESIS_S = 1800


def test_every_switch_of_a_stage_is_among_them() -> None:
    """Every setting that is a bool or an enum."""
    kinds = {name: field.annotation for name, field in Settings.model_fields.items()}
    switches = {n for n, k in kinds.items() if isinstance(k, type) and issubclass(k, bool | Enum)}
    given = {n for each in pairs.SWITCHES.values() for choice in each.values() for n in choice}
    assert switches - IN_CODE <= given
    assert {name for name in kinds if name.startswith("adopt_")} <= given


@pytest.mark.torture
def test_no_combination_breaks_a_rule(tmp_path: Path) -> None:
    rows = {str(number): row for number, row in enumerate(pairs.rows())}
    forms = {number: pairs.given(row) for number, row in rows.items()}
    said = synthesis.synthesize(tmp_path, forms, MAX_SYNTHESIS_S)
    assert "ERROR" not in said
    assert "WARNING" not in said
    linted = {number: Synthesized(tmp_path / number, said).linted() for number in rows}
    assert {str(rows[number]): found for number, found in linted.items() if found} == {}

"""What one machine's state machine does not know is refused, and not passed over."""

from typing import Any

import pytest

from layover.desk.local.aws.states.choices import holds
from layover.desk.local.aws.states.errors import StateFailed
from layover.desk.local.aws.states.paths import fill_template, place_result, read_path

DATA: dict[str, Any] = {"call": {"pause_s": 2, "status": "waits"}}


@pytest.mark.parametrize("path", ["$.list[0]", "$.all[*]", "$['name']", "States.UUID()", "call"])
def test_path_of_a_form_that_the_machine_does_not_use_is_refused(path: str) -> None:
    with pytest.raises(StateFailed, match="not understood here") as failed:
        read_path(path, DATA, {})
    assert failed.value.error == "States.Runtime"


def test_path_that_leads_nowhere_is_an_error_of_its_own() -> None:
    with pytest.raises(StateFailed, match="leads nowhere") as failed:
        read_path("$.call.none", DATA, {})
    assert failed.value.error == "States.ParameterPathFailure"


def test_template_takes_values_of_the_input_and_of_the_context() -> None:
    template = {"status.$": "$.call.status", "all": [{"name.$": "$$.Execution.Name"}], "n": 1}
    filled = fill_template(template, DATA, {"Execution": {"Name": "run-1"}})
    assert filled == {"status": "waits", "all": [{"name": "run-1"}], "n": 1}


def test_result_is_placed_beneath_new_names_and_leaves_the_input_as_it_was() -> None:
    placed = place_result("$.call.answer.text", DATA, "yes")
    assert placed == {"call": {**DATA["call"], "answer": {"text": "yes"}}}
    assert "answer" not in DATA["call"]
    assert place_result(None, DATA, "yes") is DATA
    assert place_result("$", DATA, "yes") == "yes"


@pytest.mark.parametrize(
    ("rule", "is_true"),
    [
        ({"Variable": "$.call.status", "StringEquals": "waits"}, True),
        ({"Variable": "$.call.pause_s", "StringEquals": "2"}, False),
        ({"Variable": "$.call.pause_s", "NumericGreaterThan": 1}, True),
        ({"Variable": "$.call.status", "NumericGreaterThan": 1}, False),
        ({"Variable": "$.none", "IsPresent": False}, True),
        ({"And": [{"Variable": "$.call", "IsPresent": True}, {"And": []}]}, True),
    ],
)
def test_rule_of_a_choice(rule: dict[str, Any], is_true: bool) -> None:
    assert holds({**rule, "Next": "Done"}, DATA, {}) is is_true


def test_rule_that_the_machine_does_not_use_is_refused() -> None:
    with pytest.raises(StateFailed, match="not understood here"):
        holds({"Variable": "$.call.status", "StringMatches": "w*", "Next": "Done"}, DATA, {})

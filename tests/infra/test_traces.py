"""A stage that names a receiver of traces: its functions know it, and no others do."""

import json

from layover.desk.cdk.settings import FUNCTIONS
from layover.desk.cdk.variables import (
    ACCEPTS,
    SENDS_TRACES,
    TRACE_CONTENT,
    TRACE_HEADERS,
    TRACES,
)
from support.aws.templates import Synthesized

ALL = {TRACES, TRACE_HEADERS, TRACE_CONTENT}


def variables(stack: Synthesized, name: str) -> dict[str, str]:
    given = stack.functions()[name]["Environment"]["Variables"]
    return {key: value for key, value in given.items() if key in ALL}


def test_a_stage_without_a_receiver_gives_no_function_any_of_it(plain: Synthesized) -> None:
    assert [name for name in FUNCTIONS if variables(plain, name)] == []


def test_functions_that_take_runs_know_the_receiver_and_may_read_its_headers(
    gateway: Synthesized,
) -> None:
    for name in SENDS_TRACES:
        assert variables(gateway, name) == {
            TRACES: "https://otlp.example",
            TRACE_HEADERS: "/shop/otlp-headers",
            TRACE_CONTENT: "true",
        }
        assert "parameter/shop/otlp-headers" in json.dumps(gateway.statements(name))


def test_other_functions_cannot_read_the_headers(gateway: Synthesized) -> None:
    for name in FUNCTIONS.keys() - {*SENDS_TRACES}:
        expected = {TRACES: "https://otlp.example"} if name in ACCEPTS else {}
        assert variables(gateway, name) == expected
        assert "otlp-headers" not in json.dumps(gateway.statements(name))

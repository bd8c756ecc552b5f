"""Tracing as the environment switches it: off, nothing of OpenTelemetry is imported by anybody."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.forks import wired
from support.otlp import receiving

ROOT = Path(__file__).parents[2]
HANDLERS = sorted(path.parent.name for path in (ROOT / "functions").glob("*/handler.py"))
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


Modules = Callable[..., Any]


@pytest.fixture(scope="module")
def modules() -> Iterator[Modules]:
    """Return the last line that the code prints, as JSON."""
    with wired() as process:
        yield process.last_line


LOADED = (
    "print(json.dumps(sorted(n for n in sys.modules if n.partition('.')[0] == 'opentelemetry')))"
)
TOUCH = (
    "from layover import wiring; r = wiring.runtime(); j = r.journal.writers, r.journal.runs\n"
    "wiring.run(wiring._finish())\n"
)


def test_without_an_endpoint_no_function_imports_opentelemetry(modules: Modules) -> None:
    handlers = "; ".join(f"import functions.{name}.handler" for name in HANDLERS)
    init = {"AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand"}
    assert modules(f"import json, sys; {handlers}\n{TOUCH}{LOADED}", **init) == []


@pytest.mark.parametrize(("word", "is_off"), [("true", True), (" True", True), ("1", False)])
def test_the_switch_of_every_program_is_obeyed(modules: Modules, word: str, is_off: bool) -> None:
    """The specification knows `true` in any case, and nothing else."""
    variables = {ENDPOINT: "http://127.0.0.1:9", "OTEL_SDK_DISABLED": word}
    code = f"import json, sys\n{TOUCH}wiring.runtime().tracing.record\n{LOADED}"
    assert (modules(code, **variables) == []) is is_off


def test_with_an_endpoint_a_function_that_takes_runs_imports_it_before_the_first_event(
    modules: Modules,
) -> None:
    init = {"AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand", ENDPOINT: "http://127.0.0.1:9"}
    code = "import json, sys, functions.{}.handler\n" + LOADED
    assert modules(code.format("turn"), **init) != []
    assert modules(code.format("api"), **init) == []


def test_with_an_endpoint_a_function_imports_no_part_of_the_sdk_that_takes_long(
    modules: Modules,
) -> None:
    init = {"AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand", ENDPOINT: "http://127.0.0.1:9"}
    code = (
        "import json, sys, functions.turn.handler\nfrom layover import wiring\n"
        "wiring.runtime().tracing.record; wiring.run(wiring._finish())\n"
        "slow = 'requests', 'opentelemetry.sdk.trace', 'opentelemetry.sdk.metrics', "
        "'opentelemetry.exporter'\nprint(json.dumps([n for n in slow if n in sys.modules]))"
    )
    assert modules(code, **init) == []


def test_with_an_endpoint_api_accepts_runs_without_opentelemetry(modules: Modules) -> None:
    code = (
        "import json, sys\nfrom layover import wiring\n"
        "wiring.runtime().journal.commands; wiring.run(wiring._finish())\n" + LOADED
    )
    assert modules(code, **{ENDPOINT: "http://127.0.0.1:9"}) == []


def test_without_the_packages_nothing_is_traced_and_a_line_says_what_to_install(
    modules: Modules,
) -> None:
    code = (
        "import json, logging, sys\nsys.modules['opentelemetry'] = None\n"
        "from layover import wiring\nlines = []\n"
        "logging.getLogger('layover').warning = lambda text, **more: lines.append(text)\n"
        "wiring.runtime().tracing.record; wiring.run(wiring._finish())\nprint(json.dumps(lines))"
    )
    [line] = modules(code, **{ENDPOINT: "http://127.0.0.1:9"})
    assert "layover[otel]" in line


def test_an_invocation_sends_its_spans_before_it_answers(modules: Modules) -> None:
    code = (
        "import json\nfrom datetime import UTC, datetime\nfrom layover import wiring\n"
        "from layover.values.span import RUN, Span\n"
        "async def work():\n"
        "    now = datetime.now(UTC)\n"
        "    wiring.runtime().tracing.record(Span('run_1', RUN, None, 'invoke_agent x', now, now))\n"
        "wiring.run(work()); print(json.dumps('answered'))"
    )
    with receiving() as receiver:
        modules(code, **{ENDPOINT: receiver.url, "LAYOVER_SERVICE": "shop"})
        assert [(s.name, s.service) for s in receiver.spans] == [("invoke_agent x", "shop")]


def test_an_agent_of_this_process_sends_its_trace_in_the_background(modules: Modules) -> None:
    code = (
        "import asyncio, json\nfrom layover import Agent\nfrom layover import wiring\n"
        "from layover.testing import ScriptedModel, say\n"
        "wiring._model = lambda: ScriptedModel([say('Hello.')])\n"
        "agent = Agent('guide', instructions='x')\n"
        "print(json.dumps(asyncio.run(agent.generate('Hi')).status))"
    )
    with receiving() as receiver:
        assert modules(code, **{ENDPOINT: receiver.url}) == "success"
        assert receiver.tree() == ["invoke_agent guide", "  chat gpt-5-mini"]


def test_a_process_that_a_server_forked_sends_its_own_spans_and_none_of_its_parents(
    modules: Modules,
) -> None:
    code = (
        "import json, os\nfrom datetime import UTC, datetime\nfrom layover import wiring\n"
        "from layover.values.span import RUN, Span\n"
        "now, tracing = datetime.now(UTC), wiring._background_tracing()\n"
        "tracing.record(Span('run_1', RUN, None, 'parent', now, now))\n"
        "child = os.fork()\n"
        "if not child: tracing.record(Span('run_2', RUN, None, 'child', now, now))\n"
        "else: os.waitpid(child, 0); print(json.dumps('over'))"
    )
    with receiving() as receiver:
        assert modules(code, **{ENDPOINT: receiver.url}) == "over"
        assert [span.name for span in receiver.spans] == ["child", "parent"]


def test_headers_of_a_parameter_are_read_as_the_variable_is(modules: Modules) -> None:
    code = (
        "import json\nfrom layover.wiring import _headers\n"
        "print(json.dumps(_headers('Authorization=Basic%20YQ==, x-tenant = a')))"
    )
    assert modules(code) == {"authorization": "Basic YQ==", "x-tenant": "a"}
    assert os.environ.get(ENDPOINT) is None

"""The surface of `import layover`."""

import subprocess
import sys
from pathlib import Path

import pytest

import layover

CONTRACT_NAMES = [
    "Agent",
    "ConfigurationError",
    "DecisionError",
    "EpisodicMemory",
    "Memory",
    "NodeMemory",
    "ObservationalMemory",
    "RollingSummary",
    "SemanticRecall",
    "TokenBuffer",
    "ToolContext",
    "WorkingMemory",
    "mcp",
    "secret",
    "tool",
]


def in_fresh_process(code: str) -> str:
    path = str(Path(layover.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", f"import sys; sys.path.insert(0, {path!r})\n{code}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.strip()


def test_importing_layover_loads_nothing_heavy() -> None:
    heavy = "pydantic openai boto3 psycopg jsonschema asyncio"
    code = f"import layover; print([m for m in {heavy!r}.split() if m in sys.modules])"
    assert in_fresh_process(code) == "[]"


def test_declaring_an_agent_loads_no_adapter() -> None:
    heavy = "openai boto3 psycopg jsonschema mcp layover.engine layover.services layover.wiring"
    code = f"""
from layover import Agent, mcp, tool
@tool
def f(a: int) -> str: ...
Agent("a", tools=[f, *mcp("https://mcp.example.com/mcp")])
print([m for m in {heavy!r}.split() if m in sys.modules])"""
    assert in_fresh_process(code) == "[]"


def test_what_tests_of_agents_import_loads_no_adapter_of_a_provider() -> None:
    heavy = "openai boto3 psycopg jsonschema pytest layover.engine layover.services layover.wiring"
    code = f"import layover.testing; print([m for m in {heavy!r}.split() if m in sys.modules])"
    assert in_fresh_process(code) == "[]"


@pytest.mark.parametrize("name", CONTRACT_NAMES)
def test_every_name_of_the_contract_is_importable(name: str) -> None:
    assert name in layover.__all__


def test_every_exported_name_exists() -> None:
    assert layover.__all__ == sorted(layover.__all__)
    for name in layover.__all__:
        assert getattr(layover, name) is not None
    assert set(layover.__all__) == set(layover._MODULE_OF)
    assert set(layover.__all__) <= set(dir(layover))


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="agnet"):
        layover.agnet  # noqa: B018


def test_the_decorator_is_not_hidden_by_its_module() -> None:
    import layover.declare.tools.tool

    assert layover.tool is layover.declare.tools.tool.tool

"""README's promises that can be kept by machine: its Python runs, its tables name what is there."""

import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from layover.values.environment import Environment

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PYTHON = re.findall(r"^```python\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


@pytest.fixture
def agents() -> Iterator[types.ModuleType]:
    """A module that holds README's first agent, then its test."""
    module = types.ModuleType("readme_agents")
    sys.modules[module.__name__] = module
    for number, block in enumerate(PYTHON):
        exec(compile(block, f"README.md, block {number}", "exec"), module.__dict__)
    yield module
    del sys.modules[module.__name__]


async def test_first_agent_suspends_and_goes_on_as_its_own_test_says(
    agents: types.ModuleType,
) -> None:
    await agents.test_large_discount_waits_for_a_person()


def test_first_agent_is_short() -> None:
    assert len([line for line in PYTHON[0].splitlines() if line]) <= 15


def test_every_variable_is_in_the_table_of_configuration() -> None:
    fields = Environment.model_fields.values()
    missing = [field.alias for field in fields if f"`{field.alias}`" not in README]
    assert missing == []


def test_no_variable_is_named_that_nothing_reads() -> None:
    known = {field.alias for field in Environment.model_fields.values()}
    assert set(re.findall(r"`(LAYOVER_[A-Z_]+)`", README)) <= known


def test_defaults_in_the_table_are_the_defaults() -> None:
    defaults = Environment()
    assert f"| `LAYOVER_MODEL` | `{defaults.model}` |" in README
    assert f"| `LAYOVER_LAST_MESSAGES` | {defaults.last_messages} |" in README


def test_every_make_target_that_is_named_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`?make ([a-z]+)", README)) <= targets | {"it"}


def test_glossary_has_every_word_of_the_engine() -> None:
    words = ("thread", "run", "step", "call", "suspension", "decision", "execution", "epoch", "end")
    assert [w for w in words if f"\n| {w} | " not in README] == []

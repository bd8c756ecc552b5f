"""Options that could only be ignored, or fail every run, are refused when the agent is defined."""

from typing import Any

import pytest
from pydantic import BaseModel

from layover import (
    Agent,
    DefinitionError,
    EpisodicMemory,
    Memory,
    TokenBuffer,
    tool,
    tool_from_schema,
)
from layover.testing import HashingEmbedder

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}


class Note(BaseModel):
    text: str


def look(n: int) -> int:
    """Look."""
    return n


def given(**options: Any) -> Any:
    return tool_from_schema("look", "Look.", SCHEMA, lambda n: n, **options)


def test_a_token_buffer_leaves_no_window_to_set() -> None:
    with pytest.raises(DefinitionError, match="token_buffer and last_messages"):
        Memory(token_buffer=TokenBuffer(), last_messages=5)


def test_an_embedder_leaves_no_model_to_name() -> None:
    with pytest.raises(DefinitionError, match="embedder and embedding_model"):
        EpisodicMemory(embedder=HashingEmbedder(8), embedding_model="openai/x")


@pytest.mark.parametrize("options", [{"foo": 1}, {"handoff": "x"}, {"delegate": None}])
def test_an_option_that_no_tool_has_is_a_definition_error(options: dict[str, Any]) -> None:
    (name,) = options
    with pytest.raises(DefinitionError, match=rf"tool 'look': no option '{name}'"):
        tool(**options)(look)
    with pytest.raises(DefinitionError, match=rf"tool 'look': no option '{name}'"):
        given(**options)


@pytest.mark.parametrize("validator", [lambda output: output, lambda: None, lambda a, b, c: a])
def test_a_validator_takes_the_output_and_the_context(validator: Any) -> None:
    with pytest.raises(DefinitionError, match=r"output_validator .*\(output, ctx\)"):
        Agent("a", output=Note, output_validator=validator)
    Agent("a", output=Note, output_validator=lambda output, ctx: output)
    Agent("a", output=Note, output_validator=lambda *both: both[0])


@pytest.mark.parametrize("function", [lambda: "x", lambda ctx, more: "x"])
def test_instructions_and_tools_take_the_context(function: Any) -> None:
    with pytest.raises(DefinitionError, match=r"instructions .*context"):
        Agent("a", instructions=function)
    with pytest.raises(DefinitionError, match=r"tools .*context"):
        Agent("a", tools=function)
    with_default: Any = lambda ctx, more=1: ""  # noqa: E731
    Agent("a", instructions=with_default, tools=with_default)


@pytest.mark.parametrize("deps", [lambda settings, more: 1, 3])
def test_a_factory_takes_the_settings_or_nothing(deps: Any) -> None:
    with pytest.raises(DefinitionError, match="deps"):
        Agent("a", deps=deps)

"""An error of a declaration says what was given, where, and what is expected."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

import layover
from layover import DefinitionError, NodeMemory, RecordedHooks, RollingSummary, TokenBuffer
from layover.declare.context import ToolContext
from layover.testing import HashingEmbedder
from support.worlds.runs import Bench

make: Any = layover


class Offer(BaseModel):
    slot: str


def look(n: int) -> int:
    """Look."""
    return n


async def shape(result: Any) -> str:
    return str(result)


def stars(*cities: str) -> str:
    return ""


def positional(city: str, /) -> str:
    return city


def waits(ctx: ToolContext, n: int) -> Any:
    """Wait."""


def letters(n: int) -> Any:
    yield n


def made_tool(**options: Any) -> Any:
    return make.tool(**options)(look)


def from_schema(schema: Any, handler: Any = look) -> Any:
    return make.tool_from_schema("look", "Look.", schema, handler)


OBJECT = {"type": "object", "properties": {"n": {"type": "integer"}, "m": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (
            lambda: make.Agent("shop", provider_tools=[make.web_search()]),
            "agent 'shop': provider_tools need api=\"responses\", not 'chat'",
        ),
        (
            lambda: make.Agent("sh\nop"),
            "the name of an agent must be 1 to 64 letters, digits, '_' or '-', not 'sh\\nop'",
        ),
        (
            lambda: make.Agent("shop", output_validator=lambda output, ctx: output),
            "agent 'shop': output_validator needs output=, the type that it validates",
        ),
        (
            lambda: make.Agent("shop", overridable=3),
            "agent 'shop': overridable must be a list of settings, not 3",
        ),
        (
            lambda: make.Agent("shop", handoffs=3),
            "agent 'shop': handoffs must be a list of other agents, not 3",
        ),
        (
            lambda: make.Agent("shop", model=["a", "a"]),
            "agent 'shop': model must be a list that has each name once, not ['a', 'a']",
        ),
        (
            lambda: make.Agent("shop", model=[{}]),
            "agent 'shop': model must be a name, or an object with a `name` and an async method `complete` "
            "(layover.models.Model), not {}",
        ),
        (
            lambda: make.Agent("shop", tools=[make.tool(look), make.tool(look)]),
            "agent 'shop': another tool is called 'look', too: give one another name",
        ),
        (
            lambda: make.EpisodicMemory(embedder=HashingEmbedder(8), embedding_model="openai/x"),
            "EpisodicMemory: embedder and embedding_model exclude each other: remove one of them",
        ),
        (
            lambda: make.WorkingMemory(scope="thread", shared=True),
            "WorkingMemory.shared needs scope=\"resource\", not 'thread'",
        ),
        (
            lambda: make.Memory(token_buffer=TokenBuffer(), last_messages=3),
            "Memory: token_buffer and last_messages exclude each other: remove one of them",
        ),
        (
            lambda: make.Memory(token_buffer=TokenBuffer(), compaction=RollingSummary()),
            "Memory: token_buffer and compaction exclude each other: remove one of them",
        ),
        (
            lambda: make.Memory(history=NodeMemory("n"), compaction=RollingSummary()),
            "Memory: compaction works on the thread, and history is NodeMemory(node_id='n'): remove one of "
            "them",
        ),
        (
            lambda: make.Memory(history="none", last_messages=3),
            'Memory: last_messages cannot work with history="none", which shows no history: remove one of '
            "them",
        ),
        (
            lambda: make.Memory(history=3),
            "Memory.history must be 'none' or 'thread' or a NodeMemory(...), not 3",
        ),
        (
            lambda: make.Limits(on_reached=[]),
            "Limits.on_reached must be 'fail' or 'suspend', not []",
        ),
        (
            lambda: make.Approval(by=None),
            "Approval: by must be a list of 1 to 20 groups, not None",
        ),
        (
            lambda: make.RedactPII(kinds=3),
            "RedactPII: kinds must be a list of EMAIL, IBAN, CARD, PHONE, not 3",
        ),
        (
            lambda: make.RedactPII(["a"]),
            "RedactPII: patterns must be a dict of regular expressions, not ['a']",
        ),
        (
            lambda: make.Policy([look]),
            "Policy: rules must be a dict of a function for each tool's name, not [",
        ),
        (
            lambda: make.Policy(look),
            "Policy: rules must be a dict of a function for each tool's name, not look (a function)",
        ),
        (
            lambda: make.Policy({"pay": lambda args, ctx: None}, {"pai": "x"}),
            "Policy: definitions must be a dict of a definition for names of `rules`, not {'pai': 'x'}",
        ),
        (
            lambda: make.Policy({3: shape}),
            "Policy: the name of a rule's tool must be a text, not 3",
        ),
        (
            lambda: make.Policy({"pay": shape}),
            "Policy: the rule of 'pay' must be a function of (args, ctx), not shape (a function)",
        ),
        (
            lambda: make.Policy({"look": made_tool()}),
            "Policy: the rule of 'look' must be a function of (args, ctx), not look (a function)",
        ),
        (
            lambda: make.tool(stars),
            "tool 'stars': parameter '*cities' has no schema: write a parameter for each argument",
        ),
        (
            lambda: make.tool(positional),
            "tool 'positional': parameter 'city' is positional-only: arguments come by name, so remove the "
            "'/'",
        ),
        (lambda: make.tool(5), "the thing that @tool decorates must be a function, not 5"),
        (
            lambda: make.tool(letters),
            "tool 'letters': it is a generator, and a call has one result: return it, and send what comes "
            "before it by ctx.emit",
        ),
        (
            lambda: make.tool(suspend=Offer, resume=Offer, needs_approval=True)(waits),
            "tool 'waits': needs_approval= and suspend= exclude each other: remove one of them",
        ),
        (
            lambda: made_tool(suspend=Offer, resume=Offer),
            "tool 'look': suspend= needs a ToolContext parameter, by which the function suspends the call",
        ),
        (
            lambda: made_tool(expires_after=timedelta(days=1)),
            "tool 'look': expires_after= on a tool that never waits: give it needs_approval= or "
            "suspend=, too",
        ),
        (
            lambda: made_tool(to_model_output=shape),
            "tool 'look': to_model_output must be a plain function (not async), not shape (a function)",
        ),
        (
            lambda: from_schema({"type": "string"}),
            "tool 'look': schema must be the JSON schema of an object, not {'type': 'string'}",
        ),
        (
            lambda: from_schema(OBJECT, lambda a, b: a),
            "tool 'look': the parameters of the handler must be **kwargs, one for each property (m, n), or "
            "one dict, not ['a', 'b']",
        ),
        (
            lambda: RecordedHooks(nodes={"notes": Bench}).node_memory("notse"),  # type: ignore[dict-item]
            "RecordedHooks.nodes: no node memory 'notse': did you mean 'notes'?",
        ),
        (
            lambda: ToolContext.for_test(thread_id=None).node_memory("notes"),
            "ctx.node_memory belongs to a thread, and this run has none: start the run with a thread_id",
        ),
        (
            lambda: ToolContext.for_test(hooks=None).emit(1),
            "ctx.emit is not available here: the context has no hooks. A test makes one that has them by "
            "ToolContext.for_test()",
        ),
    ],
)
def test_error_says_what_was_given_where_and_what_is_expected(
    declare: Callable[[], Any], message: str
) -> None:
    with pytest.raises(DefinitionError) as error:
        declare()
    assert str(error.value).startswith(message)
    assert message.endswith("[") or str(error.value) == message

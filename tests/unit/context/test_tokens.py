"""Estimated tokens."""

from datetime import UTC, datetime
from typing import Any

import pytest

from layover.context.tokens import estimate, message_tokens, output_tokens
from layover.values.message import (
    DataPart,
    Message,
    Part,
    ProviderState,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from layover.values.tokens import OVERHEAD


def message(role: Role, *parts: Part, model_output: str | None = None) -> Message:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return Message(
        id="m", thread_id="t", role=role, content=parts, created_at=at, model_output=model_output
    )


@pytest.mark.parametrize(("characters", "tokens"), [(0, 0), (1, 1), (4, 1), (5, 2), (4000, 1000)])
def test_four_characters_are_a_token_rounded_up(characters: int, tokens: int) -> None:
    assert estimate("x" * characters) == tokens


@pytest.mark.parametrize(
    ("text", "o200k"),
    [
        (
            "The refund for order A-1001 was approved by the manager on Monday, and the customer was told.",
            22,
        ),
        ("Возврат по заказу A-1001 был одобрен менеджером в понедельник, и клиенту сообщили.", 26),
        (
            "订单A-1001的四十二欧元退款已于周一由经理批准，并已告知客户款项将在三个工作日内到账。",
            32,
        ),
        (
            "注文A-1001に対する四十二ユーロの返金は月曜日に管理者によって承認され、お客様には三営業日以内に入金されると伝えられました。",
            46,
        ),
    ],
    ids=["English", "Russian", "Chinese", "Japanese"],
)
def test_every_script_is_estimated_within_a_third(text: str, o200k: int) -> None:
    assert abs(estimate(text) - o200k) <= o200k / 3


def test_a_tool_message_counts_what_the_model_saw_and_not_the_raw_result() -> None:
    part = ToolResultPart(tool_call_id="c", tool_name="look", result="x" * 4000)
    assert message_tokens(message(Role.TOOL, part, model_output="x" * 40)) == OVERHEAD + 10


ASKED = ToolCallPart(tool_call_id="c", tool_name="look", args={})
THOUGHTFUL = message(Role.ASSISTANT, TextPart(text="x" * 8), ReasoningPart(text="x" * 4000), ASKED)


@pytest.mark.parametrize(
    ("fields", "thoughts"),
    [
        (None, 0),
        ({}, 0),
        ({"reasoning_content": "x" * 4000}, 1000),
        ({"reasoningContent": [{"at": 0}]}, 1000),
    ],
    ids=["nothing is kept", "an id of a call is", "its thoughts are", "Claude's are"],
)
def test_thoughts_are_counted_where_their_provider_gets_them_back(
    fields: dict[str, Any] | None, thoughts: int
) -> None:
    state = None
    if fields is not None:
        state = ProviderState(provider="h", model="m", fields=fields, calls={"c": {"id": "f:0"}})
    said = THOUGHTFUL.model_copy(update={"provider_state": state})
    assert message_tokens(said) == OVERHEAD + 2 + 1 + 1 + thoughts
    assert output_tokens(said) == OVERHEAD + 2 + 1 + 1 + 1000


def test_data_that_no_model_reads_costs_nothing() -> None:
    part = DataPart(name="card", data="x" * 4000)
    assert message_tokens(message(Role.CUSTOM, part)) == OVERHEAD

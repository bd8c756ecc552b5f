"""Older results as previews: which, when, and what is left of them (docs/result-previews.md)."""

import math
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layover.context.previews import HEAD, MIN_LENGTH, TAIL, Previews, older_results, preview
from layover.context.tokens import counted_tokens, estimate, with_token_count
from layover.values.message import Message, Role, TextPart, ToolCallPart, ToolResultPart
from support.examples import examples

START = datetime(2026, 1, 1, tzinfo=UTC)
TOKENS = 1_000
"""Of a long result in these tests, about."""
LONG = "r" * (TOKENS * 4)


def message(id: str, role: Role, *parts: object, output: str | None = None) -> Message:
    return Message.model_validate(
        {
            "id": id,
            "thread_id": "t",
            "role": role,
            "content": parts,
            "created_at": START,
            "model_output": output,
        }
    )


def step(n: int, *outputs: str) -> list[Message]:
    """A model's message with a call for each output, and the results."""
    made = [
        ToolCallPart(tool_call_id=f"c{n}.{i}", tool_name="look", args={})
        for i, _ in enumerate(outputs)
    ]
    results = [
        message(
            f"r{n}.{i}",
            Role.TOOL,
            ToolResultPart(tool_call_id=f"c{n}.{i}", tool_name="look", result=""),
            output=output,
        )
        for i, output in enumerate(outputs)
    ]
    return [message(f"a{n}", Role.ASSISTANT, *made), *results]


def steps(count: int, output: str = LONG) -> list[Message]:
    return [m for n in range(count) for m in step(n, output)]


def test_results_of_the_newest_step_are_whole_however_long_they_are() -> None:
    assert older_results(step(0, *[LONG] * 9), 10) == set()
    assert older_results([*steps(1), *step(1, *[LONG] * 9)], 10) == {"r0.0"}


def test_no_result_becomes_a_preview_up_to_the_limit() -> None:
    size = sum(counted_tokens(m) for m in steps(4) if m.role is Role.TOOL)
    assert older_results(steps(4), size) == set()
    assert older_results(steps(4), size - 1) != set()


def test_beyond_the_limit_the_oldest_leave_until_half_of_it_is_left() -> None:
    limit = 4.5 * TOKENS
    assert older_results(steps(4), limit) == set()
    assert older_results(steps(5), limit) == {"r0.0", "r1.0", "r2.0"}


def test_the_prompts_beginning_is_the_same_until_the_limit_is_reached_again() -> None:
    limit = 4.5 * TOKENS
    seen = [frozenset(older_results(steps(n), limit)) for n in range(1, 12)]
    assert [len(each) for each in seen] == [0, 0, 0, 0, 3, 3, 3, 6, 6, 6, 9]


def test_short_results_stay_and_do_not_count() -> None:
    short = "s" * (MIN_LENGTH - 1)
    assert older_results(steps(50, short), 100) == set()
    assert older_results([*steps(50, short), *step(50, LONG)], 2 * TOKENS) == set()


def test_what_people_and_models_wrote_is_never_a_preview() -> None:
    texts = [message(f"u{n}", Role.USER, TextPart(text=LONG)) for n in range(9)]
    answers = [message(f"m{n}", Role.ASSISTANT, TextPart(text=LONG)) for n in range(9)]
    assert older_results([*texts, *answers], 10) == set()


def test_a_preview_has_head_and_tail_and_says_how_to_open_the_rest() -> None:
    text = "begin" + "x" * 5_000 + "end"
    result = with_token_count(step(0, text)[1])
    shown = preview(result)
    assert shown.model_output is not None
    assert shown.model_output.startswith(text[:HEAD])
    assert shown.model_output.endswith(text[-TAIL:])
    assert f"{len(text) - HEAD - TAIL} characters left out" in shown.model_output
    assert f"read_result shows them, id {result.id}" in shown.model_output
    assert shown.content == result.content
    assert counted_tokens(shown) < counted_tokens(result) / 5
    assert estimate(shown.model_output) <= counted_tokens(shown)


def test_the_shortest_result_that_may_become_a_preview_gets_shorter_by_half() -> None:
    [_, result] = steps(1, "x" * MIN_LENGTH)
    assert older_results([result, *step(1, "")], 0) == {result.id}
    assert len(preview(result).model_output or "") < MIN_LENGTH / 2


def test_history_and_the_runs_own_steps_count_together() -> None:
    history, own = steps(3), [m for n in range(3, 6) for m in step(n, LONG)]
    shown, mine = Previews(4.5 * TOKENS).apply(history, own)
    lengths = [len(m.model_output or "") for m in (*shown, *mine) if m.role is Role.TOOL]
    assert [length < MIN_LENGTH for length in lengths] == [True] * 3 + [False] * 3
    assert [m.id for m in (*shown, *mine)] == [m.id for m in (*history, *own)]


def test_a_history_without_a_limit_is_left_alone() -> None:
    history, own = steps(9), steps(9)
    shown = Previews(math.inf).apply(history, own)
    assert shown[0] is history
    assert shown[1] is own


@examples(200)
@given(
    sizes=st.lists(
        st.lists(st.integers(min_value=1, max_value=9_000), max_size=3), min_size=1, max_size=12
    ),
    limit=st.integers(min_value=0, max_value=6_000),
)
def test_previews_only_grow_and_never_exceed_the_limit(sizes: list[list[int]], limit: int) -> None:
    messages: list[Message] = []
    before: set[str] = set()
    for n, each in enumerate(sizes):
        newest = step(n, *("x" * size for size in each))
        messages += newest
        older = older_results(messages, limit)
        assert before <= older, "a preview never becomes whole again"
        assert not older & {m.id for m in newest}
        whole = [
            m
            for m in messages
            if m.role is Role.TOOL and len(m.model_output or "") >= MIN_LENGTH and m.id not in older
        ]
        earlier = [m for m in whole if m not in newest]
        assert sum(map(counted_tokens, earlier)) <= limit
        before = older


@pytest.mark.parametrize("text", ["é" * 3_000, "字" * 3_000, "\U0001f600" * 3_000])
def test_any_text_may_be_a_preview(text: str) -> None:
    [_, result] = step(0, text)
    shown = preview(result).model_output or ""
    assert shown.encode("utf-8")
    assert shown.startswith(text[:HEAD])

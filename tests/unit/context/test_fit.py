"""Prompts are made to fit by fixed rules, the oldest first (docs/behaviour.md#prompt-fit)."""

from datetime import UTC, datetime, timedelta

import pytest

from layover.context.fit import TooLong, fit, shorten
from layover.context.tokens import message_tokens
from layover.values.message import Message, Role, TextPart, ToolCallPart, ToolResultPart

START = datetime(2026, 1, 1, tzinfo=UTC)


def said(id: str, role: Role, text: str = "x" * 40) -> Message:
    return Message(
        id=id,
        thread_id="t",
        role=role,
        content=(TextPart(text=text),),
        created_at=START + timedelta(seconds=1),
    )


def asked(id: str, call: str) -> Message:
    part = ToolCallPart(tool_call_id=call, tool_name="look", args={})
    return said(id, Role.ASSISTANT).model_copy(update={"content": (part,)})


def result(id: str, call: str, size: int) -> Message:
    part = ToolResultPart(tool_call_id=call, tool_name="look", result="")
    output = {"content": (part,), "model_output": "r" * size}
    return said(id, Role.TOOL).model_copy(update=output)


def turn(n: int, size: int) -> list[Message]:
    return [
        said(f"u{n}", Role.USER),
        asked(f"a{n}", f"c{n}"),
        result(f"r{n}", f"c{n}", size),
        said(f"e{n}", Role.ASSISTANT),
    ]


def ids(messages: list[Message]) -> list[str]:
    return [m.id for m in messages]


def tokens(messages: list[Message]) -> int:
    return sum(map(message_tokens, messages))


INPUT = said("input", Role.USER)


def test_an_input_and_a_last_step_that_do_not_fit_are_refused() -> None:
    with pytest.raises(TooLong):
        fit(turn(1, 10), said("input", Role.USER, "x" * 4_000), [], budget=100)


def test_a_last_step_that_is_too_long_even_when_shortened_is_refused() -> None:
    own = [asked("s1", "c"), result("t1", "c", 4_000)]
    with pytest.raises(TooLong):
        fit([], INPUT, own, budget=200)


def test_the_last_steps_results_are_shortened_once_nothing_else_can_go() -> None:
    own = [asked("s0", "b"), result("t0", "b", 400), asked("s1", "c")]
    own += [result(f"t{n}", "c", 8_000) for n in (1, 2, 3)]
    for short, budget in ((0, tokens([INPUT, *own[2:]])), (1, 4_500), (2, 2_700), (3, 700)):
        kept = fit(turn(1, 400), INPUT, own, budget=budget)
        assert ids(kept) == ["input", "s1", "t1", "t2", "t3"]
        sizes = [len(m.model_output or "") for m in kept[2:]]
        assert sizes == [815] * short + [8_000] * (3 - short)


def test_a_result_that_was_shortened_as_the_newest_stays_so_in_later_steps() -> None:
    own = [asked("s1", "c"), *(result(f"t{n}", "c", 8_000) for n in (1, 2, 3))]
    short = {m.id: m for m in fit([], INPUT, own, budget=4_500) if m not in [*own, INPUT]}
    assert short.keys() == {"t1"}
    for n in range(2, 6):
        own += [asked(f"s{n}", f"d{n}"), result(f"r{n}", f"d{n}", 800)]
        kept = {m.id: m for m in fit([], INPUT, own, budget=4_500)}
        assert {id: kept[id] for id in short} == short
        short |= {m.id: m for m in kept.values() if m not in [*own, INPUT]}


def test_what_fits_exactly_stays_as_it_is() -> None:
    history = turn(1, 4_000)
    whole = [*history, INPUT]
    assert fit(history, INPUT, [], budget=tokens(whole)) == whole


def test_the_oldest_tool_results_are_shortened_first_and_no_more_than_needed() -> None:
    history = [*turn(1, 8_000), *turn(2, 8_000)]
    whole = [*history, INPUT]
    kept = fit(history, INPUT, [], budget=tokens(whole) - 1)
    assert ids(kept) == ids(whole)
    assert [len(m.model_output or "") for m in kept if m.role is Role.TOOL] == [815, 8_000]


def test_a_shortened_result_depends_on_its_message_alone() -> None:
    message = result("r", "c", 8_000)
    assert shorten(message) == shorten(message)
    assert shorten(shorten(message)).model_output != ""
    assert shorten(result("s", "c", 800)).model_output == "r" * 800


def test_a_very_long_earlier_input_stands_as_its_head_and_tail() -> None:
    long = said("long", Role.USER, "begin " + "x" * 60_000 + " end")
    kept = fit([long], INPUT, [], budget=1_000)
    assert ids(kept) == ["long", "input"]
    assert kept[0].text.startswith("begin")
    assert kept[0].text.endswith("end")
    assert len(kept[0].text) < 1_000


def test_the_oldest_turns_go_before_the_runs_own_steps() -> None:
    history = [*turn(1, 10), *turn(2, 10)]
    own = [asked("s1", "c1"), result("t1", "c1", 10), asked("s2", "c2"), result("t2", "c2", 10)]
    kept = fit(history, INPUT, own, budget=tokens([*turn(2, 10), INPUT, *own]))
    assert ids(kept) == ["u2", "a2", "r2", "e2", "input", "s1", "t1", "s2", "t2"]


def test_at_the_least_the_input_and_the_last_step_are_left() -> None:
    own = [asked("s1", "c1"), result("t1", "c1", 10), asked("s2", "c2"), result("t2", "c2", 10)]
    kept = fit(turn(1, 10), INPUT, own, budget=tokens([INPUT, *own[2:]]))
    assert ids(kept) == ["input", "s2", "t2"]


def test_calls_and_results_are_never_parted() -> None:
    history = [m for n in range(6) for m in turn(n, 3_000)]
    for budget in range(60, tokens([*history, INPUT]), 97):
        kept = fit(history, INPUT, [], budget=budget)
        for message in kept:
            if message.role is Role.TOOL:
                assert f"a{message.id[1:]}" in ids(kept)


def test_what_was_counted_when_it_was_stored_is_not_counted_again() -> None:
    stored = result("r", "c", 100_000).model_copy(update={"token_count": 5})
    history = [said("u", Role.USER), asked("a", "c"), stored]
    fits = fit(history, said("now", Role.USER), [], 100)
    assert fits[2] is stored

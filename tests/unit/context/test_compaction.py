"""The time at which older messages leave a prompt, and the places where a path may be cut."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from layover import Agent, Memory, ObservationalMemory, RollingSummary
from layover.context.compaction import (
    Limits,
    Path,
    count_leaving,
    count_within,
    ends,
    limits,
    ready_slices,
    slices,
)
from layover.context.tokens import total_tokens
from layover.values.deployment.settings import Settings
from layover.values.memory.compaction import Generation
from layover.values.message import Message, Role, TextPart

START = datetime(2026, 1, 1, tzinfo=UTC)
ROLES = {"u": Role.USER, "a": Role.ASSISTANT, "t": Role.TOOL, "c": Role.CUSTOM}


def path(shape: str, tokens: int = 10) -> list[Message]:
    """One message a letter: user, assistant, tool, custom."""
    return [
        Message(
            id=f"m{i}",
            thread_id="t",
            role=ROLES[letter],
            content=(TextPart(text=letter),),
            created_at=START + timedelta(seconds=i),
            token_count=tokens,
        )
        for i, letter in enumerate(shape)
    ]


def slice_to(index: int) -> Generation:
    return Generation(
        number=index,
        kind="observations",
        after_depth=-1,
        through_depth=index,
        through_message_id=f"m{index}",
        active=False,
        created_at=START,
    )


def of(memory: Memory, window: int | None = None) -> Limits:
    found = limits(Agent("a", memory=memory), Settings(), window)
    assert found is not None
    return found


def test_an_agent_without_a_mode_has_no_limits() -> None:
    assert limits(Agent("a"), Settings(), 8_000) is None


def test_observations_begin_at_the_deployments_threshold_and_a_run_waits_a_fifth_above() -> None:
    found = of(Memory(compaction=ObservationalMemory()))
    assert (found.start, found.late, found.whole) == (30_000, 36_000, 70_000)
    assert (found.ahead, found.block, found.tail) == (6_000, 40_000, 20)


def test_in_a_small_window_both_thresholds_fit() -> None:
    found = of(Memory(compaction=ObservationalMemory()), window=16_000)
    assert found.whole is not None
    assert found.whole <= 12_000
    assert found.late < 12_000


def test_instructions_that_fill_a_window_lower_the_thresholds_to_what_they_leave() -> None:
    def start(instructions: str) -> int:
        memory = Memory(compaction=ObservationalMemory())
        found = limits(Agent("a", instructions=instructions, memory=memory), Settings(), 16_000)
        assert found is not None
        return found.start

    assert start("") == 7_200
    assert start("word" * 2_000) == 6_000
    assert start("word" * 20_000) == 1_800, "a quarter of the room at the least"


def test_a_summary_counts_8000_fixed_tokens_against_its_share_of_the_window() -> None:
    found = of(Memory(compaction=RollingSummary()), window=100_000)
    assert found.start == 80_000 - 8_000
    assert found.late == 96_000 - 8_000


def test_a_summary_of_an_unknown_model_takes_128000_tokens_and_a_cap_lowers_them() -> None:
    assert of(Memory(compaction=RollingSummary())).start == 102_400 - 8_000
    assert of(Memory(compaction=RollingSummary(max_window=50_000))).start == 40_000 - 8_000


def test_a_cut_never_stands_before_a_tool_result_or_a_custom_message() -> None:
    assert ends(path("uatcau")) == [1, 4, 5, 6]
    assert ends([]) == []


def test_a_compaction_leaves_the_newest_messages() -> None:
    assert count_leaving(path("uauauaua"), tail=4, start=1_000) == 4


def test_a_cut_that_would_split_a_step_leaves_more() -> None:
    assert count_leaving(path("uatatata"), tail=4, start=1_000) == 3, (
        "not between a call and its result"
    )


def test_a_tail_that_alone_reaches_the_threshold_shrinks_to_its_newest_unit_at_the_least() -> None:
    assert count_leaving(path("uatatat", tokens=100), tail=20, start=250) == 5
    assert count_leaving(path("uatatat", tokens=100), tail=20, start=1) == 5
    assert count_leaving(path("u", tokens=100), tail=20, start=1) == 0


def test_what_is_too_little_for_a_slice_is_left_over() -> None:
    assert list(slices(path("uauauau"), 30)) == [(0, 3), (3, 6)]
    assert list(slices(path("ua"), 30)) == []


def test_what_a_model_can_read_at_once_ends_with_a_unit() -> None:
    assert count_within(path("uatua"), 35) == 3
    assert count_within(path("uatua"), 25) == 1
    assert count_within(path("uatua"), 5) == 1, "one unit at the least"
    assert count_within([], 5) == 0


def test_slices_take_effect_as_far_as_they_leave_the_tail() -> None:
    made = [slice_to(1), slice_to(3), slice_to(5)]
    assert [g.number for g in ready_slices(Path(path("uauauaua")), made, tail=4, start=1_000)] == [
        1,
        3,
    ]


def test_more_slices_take_effect_where_what_they_leave_is_too_much() -> None:
    made = [slice_to(1), slice_to(3), slice_to(5)]
    big = path("uauauaua", tokens=100)
    assert [g.number for g in ready_slices(Path(big), made, tail=8, start=300)] == [1, 3, 5]
    assert [g.number for g in ready_slices(Path(big), made, tail=8, start=500)] == [1, 3]


def test_the_newest_unit_is_never_taken() -> None:
    assert ready_slices(Path(path("uat", tokens=100)), [slice_to(2)], tail=0, start=1) == []


def test_a_slice_of_another_branch_takes_no_effect() -> None:
    elsewhere = slice_to(1).model_copy(update={"through_message_id": "x"})
    assert ready_slices(Path(path("uaua")), [elsewhere, slice_to(2)], tail=0, start=1) == []


@given(st.text("uatc", max_size=40), st.integers(1, 60), st.integers(0, 10))
def test_cuts_stand_before_users_and_assistants_only(shape: str, tokens: int, tail: int) -> None:
    messages = path(shape)
    cuts = [c for piece in slices(messages, tokens) for c in piece]
    cuts.append(count_leaving(messages, tail, tokens))
    for cut in cuts:
        assert cut in (0, len(messages)) or messages[cut].role in (Role.USER, Role.ASSISTANT)
    pieces = list(slices(messages, tokens))
    assert all(total_tokens(messages[a:b]) >= tokens for a, b in pieces)
    assert [a for a, _ in pieces[1:]] == [b for _, b in pieces[:-1]], "a chain without gaps"


def test_what_waits_is_in_no_slice_and_is_left_out_up_to_its_end() -> None:
    messages = [
        m.model_copy(update={"run_id": "w" if m.id in ("m2", "m3", "m4") else "r"})
        for m in path("uauatuaua")
    ]
    waiting = Path(messages, {"w"})
    assert [m.id for m in waiting.free] == ["m0", "m1", "m5", "m6", "m7", "m8"]
    assert waiting.left_out(None, "m1") == ()
    assert waiting.left_out("m1", "m6") == ("m2", "m3", "m4")
    assert waiting.left_out("m3", "m6") == ("m4",)
    assert waiting.left_out("elsewhere", "m6") == ("m2", "m3", "m4")
    made = [slice_to(1), slice_to(6)]
    assert [g.number for g in ready_slices(waiting, made, tail=2, start=1_000)] == [1, 6]
    assert [g.number for g in ready_slices(waiting, made, tail=4, start=1_000)] == [1]


def test_a_slice_that_ends_with_what_waits_now_covers_what_is_before_it() -> None:
    messages = [
        m.model_copy(update={"run_id": "w" if m.id in ("m2", "m3") else "r"})
        for m in path("uauauaua")
    ]
    counts = Path(messages, {"w"}).counts()
    assert [counts[f"m{n}"] for n in range(8)] == [1, 2, 2, 2, 3, 4, 5, 6]

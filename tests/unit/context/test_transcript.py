"""A run's messages come from its journal alone."""

from datetime import UTC, datetime, timedelta

from layover import keys
from layover.context.transcript import custom_message, response_messages, tool_message
from layover.values.message import (
    Message,
    Part,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from layover.values.runs.run import (
    CallRecord,
    CallState,
    RunMeta,
    RunSnapshot,
    Status,
    StepRecord,
    ToolMessageSlot,
)
from layover.values.runs.usage import Usage

T0 = datetime(2026, 1, 1, tzinfo=UTC)
US = timedelta(microseconds=1)


def step(index: int, *call_ids: str, path: str = "", parent: str = "m_in") -> StepRecord:
    at = T0 + timedelta(seconds=index)
    parts: list[Part] = [TextPart(text=f"step {index}")]
    parts += [ToolCallPart(tool_call_id=c, tool_name="look", args={}) for c in call_ids]
    message = Message(
        id=f"a{index}",
        thread_id="t",
        run_id="r",
        parent_id=parent,
        role=Role.ASSISTANT,
        content=tuple(parts),
        created_at=at,
    )
    return StepRecord(
        key=keys.step_key(path, index),
        index=index,
        message=message,
        usage=Usage(),
        model="m",
        finish_reason="stop",
        slots=tuple(
            ToolMessageSlot(
                tool_call_id=c, message_id=f"a{index}.{c}", created_at=at + (i + 1) * US
            )
            for i, c in enumerate(call_ids)
        ),
    )


def call(
    of: StepRecord,
    call_id: str,
    state: CallState = CallState.SETTLED,
    custom: Message | None = None,
) -> CallRecord:
    return CallRecord(
        key=keys.call_key(of.key, call_id),
        run_id="r",
        tool_call_id=call_id,
        tool_name="look",
        args={},
        state=state,
        result={"of": call_id},
        model_output=f"saw {call_id}",
        custom=custom,
    )


def snapshot(steps: list[StepRecord], calls: list[CallRecord]) -> RunSnapshot:
    input = Message(id="m_in", thread_id="t", role=Role.USER, created_at=T0 - US)
    meta = RunMeta(
        id="r",
        owner="ann",
        thread_id="t",
        agent="support",
        status=Status.RUNNING,
        input=input,
        created_at=T0,
        updated_at=T0,
    )
    return RunSnapshot(meta=meta, steps=tuple(steps), calls=tuple(calls))


def test_a_call_that_is_open_or_waits_or_has_no_record_has_no_message() -> None:
    one = step(1, "a", "b", "c")
    calls = [call(one, "a", CallState.OPEN), call(one, "b", CallState.WAITING)]
    assert [m.id for m in response_messages(snapshot([one], calls))] == ["a1"]


def test_a_result_follows_the_result_before_it_which_may_still_come() -> None:
    one = step(1, "a", "b", "c")
    calls = [call(one, "c"), call(one, "a"), call(one, "b", CallState.WAITING)]
    messages = response_messages(snapshot([one], calls))
    assert [m.id for m in messages] == ["a1", "a1.a", "a1.c"]
    assert [m.parent_id for m in messages] == ["m_in", "a1", "a1.b"]


def test_results_follow_in_call_order_whatever_the_order_of_settling() -> None:
    one = step(1, "a", "b")
    messages = response_messages(snapshot([one], [call(one, "b"), call(one, "a")]))
    assert [m.id for m in messages] == ["a1", "a1.a", "a1.b"]
    assert [m.created_at for m in messages] == sorted(m.created_at for m in messages)
    assert [m.parent_id for m in messages] == ["m_in", "a1", "a1.a"]


def test_a_sub_agents_steps_are_not_part_of_the_response() -> None:
    one = step(1, "a")
    nested = step(1, path=keys.call_key(one.key, "a") + "/")
    assert [m.id for m in response_messages(snapshot([one, nested], []))] == ["a1"]


def test_custom_messages_come_after_all_results_of_their_step() -> None:
    one, two = step(1, "a", "b"), step(2)
    card = custom_message(one, one.slots[0], "card", {"n": 1})
    messages = response_messages(
        snapshot([one, two], [call(one, "a", custom=card), call(one, "b")])
    )
    assert [m.id for m in messages] == ["a1", "a1.a", "a1.b", card.id, "a2"]
    assert messages[3].parent_id == "a1.b"
    assert [m.created_at for m in messages] == sorted(m.created_at for m in messages)


def test_a_call_id_with_separators_finds_its_record() -> None:
    one = step(1, "x#CALL/é")
    assert len(response_messages(snapshot([one], [call(one, "x#CALL/é")]))) == 2


def test_a_tool_message_keeps_the_raw_result_and_what_the_model_saw() -> None:
    one = step(1, "a")
    message = tool_message(one, one.slots[0], call(one, "a"))
    assert message.content == (
        ToolResultPart(tool_call_id="a", tool_name="look", result={"of": "a"}, is_error=False),
    )
    assert message.model_output == "saw a"
    assert "model_output" not in message.model_dump(mode="json")

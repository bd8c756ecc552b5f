"""Views of operators have no words: of a run with something in every field, they show only what is named
here."""

from typing import Any

from pydantic import BaseModel

from layover.plugins.operate.views import glance_at, timeline_of
from layover.values.message import Message, Role, TextPart, ToolCallPart
from layover.values.runs.provider_wait import ProviderWait
from layover.values.runs.run import (
    CallRecord,
    ErrorDetail,
    RunMeta,
    RunSnapshot,
    Status,
    StepRecord,
    ToolMessageSlot,
)
from support.filled import filled

SHOWN = {
    "RunMeta.id",
    "RunMeta.owner",
    "RunMeta.thread_id",
    "RunMeta.agent",
    "RunMeta.definition",
    "RunMeta.model",
    "ErrorInfo.type",
    "ErrorDetail.provider",
    "ErrorDetail.model",
    "ErrorDetail.request_id",
    # A provider's words. Those of an exception are tested below.
    "ErrorDetail.message",
    "StepRecord.key",
    "StepRecord.model",
    "StepRecord.agent",
    "StepRecord.finish_reason",
    "StepRecord.fell_back_to",
    "StepRecord.definition",
    "HookReply.hook",
    "HookDecision.hook",
    "CallRecord.tool_call_id",
    "CallRecord.tool_name",
    # Who decided an earlier attempt; its words are looked for below.
    "CallRecord.past",
    "ToolMessageSlot.tool_call_id",
    "Decision.decided_by",
    "Decision.on_behalf_of",
    "ChildRun.id",
    "ChildRun.agent",
}
"""Ids, names and types."""
USAGE = ("StepRecord.usage", "RunMeta.usage", "StepRecord.estimated")
"""What sub-agents used is itemised by names and ids."""


def texts(value: Any, where: str) -> list[tuple[str, str]]:
    """All texts below a value, each with its field."""
    if isinstance(value, BaseModel):
        kind = type(value).__name__
        fields = [(f"{kind}.{name}", getattr(value, name)) for name in type(value).model_fields]
        return [text for name, each in fields if name not in USAGE for text in texts(each, name)]
    if isinstance(value, dict):
        return [text for pair in value.items() for each in pair for text in texts(each, where)]
    if isinstance(value, tuple | list | set | frozenset):
        return [text for each in value for text in texts(each, where)]
    is_text = isinstance(value, str) and " " in value
    return [(where, str(value))] if is_text else []


def full_snapshot() -> RunSnapshot:
    """A run of one step with one call. Every text has a blank, and differs from all others."""
    step = filled(StepRecord, 1_000, key="STEP#0001", usage={"input_tokens": 3})
    part = ToolCallPart(tool_call_id="c1", tool_name="tool 1", args={"words 1": "words 2"})
    message = filled(Message, 2_000, role=Role.ASSISTANT, content=(TextPart(text="words 3"), part))
    slot = ToolMessageSlot(
        tool_call_id="c1", message_id="message 1", created_at=message.created_at, offered=True
    )
    step = step.model_copy(update={"message": message, "slots": (slot,)})
    call = filled(CallRecord, 3_000, key="STEP#0001#CALL#c1", tool_call_id="c1", offered=True)
    past = {**call.decision.model_dump(mode="json"), "attempt": 1} if call.decision else {}
    call = call.model_copy(update={"past": (past | {"reason": "words 4", "args": {"words 5": 1}},)})
    meta = filled(RunMeta, 5_000, usage={"input_tokens": 3})
    said = filled(Message, 6_000)
    return RunSnapshot(meta=meta, steps=(step,), calls=(call,), said=(said,))


def test_no_field_with_words_is_shown() -> None:
    snapshot = full_snapshot()
    named = texts(snapshot, "")
    assert len({field for field, _ in named}) > 40
    for view in (glance_at(snapshot), timeline_of(snapshot)):
        json = view.model_dump_json()
        assert {field for field, text in named if text in json} - SHOWN == set()
    assert "words" not in timeline_of(snapshot).model_dump_json()


def test_words_of_an_exception_are_content_and_those_of_a_provider_are_not() -> None:
    snapshot = full_snapshot()
    said = ErrorDetail(message="words 7")
    for detail, of_code in ((said, True), (said.model_copy(update={"model": "m"}), False)):
        meta = snapshot.meta.model_copy(update={"error_detail": detail})
        told = snapshot.model_copy(update={"meta": meta})
        assert ("words 7" in timeline_of(told).model_dump_json()) != of_code
        assert "words 7" in timeline_of(told, with_content=True).model_dump_json()


def test_name_that_a_model_made_up_is_not_shown() -> None:
    snapshot = full_snapshot()
    made_up = snapshot.calls[0].model_copy(update={"offered": False, "tool_name": "words 9"})
    [step] = timeline_of(snapshot.model_copy(update={"calls": (made_up,)})).timeline
    assert [call.tool_name for call in step.calls] == [None]


def test_wait_for_a_provider_is_shown_until_a_step_ends_it() -> None:
    snapshot = full_snapshot()
    away = filled(ProviderWait, 7_000, steps=1)
    meta = snapshot.meta.model_copy(update={"away": away, "status": Status.RUNNING})
    paused = snapshot.model_copy(update={"meta": meta})
    for view in (glance_at(paused), timeline_of(paused)):
        assert view.waiting_for == away.view
    further = paused.model_copy(update={"steps": (*paused.steps, *paused.steps)})
    for view in (glance_at(further), timeline_of(further)):
        assert view.waiting_for is None


def test_call_that_has_not_begun_is_planned() -> None:
    snapshot = full_snapshot().model_copy(update={"calls": ()})
    [step] = timeline_of(snapshot).timeline
    [call] = step.calls
    assert (call.tool_call_id, call.state, call.attempt) == ("c1", "planned", 0)
    assert call.args_bytes > 0
    assert glance_at(snapshot).calls == 1

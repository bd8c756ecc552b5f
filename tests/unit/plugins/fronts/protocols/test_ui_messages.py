"""A run's events as the AI SDK reads them, from recorded lists of events."""

import json
from collections.abc import Sequence
from itertools import chain
from typing import Any

import pytest

from layover.clock import ManualClock
from layover.plugins.fronts.protocols.ui_messages import (
    UiMessage,
    answer_id,
    approval_id,
    approval_of,
    run_of_answer,
)
from layover.values.decision import Denial
from layover.values.message import (
    DataPart,
    FilePart,
    Message,
    Part,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallPart,
)
from layover.values.runs.event import (
    DataEvent,
    ErrorEvent,
    Event,
    Finish,
    MessageEvent,
    ReasoningDelta,
    TextDelta,
    ToolCallDecided,
    ToolCallDelta,
    ToolCallSuspended,
    ToolExecutionEnd,
    ToolExecutionStart,
    TurnEnd,
    TurnStart,
)
from layover.values.runs.run import (
    DecisionKind,
    ErrorInfo,
    FinishReason,
    Risk,
    Status,
    SuspensionKind,
)
from layover.values.runs.usage import Usage

NOW = ManualClock().now()
AT: Any = {"at": NOW, "run_id": "run_1"}


_REASONS = {
    Status.SUCCESS: FinishReason.STOP,
    Status.FAILED: FinishReason.ERROR,
    Status.CANCELLED: FinishReason.CANCELLED,
}


def message(*parts: Part, role: Role = Role.ASSISTANT) -> Message:
    return Message(id="m", thread_id="t", role=role, content=parts, created_at=NOW)


def start(step: int = 1) -> Event:
    return TurnStart(step=step, **AT)


def text(piece: str, step: int = 1) -> Event:
    return TextDelta(step=step, text=piece, **AT)


def heard(call: str, piece: str) -> Event:
    return ToolCallDelta(step=1, tool_call_id=call, tool_name="refund", args_delta=piece, **AT)


def runs(call: str, args: Any) -> Event:
    return ToolExecutionStart(tool_call_id=call, tool_name="refund", args=args, **AT)


def ends(call: str, result: Any, is_error: bool = False) -> Event:
    return ToolExecutionEnd(
        tool_call_id=call, tool_name="refund", result=result, is_error=is_error, **AT
    )


def asks(call: str, kind: SuspensionKind = SuspensionKind.APPROVAL, attempt: int = 1) -> Event:
    return ToolCallSuspended(
        tool_call_id=call,
        tool_name="refund",
        args={"amount": 5},
        kind=kind,
        payload={"amount": 5},
        resume_schema={},
        attempt=attempt,
        agent_path=("support",),
        requested_at=NOW,
        expires_at=None,
        **AT,
    )


def decided(call: str, decision: DecisionKind) -> Event:
    return ToolCallDecided(tool_call_id=call, decision=decision, decided_by="ann", **AT)


def finish(status: Status = Status.SUCCESS) -> Event:
    return Finish(
        status=status,
        finish_reason=_REASONS[status],
        usage=Usage(),
        model="gpt",
        output=None,
        **AT,
    )


def chunks(*events: Event, ui: UiMessage | None = None) -> list[dict[str, Any]]:
    translation = ui or UiMessage("run_1", "thread_1")
    return list(chain.from_iterable(map(translation.chunks, events)))


def types(found: Sequence[dict[str, Any]]) -> list[str]:
    return [c["type"] for c in found]


def test_a_message_is_the_runs() -> None:
    found = UiMessage("run_1", "thread_1").begin()
    assert (found["type"], found["messageId"]) == ("start", "run_1")


def test_an_answer_comes_in_pieces_within_a_step() -> None:
    done = message(TextPart(text="Hello"))
    end = TurnEnd(step=1, message=done, tool_results=(), **AT)
    found = chunks(
        start(), text("Hel"), text("lo"), MessageEvent(message=done, **AT), end, finish()
    )
    assert types(found) == [
        *(
            "start-step",
            "text-start",
            "text-delta",
            "text-delta",
            "text-end",
            "finish-step",
            "finish",
        )
    ]
    assert len({c["id"] for c in found if c["type"].startswith("text")}) == 1
    assert found[-1]["finishReason"] == "stop"
    assert found[-1]["messageMetadata"]["status"] == "success"


def test_an_answer_without_deltas_comes_whole() -> None:
    done = message(ReasoningPart(text="hm"), TextPart(text="Hello"), DataPart(name="card", data=1))
    found = chunks(start(), MessageEvent(message=done, **AT))
    assert types(found)[1:] == [
        *("reasoning-start", "reasoning-delta", "reasoning-end"),
        *("text-start", "text-delta", "data-card", "text-end"),
    ]


def test_thoughts_and_words_are_parts_of_their_own() -> None:
    thought = ReasoningDelta(step=1, text="hm", **AT)
    found = chunks(start(), thought, text("a"), thought)
    ids = [c["id"] for c in found if c["type"].endswith("-start")]
    assert len(set(ids)) == 3
    assert types(found)[3] == "reasoning-end"


def test_a_call_is_shown_while_it_is_written_and_when_it_runs() -> None:
    found = chunks(
        start(),
        heard("c", ""),
        heard("c", '{"a"'),
        heard("c", ":1}"),
        runs("c", {"a": 1}),
        ends("c", 2),
    )
    assert types(found)[1:] == [
        "tool-input-start",
        *["tool-input-delta"] * 2,
        "tool-input-available",
        "tool-output-available",
    ]
    assert found[-2]["input"] == {"a": 1}
    assert found[-1] == {"type": "tool-output-available", "toolCallId": "c", "output": 2}


def test_a_call_that_waits_for_its_turn_is_not_shown_before() -> None:
    both = (heard("c1", "{}"), heard("c2", '{"b":2}'))
    calls = [ToolCallPart(tool_call_id=c, tool_name="refund", args={}) for c in ("c1", "c2")]
    done = MessageEvent(message=message(*calls), **AT)
    ui = UiMessage("run_1", "thread_1")
    before = chunks(start(), *both, done, asks("c1"), ui=ui)
    assert {c.get("toolCallId") for c in before} == {None, "c1"}
    after = chunks(decided("c1", DecisionKind.APPROVED), ends("c1", 1), asks("c2"), ui=ui)
    shown = [c["type"] for c in after if c["toolCallId"] == "c2"]
    assert shown == [
        *("tool-input-start", "tool-input-delta", "tool-input-available", "tool-approval-request")
    ]


def test_an_approval_is_asked_for_by_attempt_and_call() -> None:
    (asked,) = (c for c in chunks(asks("c:1", attempt=2)) if c["type"] == "tool-approval-request")
    assert asked["toolCallId"] == "c:1"
    assert approval_of(asked["approvalId"]) == (2, "run_1", "c:1")


@pytest.mark.parametrize(
    "id", ["", "3:c", "3:c:1", "3:run_1", "3:run_1:", "3:x:run_1:c", "x:run_1:c"]
)
def test_no_other_id_is_that_of_an_approval(id: str) -> None:
    assert approval_of(id) is None


def test_a_part_of_an_answer_has_an_id_that_names_its_run() -> None:
    assert answer_id("run_1", 1) == "run_1"
    assert run_of_answer(answer_id("run_1", 12)) == ("run_1", 12)
    for other in ("run_1", "", "x.2", "run_1.x", "run_1.", "run_1.2²", "run_1.-2", "msg_1.2"):
        assert run_of_answer(other) == (other, 1)


def test_a_later_part_of_an_answer_shows_nothing_of_the_steps_before() -> None:
    ui = UiMessage("run_1", "thread_1", 2)
    assert ui.begin()["messageId"] == "run_1.2"
    assert chunks(start(), TextDelta(step=1, text="before", **AT), asks("c1"), ui=ui) == []
    behind: list[Event] = [
        TurnStart(step=2, **AT),
        TextDelta(step=2, text="behind", **AT),
        ends("c1", 1),
    ]
    found = chunks(*behind, ui=ui)
    assert [c["type"] for c in found] == ["start-step", "text-start", "text-delta"]
    assert found[-1]["delta"] == "behind"


def test_an_answer_goes_on_in_another_message() -> None:
    ui = UiMessage("run_1", "thread_1")
    chunks(start(), TextDelta(step=1, text="before", **AT), asks("c1"), ui=ui)
    assert ui.go_on_as(2)["messageId"] == "run_1.2"
    found = chunks(TurnStart(step=2, **AT), TextDelta(step=2, text="behind", **AT), ui=ui)
    assert [c["type"] for c in found] == ["start-step", "text-start", "text-delta"]


def test_what_a_run_is_sent_is_nothing_that_its_agent_says() -> None:
    sent = message(
        TextPart(text="to Bea"), FilePart(file_id="f"), DataPart(name="x", data=1), role=Role.USER
    )
    reply = message(TextPart(text="Paid."))
    messages = [MessageEvent(message=m, **AT) for m in (sent, reply)]
    found = chunks(TurnStart(step=1, **AT), *messages)
    assert [c["type"] for c in found] == ["start-step", "text-start", "text-delta", "text-end"]


@pytest.mark.parametrize("id", ["", "c", "x:c", "1:", ":c"])
def test_an_approval_that_was_never_asked_for_is_none(id: str) -> None:
    assert approval_of(id) is None
    assert approval_of(approval_id(1, "run_1", "c")) == (1, "run_1", "c")


def test_a_denied_call_is_denied_and_no_error() -> None:
    found = chunks(asks("c"), decided("c", DecisionKind.DENIED), ends("c", "denied", True))
    assert found[-1] == {"type": "tool-output-denied", "toolCallId": "c"}


@pytest.mark.parametrize("decision", [DecisionKind.EXPIRED, DecisionKind.WITHDRAWN])
def test_nobody_has_denied_a_call_that_expired_or_was_withdrawn(decision: DecisionKind) -> None:
    result = {"declined": True, str(decision): True}
    end = ends("c", result, False)
    found = chunks(asks("c"), decided("c", decision), end)[-1]
    assert (found["type"], json.loads(found["errorText"])) == ("tool-output-error", result)


def test_an_approved_call_is_not_shown_again_unless_it_was_changed() -> None:
    ui = UiMessage("run_1", "thread_1")
    chunks(asks("c"), ui=ui)
    assert set(ui.view.waiting) == {"c"}
    same = chunks(decided("c", DecisionKind.APPROVED), runs("c", {"amount": 5}), ui=ui)
    assert (same, set(ui.view.waiting), ui.view.running) == ([], set(), {"c"})
    other = UiMessage("run_1", "thread_1")
    chunks(asks("c"), ui=other)
    (edited,) = chunks(decided("c", DecisionKind.APPROVED), runs("c", {"amount": 4}), ui=other)
    assert edited["input"] == {"amount": 4}


def test_a_failed_call_says_why() -> None:
    assert chunks(ends("c", "boom", True))[-1]["errorText"] == "boom"
    assert chunks(ends("c", {"a": 1}, True))[-1]["errorText"] == '{"a":1}'


def test_an_approval_that_its_tool_describes_says_so_before_the_request() -> None:
    described = asks("c").model_copy(update={"summary": "Pay 5 euros", "risk": Risk.HIGH})
    *_, data, request = chunks(described)
    assert request["type"] == "tool-approval-request"
    assert (data["type"], data["data"]["kind"]) == ("data-layover-pending", "approval")
    assert (data["data"]["summary"], data["data"]["risk"]) == ("Pay 5 euros", "high")
    assert "data-layover-pending" not in [c["type"] for c in chunks(asks("c"))]


def test_a_call_that_waits_for_data_is_a_part_for_the_application() -> None:
    found = chunks(asks("c", SuspensionKind.INPUT))[-1]
    assert (found["type"], found["id"]) == ("data-layover-pending", "c")
    assert found["data"]["tool_call_id"] == "c"
    assert found["data"]["run_id"] == "run_1"
    assert "seq" not in found["data"]


def test_what_an_application_was_told_of_a_call_is_settled_once_it_is_decided() -> None:
    """The part of the same id takes its place: a page that keeps the message shows the form no more."""
    ui = UiMessage("run_1", "thread_1")
    *_, asked = chunks(asks("c", SuspensionKind.INPUT), ui=ui)
    (settled,) = chunks(decided("c", DecisionKind.RESUMED), ui=ui)
    assert settled == {**asked, "data": {**asked["data"], "decision": "resumed"}}
    # It asks again.
    *_, again = chunks(asks("c", SuspensionKind.INPUT), ui=ui)
    assert again == asked
    # A request for an approval that came without such a part is left as it is.
    plain = UiMessage("run_1", "thread_1")
    assert types(chunks(asks("c"), ui=plain))[-1] == "tool-approval-request"
    assert chunks(decided("c", DecisionKind.DENIED), ui=plain) == []


def test_an_approval_after_an_answered_form_takes_the_place_of_the_forms_part() -> None:
    """A page would otherwise go on showing that the call is decided."""
    ui = UiMessage("run_1", "thread_1")
    answered = [asks("c", SuspensionKind.INPUT), decided("c", DecisionKind.RESUMED)]
    chunks(*answered, ui=ui)
    *_, data, request = chunks(asks("c", attempt=2), ui=ui)
    assert request["approvalId"] == "2:run_1:c"
    assert (data["type"], data["id"], data["data"]["attempt"]) == ("data-layover-pending", "c", 2)
    assert "decision" not in data["data"]


def test_an_approval_comes_with_what_was_denied_before() -> None:
    at = AT["at"]
    denial = Denial(args={"amount": 9}, reason="too much", decided_by="bea", at=at)
    event = asks("c").model_copy(update={"denied_before": (denial,)})
    *_, before, request = chunks(event)
    assert request["type"] == "tool-approval-request"
    assert (before["type"], before["id"]) == ("data-layover-pending", "c")
    [shown] = before["data"]["denied_before"]
    assert (before["data"]["tool_call_id"], shown) == ("c", denial.model_dump(mode="json"))
    none_before = chunks(asks("c"))
    assert "data-layover-pending" not in [chunk["type"] for chunk in none_before]


def test_what_a_tool_emits_and_files_are_parts() -> None:
    data = DataEvent(tool_call_id="c", data={"n": 1}, **AT)
    file = message(FilePart(file_id="file_1", name="a.png", mime_type="image/png"))
    emitted, sent = chunks(data, MessageEvent(message=file, **AT))
    assert emitted == {"type": "data-layover-emit", "data": {"tool_call_id": "c", "data": {"n": 1}}}
    assert sent == {"type": "file", "url": "/files/file_1", "mediaType": "image/png"}


def test_a_step_that_begins_again_closes_what_it_had_said() -> None:
    found = chunks(start(), text("Hel"), start(), text("Hello"))
    assert types(found) == [
        *("start-step", "text-start", "text-delta", "text-end", "finish-step"),
        *("start-step", "text-start", "text-delta"),
    ]
    assert found[1]["id"] != found[6]["id"]


def test_a_failed_run_says_why_and_a_cancelled_one_aborts() -> None:
    error = ErrorEvent(error=ErrorInfo(type="ModelError", message="no"), **AT)
    assert types(chunks(start(), error, finish(Status.FAILED))) == [
        *("start-step", "error", "finish-step", "finish")
    ]
    assert types(chunks(finish(Status.CANCELLED))) == ["abort", "finish"]


def test_sub_agents_show_what_waits_and_nothing_else() -> None:
    ui = UiMessage("run_1", "thread_1")
    path: Any = {"agent_path": ("support", "payer")}
    said = TextDelta(step=1, text="x", **path, **AT)
    other = ToolExecutionStart(tool_call_id="i", tool_name="n", args={}, **path, **AT)
    assert chunks(said, other, ui=ui) == []
    waiting = asks("c").model_copy(update=path)
    assert types(chunks(waiting, ui=ui))[-1] == "tool-approval-request"
    done = ends("c", 1).model_copy(update=path)
    assert types(chunks(done, ui=ui)) == ["tool-output-available"]


def test_an_answer_that_waits_ends_for_now() -> None:
    ui = UiMessage("run_1", "thread_1")
    chunks(start(), asks("c"), ui=ui)
    assert types(list(ui.rest())) == ["finish-step", "finish"]

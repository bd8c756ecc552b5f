"""AG-UI (protocol 1.0): a run's events as events of the client's run.

A run that waits for a person ends the client's run with interrupts, and goes on in its next one. Sub-agents
work behind the call of their parent; of them only waiting calls and their outcomes are changes."""

from collections.abc import Iterable, Iterator, Sequence
from functools import singledispatchmethod
from typing import Any

from layover.plugins.fronts.protocols import changes
from layover.plugins.fronts.protocols.changes import Change, is_in_answer
from layover.plugins.fronts.protocols.run_view import RunView
from layover.plugins.fronts.protocols.ui_messages import approval_id
from layover.values.base import compact_json
from layover.values.runs.event import LoggedEvent
from layover.values.runs.run import Status

AgUiEvent = dict[str, Any]
UNREAD = "layover-passed-over"
"""Name of the `CUSTOM` event for what the client's request had and nothing reads; its value: the names."""
UNKNOWN = "layover-event"
"""Name of the `CUSTOM` event for an event that this version does not know: its value is the event, as
`/events` has it."""
_NAMES = {
    "text": ("TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "assistant"),
    "reasoning": (
        "REASONING_MESSAGE_START",
        "REASONING_MESSAGE_CONTENT",
        "REASONING_MESSAGE_END",
        "reasoning",
    ),
}

PASSED_OVER: dict[type[Change], str] = {
    changes.RunBegan: "`RUN_STARTED` has said so",
    changes.CallAnnounced: "a call is shown once it is asked for or runs, with its whole arguments",
    changes.CallArgsGrew: "a call is shown once it is asked for or runs, with its whole arguments",
    changes.CallChanged: "a client's events cannot change the arguments of a call",
    changes.CallRan: "it was shown, and has no result: so it runs",
    changes.CallSuspended: "the answer's end has the interrupts",
    changes.CallDecided: "the client made the decision, or sees it by the call's result",
    changes.VoteCast: "the protocol knows one answer to an interrupt",
    changes.WaitChanged: "the interrupt at the answer's end has the expiry",
    changes.HookAnswered: "the call's arguments and result are what the hook made of them",
    changes.ModelSpared: "the reply is a text like any other, and the end has the reason",
    changes.FileShown: "the protocol has no files of an agent",
    changes.OutputGrew: "the text of the output is streamed, and the end has the output",
    changes.ModelChanged: "the protocol has no models",
    changes.ModelAskedAgain: "the protocol has no models",
    changes.ModelAwaited: "the protocol has no models",
    changes.RunGoesOn: "who follows it has not read that it failed",
    changes.ToolsRefused: "the protocol has no models",
    changes.LoopEnded: "the end has the reason",
    changes.AgentChanged: "the conversation goes on at the same address",
    changes.AgentRedefined: "a matter of operators",
    changes.ResponseTold: "the client has these messages",
}
"""Changes that the client is not told, and why."""


class AgUiRun:
    """One run of a client's. `events` takes the events of Layover's run from the first on, each once.
    `view` is what they amount to.

    Args:
        thread_id: The client's id of the thread.
        run_id: The client's id of the run.
        source: Layover's own id of the run.
        passed_over: Names of what the client's request had and nothing reads.
    """

    def __init__(
        self, thread_id: str, run_id: str, source: str, passed_over: Sequence[str] = ()
    ) -> None:
        self.thread_id = thread_id
        self.run_id = run_id
        self.source = source
        self.passed_over = passed_over
        self.view = RunView(source)

    def begin(self) -> Iterator[AgUiEvent]:
        """Return the first events of every answer."""
        yield {"type": "RUN_STARTED", **self._ids, "metadata": {"layover_run_id": self.source}}
        if self.passed_over:
            yield _custom(UNREAD, list(self.passed_over))

    def go_on(self) -> Iterator[AgUiEvent]:
        """Return the first events of an answer that resumes in the middle of a step."""
        step = self.view.own.step
        if step is not None:
            yield {"type": "STEP_STARTED", "stepName": f"step {step}"}

    def rest(self) -> Iterator[AgUiEvent]:
        """Return the end of an answer whose run waits for a person."""
        yield from self._encode(self.view.end_step())
        calls = sorted(self.view.waiting.items())
        interrupts = [self._interrupt(call.pending) for _, call in calls]
        outcome = {"type": "interrupt", "interrupts": interrupts}
        yield {"type": "RUN_FINISHED", **self._ids, "outcome": outcome}

    def break_off(self, message: str) -> Iterator[AgUiEvent]:
        """Return the end of an incomplete answer."""
        yield from self._encode(self.view.end_step())
        yield {"type": "RUN_ERROR", "message": message, "code": "stream-ended"}

    def events(self, event: LoggedEvent) -> list[AgUiEvent]:
        """Return the AG-UI events for an event."""
        return self._encode(self.view.apply(event))

    @property
    def _ids(self) -> dict[str, str]:
        return {"threadId": self.thread_id, "runId": self.run_id}

    def _encode(self, news: Iterable[Change]) -> list[AgUiEvent]:
        events: list[AgUiEvent] = []
        for change in news:
            if change.frame.is_own or is_in_answer(change):
                events += self.events_of(change)
        return events

    @singledispatchmethod
    def events_of(self, change: Change) -> Iterable[AgUiEvent]:
        """Return the events of a change; none of one in `PASSED_OVER`."""
        return ()

    @events_of.register
    def _begin_step(self, change: changes.StepBegan) -> Iterable[AgUiEvent]:
        return ({"type": "STEP_STARTED", "stepName": f"step {change.step}"},)

    @events_of.register
    def _end_step(self, change: changes.StepEnded | changes.StepVoided) -> Iterable[AgUiEvent]:
        return ({"type": "STEP_FINISHED", "stepName": f"step {change.step}"},)

    @events_of.register
    def _begin_text(self, change: changes.TextBegan) -> Iterable[AgUiEvent]:
        start, _, _, role = _NAMES[change.block.kind]
        return ({"type": start, "messageId": change.block.id, "role": role},)

    @events_of.register
    def _grow_text(self, change: changes.TextGrew) -> Iterable[AgUiEvent]:
        _, block, piece = change
        # The protocol allows no empty piece.
        if not piece:
            return ()
        return ({"type": _NAMES[block.kind][1], "messageId": block.id, "delta": piece},)

    @events_of.register
    def _end_text(self, change: changes.TextEnded) -> Iterable[AgUiEvent]:
        return ({"type": _NAMES[change.block.kind][2], "messageId": change.block.id},)

    @events_of.register
    def _data(self, change: changes.DataShown) -> Iterable[AgUiEvent]:
        return (_custom(change.part.name, change.part.data),)

    @events_of.register
    def _show_call(self, change: changes.CallShown) -> Iterator[AgUiEvent]:
        call = change.call
        yield {"type": "TOOL_CALL_START", "toolCallId": call.id, "toolCallName": call.name}
        text = call.args if isinstance(call.args, str) else compact_json(call.args)
        yield {"type": "TOOL_CALL_ARGS", "toolCallId": call.id, "delta": text}
        yield {"type": "TOOL_CALL_END", "toolCallId": call.id}

    @events_of.register
    def _emitted(self, change: changes.DataEmitted) -> Iterable[AgUiEvent]:
        value = {"tool_call_id": change.tool_call_id, "data": change.data}
        return (_custom("layover-emit", value),)

    @events_of.register
    def _result(self, change: changes.CallSettled) -> Iterator[AgUiEvent]:
        call = change.call
        yield {
            "type": "TOOL_CALL_RESULT",
            "messageId": f"{self.source}-{call.id}",
            "toolCallId": call.id,
            "content": call.result if isinstance(call.result, str) else compact_json(call.result),
            "role": "tool",
        }

    def _interrupt(self, event: Any) -> AgUiEvent:
        pending = event.model_dump(mode="json", exclude={"seq", "run_id", "at", "type"})
        interrupt = {
            "id": approval_id(event.attempt, self.source, event.tool_call_id),
            "reason": str(event.kind),
            "message": event.summary or f"{event.tool_name} waits for a person",
            "toolCallId": event.tool_call_id,
            "responseSchema": event.resume_schema,
            "metadata": {"pending": pending, "layover_run_id": self.source},
        }
        return interrupt | ({"expiresAt": pending["expires_at"]} if event.expires_at else {})

    @events_of.register
    def _fail(self, change: changes.ErrorTold) -> Iterator[AgUiEvent]:
        # The client takes no event after the error.
        yield from self._encode(self.view.end_step())
        error = change.error
        yield {"type": "RUN_ERROR", "message": error.message, "code": error.type}

    @events_of.register
    def _end(self, change: changes.RunEnded) -> Iterator[AgUiEvent]:
        """Return the end of the run. A failed run has already ended with its error."""
        event = change.event
        if event.status is Status.FAILED:
            return
        kind = "cancelled" if event.status is Status.CANCELLED else "success"
        end = {"type": "RUN_FINISHED", **self._ids, "outcome": {"type": kind}}
        yield end | ({"result": event.output} if event.output is not None else {})

    @events_of.register
    def _unknown(self, change: changes.Unknown) -> Iterable[AgUiEvent]:
        return (_custom(UNKNOWN, change.event.model_dump(mode="json")),)


def state_snapshot(state: Any) -> AgUiEvent:
    """Return the thread's working memory and plan."""
    return {"type": "STATE_SNAPSHOT", "snapshot": state}


def _custom(name: str, value: Any) -> AgUiEvent:
    return {"type": "CUSTOM", "name": name, "value": value}

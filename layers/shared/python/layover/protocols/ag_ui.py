"""AG-UI (protocol 1.0): a run's events as events of the run that a client gave an id to.

A run that waits for a person ends the client's run with interrupts, and goes on in its next one."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from layover.protocols.ui_messages import approval_id
from layover.values.base import compact_json
from layover.values.message import DataPart, Message, ReasoningPart, Role, TextPart
from layover.values.runs.event import Event

AgUiEvent = dict[str, Any]
_NAMES = {
    "text": ("TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "assistant"),
    "reasoning": (
        *("REASONING_MESSAGE_START", "REASONING_MESSAGE_CONTENT", "REASONING_MESSAGE_END"),
        "reasoning",
    ),
}


@dataclass
class AgUiRun:
    """One run of a client's. `events` takes the events of Layover's run from the first on, each once."""

    thread_id: str
    """The client's id of the thread."""
    run_id: str
    """The client's id of the run."""
    source: str
    """Layover's own id of the run."""
    waiting: set[str] = field(default_factory=set)
    running: set[str] = field(default_factory=set)
    _interrupts: dict[str, AgUiEvent] = field(default_factory=dict)
    """Interrupts by call."""
    _call_args: dict[str, Any] = field(default_factory=dict)
    """Arguments of the calls that were shown."""
    _open: tuple[str, str] | None = None
    _texts: int = 0
    _step: int | None = None
    _streamed_kinds: set[str] = field(default_factory=set)

    def begin(self) -> Iterator[AgUiEvent]:
        """Return the first events of every answer."""
        yield {"type": "RUN_STARTED", **self._ids, "metadata": {"layover_run_id": self.source}}

    def go_on(self) -> Iterator[AgUiEvent]:
        """Return the first events of an answer that goes on in the middle of a step."""
        if self._step is not None:
            yield {"type": "STEP_STARTED", "stepName": f"step {self._step}"}

    def rest(self) -> Iterator[AgUiEvent]:
        """Return the end of an answer whose run waits for a person."""
        yield from self._end_step()
        interrupts = [self._interrupts[call] for call in sorted(self.waiting)]
        outcome = {"type": "interrupt", "interrupts": interrupts}
        yield {"type": "RUN_FINISHED", **self._ids, "outcome": outcome}

    def break_off(self, message: str) -> Iterator[AgUiEvent]:
        """Return the end of an answer that the rest of is missing."""
        yield from self._end_step()
        yield {"type": "RUN_ERROR", "message": message, "code": "stream-ended"}

    def events(self, event: Event) -> Iterator[AgUiEvent]:
        """Return an event as AG-UI's. Of sub-agents only waiting calls and their outcomes are shown."""
        if event.agent_path and event.type != "tool-call-suspended":
            if getattr(event, "tool_call_id", None) in self._interrupts:
                yield from self._of_call(event)
            return
        match event.type:
            case "turn-start":
                yield from self._end_step()
                self._step = event.step
                self._streamed_kinds.clear()
                yield {"type": "STEP_STARTED", "stepName": f"step {event.step}"}
            case "text-delta":
                yield from self._write("text", event.text)
            case "reasoning-delta":
                yield from self._write("reasoning", event.text)
            case "message":
                yield from self._message(event.message)
            case "turn-end":
                yield from self._end_step()
            case "data":
                value = {"tool_call_id": event.tool_call_id, "data": event.data}
                yield {"type": "CUSTOM", "name": "layover-emit", "value": value}
            case "finish":
                yield from self._finish(event)
            case "error":
                yield from self._end_step()
                error = event.error
                yield {"type": "RUN_ERROR", "message": error.message, "code": error.type}
            case _:
                yield from self._of_call(event)

    @property
    def _ids(self) -> dict[str, str]:
        return {"threadId": self.thread_id, "runId": self.run_id}

    def _of_call(self, event: Event) -> Iterator[AgUiEvent]:
        match event.type:
            case "tool-execution-start":
                self.running.add(event.tool_call_id)
                yield from self._show(event.tool_call_id, event.tool_name, event.args)
            case "tool-execution-end":
                self.running.discard(event.tool_call_id)
                self.waiting.discard(event.tool_call_id)
                yield from self._show(event.tool_call_id, event.tool_name, {})
                result = event.result
                yield {
                    "type": "TOOL_CALL_RESULT",
                    "messageId": f"{self.source}-{event.tool_call_id}",
                    "toolCallId": event.tool_call_id,
                    "content": result if isinstance(result, str) else compact_json(result),
                    "role": "tool",
                }
            case "tool-call-suspended":
                self.running.discard(event.tool_call_id)
                self.waiting.add(event.tool_call_id)
                yield from self._show(event.tool_call_id, event.tool_name, event.args)
                self._interrupts[event.tool_call_id] = self._interrupt(event)
            case "tool-call-decided":
                self.waiting.discard(event.tool_call_id)

    def _interrupt(self, event: Any) -> AgUiEvent:
        pending = event.model_dump(mode="json", exclude={"seq", "run_id", "at", "type"})
        interrupt = {
            "id": approval_id(event.attempt, event.tool_call_id),
            "reason": str(event.kind),
            "message": f"{event.tool_name} waits for a person",
            "toolCallId": event.tool_call_id,
            "responseSchema": event.resume_schema,
            "metadata": {"pending": pending, "layover_run_id": self.source},
        }
        return interrupt | ({"expiresAt": pending["expires_at"]} if event.expires_at else {})

    def _show(self, call_id: str, name: str, args: Any) -> Iterator[AgUiEvent]:
        """Show a call, once: a client's events cannot change its arguments."""
        if call_id in self._call_args:
            return
        self._call_args[call_id] = args
        yield from self._close()
        yield {"type": "TOOL_CALL_START", "toolCallId": call_id, "toolCallName": name}
        text = args if isinstance(args, str) else compact_json(args)
        yield {"type": "TOOL_CALL_ARGS", "toolCallId": call_id, "delta": text}
        yield {"type": "TOOL_CALL_END", "toolCallId": call_id}

    def _write(self, kind: str, text: str) -> Iterator[AgUiEvent]:
        self._streamed_kinds.add(kind)
        if not text:
            return
        start, content, _, role = _NAMES[kind]
        if self._open is None or self._open[0] != kind:
            yield from self._close()
            self._texts += 1
            self._open = (kind, f"{self.source}-{self._texts}")
            yield {"type": start, "messageId": self._open[1], "role": role}
        yield {"type": content, "messageId": self._open[1], "delta": text}

    def _close(self) -> Iterator[AgUiEvent]:
        if self._open is not None:
            kind, id = self._open
            self._open = None
            yield {"type": _NAMES[kind][2], "messageId": id}

    def _end_step(self) -> Iterator[AgUiEvent]:
        yield from self._close()
        if self._step is not None:
            yield {"type": "STEP_FINISHED", "stepName": f"step {self._step}"}
            self._step = None

    def _message(self, message: Message) -> Iterator[AgUiEvent]:
        """Return the parts that did not come in pieces before."""
        for part in message.content:
            match part:
                case ReasoningPart() if "reasoning" not in self._streamed_kinds:
                    yield from self._write("reasoning", part.text)
                case TextPart() if (
                    message.role is Role.ASSISTANT and "text" not in self._streamed_kinds
                ):
                    yield from self._write("text", part.text)
                case DataPart():
                    yield {"type": "CUSTOM", "name": part.name, "value": part.data}
        yield from self._close()

    def _finish(self, event: Any) -> Iterator[AgUiEvent]:
        """Return the end of the run. A failed run has ended with its error already."""
        yield from self._end_step()
        if event.status == "failed":
            return
        kind = "cancelled" if event.status == "cancelled" else "success"
        end = {"type": "RUN_FINISHED", **self._ids, "outcome": {"type": kind}}
        yield end | ({"result": event.output} if event.output is not None else {})


def state_snapshot(state: Any) -> AgUiEvent:
    """Return the thread's working memory and plan."""
    return {"type": "STATE_SNAPSHOT", "snapshot": state}

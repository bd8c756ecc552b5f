"""The AI SDK's UI message stream (protocol v1, `ai` 6): a run's events as chunks of one assistant message.

The message's id is the run's, even if the run waited in between. Sub-agents work behind the call of their
parent; of them only waiting calls are shown."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from layover.values.base import compact_json
from layover.values.message import DataPart, FilePart, Message, ReasoningPart, Role, TextPart
from layover.values.runs.event import Event
from layover.values.runs.run import DecisionKind, SuspensionKind

HEADERS = {"x-vercel-ai-ui-message-stream": "v1"}
DONE = "[DONE]"
PENDING = "data-layover-pending"
"""A call that waits for data: the data is a Pending, answered by `POST .../resume`."""
EMITTED = "data-layover-emit"
"""Data that a tool emitted: `{tool_call_id, data}`."""
_FINISH_REASONS = frozenset({"stop", "length", "content-filter", "error"})

Chunk = dict[str, Any]


@dataclass
class _ToolCall:
    """A call as far as the client knows it."""

    name: str = ""
    text: str = ""
    """Its arguments as they arrived in pieces."""
    is_announced: bool = False
    """True once its input has begun."""
    args: Any = None
    is_shown: bool = False
    """True once its input is whole."""


def approval_id(attempt: int, tool_call_id: str) -> str:
    """Return the id under which a client answers for one attempt of a call."""
    return f"{attempt}:{tool_call_id}"


def approval_of(id: str) -> tuple[int, str] | None:
    """Invert `approval_id`; None for anything else."""
    attempt, _, tool_call_id = id.partition(":")
    return (int(attempt), tool_call_id) if attempt.isdecimal() and tool_call_id else None


@dataclass
class UiMessage:
    """One assistant message. `chunks` takes the run's events from the first on, each once."""

    run_id: str
    thread_id: str
    waiting: set[str] = field(default_factory=set)
    """Calls that wait undecided."""
    running: set[str] = field(default_factory=set)
    """Calls that run."""
    _calls: dict[str, _ToolCall] = field(default_factory=dict)
    _denied_calls: set[str] = field(default_factory=set)
    _open: tuple[str, str] | None = None
    """Kind and id of the text that is being written."""
    _texts: int = 0
    _in_step: bool = False
    _streamed_kinds: set[str] = field(default_factory=set)
    """Kinds that the current step has sent in pieces: `text`, `reasoning`."""
    _first_call: str | None = None
    """The first call of the step, the only one whose arguments are shown as they arrive. Others may wait for
    their turn."""

    def begin(self) -> Chunk:
        """Return the first chunk of every answer."""
        metadata = {"run_id": self.run_id, "thread_id": self.thread_id}
        return {"type": "start", "messageId": self.run_id, "messageMetadata": metadata}

    def rest(self) -> Iterator[Chunk]:
        """Return the end of an answer whose run waits for a person."""
        yield from self._close()
        if self._in_step:
            yield {"type": "finish-step"}
        yield {"type": "finish", "finishReason": "tool-calls"}

    def break_off(self, message: str) -> Iterator[Chunk]:
        """Return the end of an answer that the rest of is missing."""
        yield from self._close()
        yield {"type": "error", "errorText": message}

    def chunks(self, event: Event) -> Iterator[Chunk]:
        """Return the chunks that the event adds to the message."""
        if event.agent_path and event.type != "tool-call-suspended":
            yield from self._of_sub_agent(event)
            return
        match event.type:
            case "turn-start":
                yield from self._begin_step()
            case "text-delta":
                yield from self._write("text", event.text)
            case "reasoning-delta":
                yield from self._write("reasoning", event.text)
            case "tool-call-delta":
                yield from self._stream_args(event.tool_call_id, event.tool_name, event.args_delta)
            case "message":
                yield from self._message(event.message)
            case "turn-end":
                yield from self._close()
                self._in_step = False
                yield {"type": "finish-step"}
            case "data":
                data = {"tool_call_id": event.tool_call_id, "data": event.data}
                yield {"type": EMITTED, "data": data}
            case "error":
                yield {"type": "error", "errorText": event.error.message}
            case "finish":
                yield from self._finish(event)
            case _:
                yield from self._of_call(event)

    def _of_call(self, event: Event) -> Iterator[Chunk]:
        match event.type:
            case "tool-execution-start":
                self.running.add(event.tool_call_id)
                yield from self._show(event.tool_call_id, event.tool_name, event.args)
            case "tool-execution-end":
                self.running.discard(event.tool_call_id)
                self.waiting.discard(event.tool_call_id)
                yield from self._show(event.tool_call_id, event.tool_name, None)
                yield self._output(event.tool_call_id, event.result, event.is_error)
            case "tool-call-suspended":
                self.running.discard(event.tool_call_id)
                self.waiting.add(event.tool_call_id)
                yield from self._show(event.tool_call_id, event.tool_name, event.args)
                yield self._ask(event)
            case "tool-call-decided":
                self.waiting.discard(event.tool_call_id)
                if event.decision in (DecisionKind.DENIED, DecisionKind.EXPIRED):
                    self._denied_calls.add(event.tool_call_id)

    def _of_sub_agent(self, event: Event) -> Iterator[Chunk]:
        """Return the chunks of a sub-agent's call: once a call was shown because it waits, its further events
        are, too."""
        call_id = getattr(event, "tool_call_id", None)
        if call_id in self._calls and self._calls[call_id].is_shown:
            yield from self._of_call(event)

    def _begin_step(self) -> Iterator[Chunk]:
        """Return the chunks of a step that begins again. Its earlier text stays: the protocol takes nothing
        back."""
        yield from self._close()
        if self._in_step:
            yield {"type": "finish-step"}
        self._in_step, self._first_call = True, None
        self._streamed_kinds.clear()
        yield {"type": "start-step"}

    def _write(self, kind: str, text: str) -> Iterator[Chunk]:
        self._streamed_kinds.add(kind)
        if self._open is None or self._open[0] != kind:
            yield from self._close()
            self._texts += 1
            self._open = (kind, f"{self.run_id}-{self._texts}")
            yield {"type": f"{kind}-start", "id": self._open[1]}
        yield {"type": f"{kind}-delta", "id": self._open[1], "delta": text}

    def _close(self) -> Iterator[Chunk]:
        if self._open is not None:
            kind, id = self._open
            self._open = None
            yield {"type": f"{kind}-end", "id": id}

    def _stream_args(self, call_id: str, name: str, piece: str) -> Iterator[Chunk]:
        yield from self._close()
        call = self._calls.setdefault(call_id, _ToolCall())
        call.name = name or call.name
        call.text += piece
        self._first_call = self._first_call or call_id
        if self._first_call != call_id:
            return
        if not call.is_announced:
            call.is_announced = True
            yield {"type": "tool-input-start", "toolCallId": call_id, "toolName": call.name}
        if piece:
            yield {"type": "tool-input-delta", "toolCallId": call_id, "inputTextDelta": piece}

    def _show(self, call_id: str, name: str, args: Any) -> Iterator[Chunk]:
        """Show the whole input, once; and again if a person has changed it."""
        call = self._calls.setdefault(call_id, _ToolCall())
        if call.is_shown and (args is None or args == call.args):
            return
        if args is None:
            args = call.args
        yield from self._close()
        if not call.is_announced:
            yield {"type": "tool-input-start", "toolCallId": call_id, "toolName": name}
            if call.text:
                yield {
                    "type": "tool-input-delta",
                    "toolCallId": call_id,
                    "inputTextDelta": call.text,
                }
        call.name, call.args, call.is_announced, call.is_shown = name, args, True, True
        input = {"toolCallId": call_id, "toolName": name, "input": args}
        yield {"type": "tool-input-available", **input}

    def _ask(self, event: Any) -> Chunk:
        call_id = event.tool_call_id
        if event.kind is SuspensionKind.APPROVAL:
            id = approval_id(event.attempt, call_id)
            return {"type": "tool-approval-request", "approvalId": id, "toolCallId": call_id}
        pending = event.model_dump(mode="json", exclude={"seq", "run_id", "at", "type"})
        return {"type": PENDING, "id": call_id, "data": {**pending, "run_id": self.run_id}}

    def _output(self, call_id: str, result: Any, is_error: bool) -> Chunk:
        about = {"toolCallId": call_id}
        if call_id in self._denied_calls:
            return {"type": "tool-output-denied", **about}
        if not is_error:
            return {"type": "tool-output-available", **about, "output": result}
        text = result if isinstance(result, str) else compact_json(result)
        return {"type": "tool-output-error", **about, "errorText": text}

    def _message(self, message: Message) -> Iterator[Chunk]:
        """Return the parts that did not come in pieces before; calls are shown when their turn comes."""
        for call in message.tool_calls:
            record = self._calls.setdefault(call.tool_call_id, _ToolCall())
            record.name, record.args = call.tool_name, call.args
        for part in message.content:
            match part:
                case ReasoningPart() if "reasoning" not in self._streamed_kinds and part.text:
                    yield from self._write("reasoning", part.text)
                case TextPart() if (
                    message.role is Role.ASSISTANT and "text" not in self._streamed_kinds
                ):
                    yield from self._write("text", part.text)
                case FilePart():
                    yield from self._file(part)
                case DataPart():
                    yield {"type": f"data-{part.name}", "data": part.data}
        yield from self._close()

    def _file(self, part: FilePart) -> Iterator[Chunk]:
        yield from self._close()
        url = part.url or f"/files/{part.file_id}"
        media_type = part.mime_type or "application/octet-stream"
        yield {"type": "file", "url": url, "mediaType": media_type}

    def _finish(self, event: Any) -> Iterator[Chunk]:
        yield from self._close()
        if self._in_step:
            self._in_step = False
            yield {"type": "finish-step"}
        if event.status == "cancelled":
            yield {"type": "abort", "reason": "the run was cancelled"}
        reason = event.finish_reason if event.finish_reason in _FINISH_REASONS else "other"
        metadata = {
            "status": event.status,
            "model": event.model,
            "usage": event.usage.model_dump(mode="json"),
        }
        yield {"type": "finish", "finishReason": str(reason), "messageMetadata": metadata}

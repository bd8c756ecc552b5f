"""The AI SDK's UI message stream (protocol v1, `ai` 6): a run's events as chunks of one assistant message.

The message has the run's id, even if the run waited in between. What the run says behind others' messages is
a separate message (`answer_id`). Sub-agents work behind the call of their parent; of them only waiting
calls are changes."""

from collections.abc import Iterable, Iterator, Sequence
from functools import singledispatchmethod
from typing import Any, NamedTuple

from layover.plugins.fronts.protocols import changes
from layover.plugins.fronts.protocols.changes import CallView, Change, is_in_answer
from layover.plugins.fronts.protocols.run_view import RunView
from layover.values.base import compact_json
from layover.values.decision import DECLINES, DecisionKind
from layover.values.runs.event import LoggedEvent, ToolCallDecided, TurnStart
from layover.values.runs.run import Status, SuspensionKind

HEADERS = {"x-vercel-ai-ui-message-stream": "v1"}
DONE = "[DONE]"
PENDING = "data-layover-pending"
"""A call that waits: the data is a Pending. One that waits for data is answered by `POST .../resume`. Before
an approval, it says what the protocol's own request has no room for. Once the call is decided, the same part
has `decision` as well, so that a page shows its form no more."""
EMITTED = "data-layover-emit"
"""Data that a tool emitted: `{tool_call_id, data}`."""
PASSED_OVER_DATA = "data-layover-passed-over"
"""Names of what the request had and nothing reads."""
UNKNOWN = "data-layover-event"
"""An event that this version does not know: the data is the event, as `/events` has it."""
_RUN = "run_"
_ANSWERS = frozenset({DecisionKind.APPROVED, DecisionKind.DENIED})
"""The answers of persons to a request for an approval: an expiry is nobody's."""
_FINISH_REASONS = frozenset({"stop", "length", "content-filter", "error"})
_TRANSLATED = {"refused": "content-filter"}
"""Reasons that the protocol has under another name."""

Chunk = dict[str, Any]

PASSED_OVER: dict[type[Change], str] = {
    changes.RunBegan: "`start` has said so",
    changes.CallRan: "its input is there, and no output: so it runs",
    changes.VoteCast: "the protocol knows one answer to an approval",
    changes.WaitChanged: "the request for an approval stays as it is",
    changes.HookAnswered: "the call's input and output are what the hook made of them",
    changes.ModelSpared: "the reply is a text like any other, and the end says why it ends",
    changes.OutputGrew: "the text of the output is streamed, and the client parses it",
    changes.ModelChanged: "the end names the model",
    changes.ModelAskedAgain: "the answer is not over: the client goes on waiting",
    changes.ModelAwaited: "the answer is not over: the client goes on waiting",
    changes.RunGoesOn: "who follows it has not read that it failed",
    changes.ToolsRefused: "a matter of authors",
    changes.LoopEnded: "the end says why it ends",
    changes.AgentChanged: "the conversation goes on at the same address",
    changes.AgentRedefined: "a matter of operators",
    changes.ResponseTold: "the message has these parts",
}
"""Changes that the message does not show, and why."""


def passed_over_chunks(names: Sequence[str]) -> list[Chunk]:
    """Return what of a request nothing reads, for the page's `onData`: it is not part of the message."""
    data = {"type": PASSED_OVER_DATA, "data": list(names), "transient": True}
    return [data] if names else []


class Approval(NamedTuple):
    """One attempt of a call that waits."""

    attempt: int
    run_id: str
    tool_call_id: str


def approval_id(attempt: int, run_id: str, tool_call_id: str) -> str:
    """Return the id under which a client answers for one attempt of a call. It names the run: several runs of
    a chat may wait, and some providers give the calls of each run the same ids."""
    return f"{attempt}:{run_id}:{tool_call_id}"


def approval_of(id: str) -> Approval | None:
    """Invert `approval_id`; None for anything else."""
    attempt, _, rest = id.partition(":")
    run_id, _, tool_call_id = rest.partition(":")
    if not attempt.isdecimal() or not run_id.startswith(_RUN) or not tool_call_id:
        return None
    return Approval(int(attempt), run_id, tool_call_id)


def answer_id(run_id: str, step: int) -> str:
    """Return the id of the part of a run's answer that begins with this step: the first has the run's id."""
    return run_id if step <= 1 else f"{run_id}.{step}"


def run_of_answer(id: str) -> tuple[str, int]:
    """Invert `answer_id`. Any other id is returned as it is, with step 1."""
    run_id, _, step = id.rpartition(".")
    is_later = run_id.startswith(_RUN) and step.isascii() and step.isdecimal() and len(step) < 10
    return (run_id, int(step)) if is_later else (id, 1)


class UiMessage:
    """One assistant message. `chunks` takes the run's events from the first on, each once.
    `view` is what they amount to.

    Args:
        run_id: The run.
        thread_id: Its thread.
        step: The step with which the message begins. Of the events before it, nothing is shown.
        id: The message's id, if a client has it under another than `answer_id`.
    """

    def __init__(self, run_id: str, thread_id: str, step: int = 1, id: str | None = None) -> None:
        self.run_id = run_id
        self.thread_id = thread_id
        self.id = id or answer_id(run_id, step)
        self.view = RunView(run_id)
        self._pending: dict[str, Chunk] = {}
        """Data that the message has of calls that wait, by the call's id."""
        self.approvals: dict[str, dict[str, Any]] = {}
        """The `approval` of a call's part, by the call's id: what was asked for and, if a person has
        answered, what they said."""
        self.first_step = step
        """The step with which the message begins."""
        self._has_begun = step <= 1
        self._calls: set[str] | None = None if step <= 1 else set()
        """The calls of this message; None: all calls of the run are."""

    def begin(self) -> Chunk:
        """Return the first chunk of every answer."""
        metadata = {"run_id": self.run_id, "thread_id": self.thread_id}
        return {"type": "start", "messageId": self.id, "messageMetadata": metadata}

    def go_on_as(self, step: int) -> Chunk:
        """Begin another message, with the step whose events come next. Return its first chunk."""
        self.id, self.first_step = answer_id(self.run_id, step), step
        self._has_begun, self._calls = False, set()
        return self.begin()

    def rest(self) -> Iterator[Chunk]:
        """Return the end of an answer whose run waits for a person."""
        yield from self._encode(self.view.end_step())
        yield {"type": "finish", "finishReason": "tool-calls"}

    def break_off(self, message: str) -> Iterator[Chunk]:
        """Return the end of an incomplete answer."""
        yield from self._encode(self.view.end_text())
        yield {"type": "error", "errorText": message}

    def chunks(self, event: LoggedEvent) -> list[Chunk]:
        """Return the chunks that the event adds to the message."""
        chunks = self._encode(self.view.apply(event))
        return chunks if self._calls is None else self._own(self._calls, event, chunks)

    def _own(self, calls: set[str], event: LoggedEvent, chunks: list[Chunk]) -> list[Chunk]:
        """Return those of the chunks that belong to this message, not to one before it."""
        if not self._has_begun:
            if not isinstance(event, TurnStart) or event.agent_path:
                return []
            if event.step < self.first_step:
                return []
            self._has_begun = True
            # Before it comes the end of the step before.
            kinds = [chunk["type"] for chunk in chunks]
            chunks = chunks[kinds.index("start-step") :]
        calls |= {c["toolCallId"] for c in chunks if c["type"] == "tool-input-start"}
        return [c for c in chunks if call_of(c) is None or call_of(c) in calls]

    def _encode(self, news: Iterable[Change]) -> list[Chunk]:
        chunks: list[Chunk] = []
        for change in news:
            if change.frame.is_own or is_in_answer(change):
                chunks += self.chunks_of(change)
        return chunks

    @singledispatchmethod
    def chunks_of(self, change: Change) -> Iterable[Chunk]:
        """Return the chunks of a change; none of one in `PASSED_OVER`."""
        return ()

    @chunks_of.register
    def _begin_step(self, change: changes.StepBegan) -> Iterable[Chunk]:
        return ({"type": "start-step"},)

    @chunks_of.register
    def _end_step(self, change: changes.StepEnded | changes.StepVoided) -> Iterable[Chunk]:
        """A step that begins again ends, too. Its earlier text stays: the protocol takes nothing back."""
        return ({"type": "finish-step"},)

    @chunks_of.register
    def _begin_text(self, change: changes.TextBegan) -> Iterable[Chunk]:
        return ({"type": f"{change.block.kind}-start", "id": change.block.id},)

    @chunks_of.register
    def _grow_text(self, change: changes.TextGrew) -> Iterable[Chunk]:
        _, block, piece = change
        return ({"type": f"{block.kind}-delta", "id": block.id, "delta": piece},)

    @chunks_of.register
    def _end_text(self, change: changes.TextEnded) -> Iterable[Chunk]:
        return ({"type": f"{change.block.kind}-end", "id": change.block.id},)

    @chunks_of.register
    def _file(self, change: changes.FileShown) -> Iterable[Chunk]:
        part = change.part
        url = part.url or f"/files/{part.file_id}"
        media_type = part.mime_type or "application/octet-stream"
        return ({"type": "file", "url": url, "mediaType": media_type},)

    @chunks_of.register
    def _data(self, change: changes.DataShown) -> Iterable[Chunk]:
        return ({"type": f"data-{change.part.name}", "data": change.part.data},)

    @chunks_of.register
    def _begin_input(self, change: changes.CallAnnounced) -> Iterable[Chunk]:
        call = change.call
        begins = {"type": "tool-input-start", "toolCallId": call.id, "toolName": call.name}
        return (*self._encode(self.view.end_text()), begins)

    @chunks_of.register
    def _grow_input(self, change: changes.CallArgsGrew) -> Iterable[Chunk]:
        # A message has its parts in a row: the text is complete where an input begins.
        chunks = self._encode(self.view.end_text())
        if change.call.is_announced and change.piece:
            chunks.append(_input_delta(change.call.id, change.piece))
        return chunks

    @chunks_of.register
    def _show_call(self, change: changes.CallShown) -> Iterator[Chunk]:
        call = change.call
        if not call.is_announced:
            yield {"type": "tool-input-start", "toolCallId": call.id, "toolName": call.name}
            if call.draft:
                yield _input_delta(call.id, call.draft)
        yield _input(call)

    @chunks_of.register
    def _change_call(self, change: changes.CallChanged) -> Iterable[Chunk]:
        return (_input(change.call),)

    @chunks_of.register
    def _emitted(self, change: changes.DataEmitted) -> Iterable[Chunk]:
        data = {"tool_call_id": change.tool_call_id, "data": change.data}
        return ({"type": EMITTED, "data": data},)

    @chunks_of.register
    def _ask(self, change: changes.CallSuspended) -> Iterable[Chunk]:
        call_id, event = change.call.id, change.call.pending
        pending = event.model_dump(mode="json", exclude={"seq", "run_id", "at", "type"})
        data = {"type": PENDING, "id": call_id, "data": {**pending, "run_id": self.run_id}}
        if event.kind is not SuspensionKind.APPROVAL:
            self._pending[call_id] = data
            return (data,)
        id = approval_id(event.attempt, self.run_id, call_id)
        self.approvals[call_id] = {"id": id}
        request = {"type": "tool-approval-request", "approvalId": id, "toolCallId": call_id}
        # A page that shows only the call needs no more than the request. A later attempt takes the place of
        # what the page keeps of the one before.
        is_later = event.attempt > 1 or event.asked_again
        says_more = event.summary or event.risk or is_later or event.denied_before
        if not says_more:
            return (request,)
        self._pending[call_id] = data
        return (data, request)

    @chunks_of.register
    def _decide(self, change: changes.CallDecided) -> Iterable[Chunk]:
        self._note_answer(change.call.id, change.event)
        data = self._pending.pop(change.call.id, None)
        if data is None:
            return ()
        return ({**data, "data": {**data["data"], "decision": str(change.event.decision)}},)

    def _note_answer(self, call_id: str, event: ToolCallDecided) -> None:
        approval = self.approvals.pop(call_id, {"id": approval_id(1, self.run_id, call_id)})
        if event.decision in _ANSWERS:
            approved = event.decision == DecisionKind.APPROVED
            reason = {} if event.reason is None else {"reason": event.reason}
            self.approvals[call_id] = {**approval, "approved": approved, **reason}

    @chunks_of.register
    def _output(self, change: changes.CallSettled) -> Iterable[Chunk]:
        call = change.call
        about, result = {"toolCallId": call.id}, call.result
        # The protocol's word for what a person refused. Nobody has refused what expired or was withdrawn.
        if call.decision == DecisionKind.DENIED:
            return ({"type": "tool-output-denied", **about},)
        if not call.is_error and call.decision not in DECLINES:
            return ({"type": "tool-output-available", **about, "output": result},)
        text = result if isinstance(result, str) else compact_json(result)
        return ({"type": "tool-output-error", **about, "errorText": text},)

    @chunks_of.register
    def _fail(self, change: changes.ErrorTold) -> Iterable[Chunk]:
        return ({"type": "error", "errorText": change.error.message},)

    @chunks_of.register
    def _end(self, change: changes.RunEnded) -> Iterator[Chunk]:
        event = change.event
        if event.status is Status.CANCELLED:
            yield {"type": "abort", "reason": "the run was cancelled"}
        reason = _TRANSLATED.get(event.finish_reason, event.finish_reason)
        reason = reason if reason in _FINISH_REASONS else "other"
        metadata = {
            "status": event.status,
            "model": event.model,
            "usage": event.usage.model_dump(mode="json"),
        }
        yield {"type": "finish", "finishReason": str(reason), "messageMetadata": metadata}

    @chunks_of.register
    def _unknown(self, change: changes.Unknown) -> Iterable[Chunk]:
        return ({"type": UNKNOWN, "data": change.event.model_dump(mode="json")},)


def call_of(chunk: Chunk) -> str | None:
    """Return the id of the call that the chunk is about; None: it is about no call."""
    call_id: str | None = chunk.get("id" if chunk["type"] == PENDING else "toolCallId")
    return call_id


def _input(call: CallView) -> Chunk:
    facts = {"toolCallId": call.id, "toolName": call.name, "input": call.args}
    return {"type": "tool-input-available", **facts}


def _input_delta(call_id: str, piece: str) -> Chunk:
    return {"type": "tool-input-delta", "toolCallId": call_id, "inputTextDelta": piece}

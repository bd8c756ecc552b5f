"""Messages of the AI SDK as a page loads them: what is stored, in the parts that a stream would have made.

An answer's parts come from its chunks, as the AI SDK's client makes them; stored messages are told as events
first. So a page shows the same before and after it is loaded again."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from layover.plugins.fronts.protocols.ui_messages import UiMessage, answer_id, call_of
from layover.values.base import Value
from layover.values.client_ids import shown_id
from layover.values.message import (
    DataPart,
    FilePart,
    Message,
    Role,
    TextPart,
    ToolResultPart,
    is_context,
)
from layover.values.runs.event import (
    LoggedEvent,
    MessageEvent,
    ToolCallDecided,
    ToolExecutionEnd,
    TurnStart,
)

Json = dict[str, Any]
_TOOLS = {
    "tool-input-start": "input-streaming",
    "tool-input-available": "input-available",
    "tool-approval-request": "approval-requested",
    "tool-output-available": "output-available",
    "tool-output-error": "output-error",
    "tool-output-denied": "output-denied",
}
"""The state of a call's part behind each of its chunks."""
_OPEN = frozenset({"approval-requested", "input-available"})
"""States of a call that was answered and waits for others of its step, or runs."""
_FIELDS = ("input", "output", "errorText")


class StoredUiMessage(Value):
    """A message of the AI SDK (`UIMessage`).

    Args:
        id: A user's message has the id that its client gave it; an answer has its run's, and what the run
            says after others' messages its own id (`answer_id`).
        role: `user` or `assistant`.
        metadata: `run_id` and `thread_id`; of a user's message that a hook refused also `refused`.
        parts: As the AI SDK's client keeps them.
    """

    id: str
    role: str
    metadata: dict[str, Any]
    parts: tuple[dict[str, Any], ...]


def user_message(message: Message) -> StoredUiMessage:
    """Return a user's message. Its context is the page's own of that moment, and is left out."""
    parts = [_user_part(part) for part in message.content if not is_context(part)]
    return StoredUiMessage(
        id=shown_id(message.id),
        role="user",
        metadata={
            **({} if message.run_id is None else {"run_id": message.run_id}),
            "thread_id": message.thread_id,
            **({"refused": True} if message.refused else {}),
        },
        parts=tuple(part for part in parts if part is not None),
    )


def stored_answer(messages: Sequence[Message], step: int = 1) -> StoredUiMessage:
    """Return the answer of a run that is over, from its messages without the input: the part that begins with
    this step. Sub-agents' calls and what tools emitted are not among them."""
    first = messages[0]
    run_id = first.run_id or first.id
    encoder = UiMessage(run_id, first.thread_id)
    chunks = [chunk for event in _events_of(messages) for chunk in encoder.chunks(event)]
    return _answer(encoder, answer_id(run_id, step), [*chunks, *encoder.rest()])


def running_answers(
    run_id: str, thread_id: str, events: Iterable[LoggedEvent], starts: Collection[int] = (1,)
) -> dict[int, StoredUiMessage]:
    """Return the answer of a run that is not over, as far as it is, from all of its events so far: the parts
    that begin with the steps `starts`, by these steps. Those of which nothing is there yet are left out."""
    encoder = UiMessage(run_id, thread_id)
    parts: dict[int, list[Json]] = {1: []}
    homes: dict[str, list[Json]] = {}
    newest = parts[1]
    for event in events:
        begins = isinstance(event, TurnStart) and not event.agent_path and event.step in starts
        for chunk in encoder.chunks(event):
            if begins and isinstance(event, TurnStart) and chunk["type"] == "start-step":
                newest = parts.setdefault(event.step, [])
            call_id = call_of(chunk)
            # The outcome of a call may come late, behind what others said: it is shown with the call.
            home = newest if call_id is None else homes.setdefault(call_id, newest)
            home.append(chunk)
    newest += encoder.rest() if encoder.view.waits else ()
    return {
        step: _answer(encoder, answer_id(run_id, step), chunks) for step, chunks in parts.items()
    }


def _respond(part: Json, encoder: UiMessage) -> None:
    """Show what became of the request for a call's approval. The stream has no chunk for it: the client whose
    stream it is has answered itself."""
    approval = encoder.approvals.get(part.get("toolCallId", ""))
    if approval is None:
        part.pop("approval", None)
        return
    part["approval"] = approval
    if "approved" in approval and part["state"] in _OPEN:
        part["state"] = "approval-responded"


def parts_of(chunks: Iterable[Json]) -> list[Json]:
    """Return the parts of an answer, as the AI SDK's client makes them of its chunks."""
    parts = _Parts()
    parts.take(chunks)
    return parts.parts


def _answer(encoder: UiMessage, id: str, chunks: Iterable[Json]) -> StoredUiMessage:
    parts = _Parts()
    parts.take([encoder.begin(), *chunks])
    for part in parts.parts:
        _respond(part, encoder)
    return StoredUiMessage(
        id=id,
        role="assistant",
        metadata=parts.metadata,
        parts=tuple(parts.parts),
    )


class _Parts:
    """Parts of a message, from its chunks."""

    def __init__(self) -> None:
        self.parts: list[Json] = []
        self.metadata: Json = {}
        self._texts: dict[str, Json] = {}

    def take(self, chunks: Iterable[Json]) -> None:
        """Add what these chunks say."""
        for chunk in chunks:
            kind: str = chunk["type"]
            block, _, what = kind.partition("-")
            if kind == "start-step":
                self.parts.append({"type": "step-start"})
            elif block in ("text", "reasoning"):
                self._text(block, what, chunk)
            elif kind in _TOOLS:
                self._call(_TOOLS[kind], chunk)
            elif kind == "file" or block == "data":
                self._add(chunk)
            self.metadata |= chunk.get("messageMetadata", {})

    def _text(self, block: str, what: str, chunk: Json) -> None:
        if what == "start":
            part = self._texts[chunk["id"]] = {"type": block, "text": "", "state": "streaming"}
            self.parts.append(part)
        elif what == "delta":
            self._texts[chunk["id"]]["text"] += chunk["delta"]
        else:
            self._texts.pop(chunk["id"])["state"] = "done"

    def _call(self, state: str, chunk: Json) -> None:
        call_id = chunk["toolCallId"]
        # A call is in its step, or in one before it: approvals and outcomes come later.
        calls = (part for part in reversed(self.parts) if part.get("toolCallId") == call_id)
        part = next(calls, None)
        if part is None or (state == "input-streaming" and part["state"] == state):
            # A step that began again leaves the beginning of its calls behind.
            part = {"type": f"tool-{chunk['toolName']}", "toolCallId": call_id}
            self.parts.append(part)
        part["state"] = state
        part |= {name: chunk[name] for name in _FIELDS if name in chunk}
        if "approvalId" in chunk:
            part["approval"] = {"id": chunk["approvalId"]}

    def _add(self, chunk: Json) -> None:
        """Add data or a file; data takes the place of that of the same name and id."""
        is_same = (
            p for p in self.parts if p["type"] == chunk["type"] and p.get("id") == chunk.get("id")
        )
        old = next(is_same, None) if "id" in chunk else None
        if old is not None:
            old |= chunk
        else:
            self.parts.append(dict(chunk))


def _events_of(messages: Sequence[Message]) -> Iterator[LoggedEvent]:
    """Yield the events that tell of these messages."""
    step = 0
    for message in messages:
        at = message.created_at
        if message.role is Role.ASSISTANT:
            step += 1
            yield TurnStart(at=at, step=step)
        yield MessageEvent(at=at, message=message)
        for part in message.content:
            if isinstance(part, ToolResultPart):
                yield from _settled(part, at)


def _settled(part: ToolResultPart, at: datetime) -> Iterator[LoggedEvent]:
    note, call_id = part.decision, part.tool_call_id
    if note is not None:
        yield ToolCallDecided(
            at=at,
            tool_call_id=call_id,
            decision=note.decision,
            decided_by=note.decided_by,
            reason=note.reason,
        )
    yield ToolExecutionEnd(
        at=at,
        tool_call_id=call_id,
        tool_name=part.tool_name,
        result=part.result,
        is_error=part.is_error,
    )


def _user_part(part: object) -> Json | None:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    if isinstance(part, DataPart):
        return {"type": f"data-{part.name}", "data": part.data}
    if not isinstance(part, FilePart):
        return None
    url = part.url if part.url is not None else f"/files/{part.file_id}"
    media_type = part.mime_type or "application/octet-stream"
    name = {} if part.name is None else {"filename": part.name}
    return {"type": "file", "url": url, "mediaType": media_type, **name}

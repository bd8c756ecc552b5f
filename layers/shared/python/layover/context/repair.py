"""Leaves out of a prompt what may not stand on the model wire; the stored thread stays as it is."""

from collections.abc import Iterable

from layover.values.message import Message, Role, ToolCallPart


def without_orphans(messages: Iterable[Message]) -> list[Message]:
    """Calls without a result and results without a call are stripped, and with them messages that
    this leaves empty; custom messages are never sent
    (docs/behaviour.md#orphan-calls, docs/behaviour.md#custom-messages)."""
    shown = [m for m in messages if m.role is not Role.CUSTOM]
    settled = _settled(shown)
    repaired: list[Message] = []
    for message in shown:
        if message.role is Role.TOOL:
            if message.id in settled:
                repaired.append(message)
            continue
        kept = tuple(
            p
            for p in message.content
            if not isinstance(p, ToolCallPart) or (message.id, p.tool_call_id) in settled
        )
        if len(kept) == len(message.content):
            repaired.append(message)
        elif kept:
            repaired.append(message.model_copy(update={"content": kept}))
    return repaired


def _settled(messages: list[Message]) -> set[object]:
    """Ids of tool messages that answer a call of the assistant message before them, and those calls.

    An id may come again in a later run of the thread, so pairs are found in order, not by id alone."""
    settled: set[object] = set()
    speaker: Message | None = None
    open_ids: set[str] = set()
    for message in messages:
        if message.role is Role.TOOL:
            for part in message.content:
                call_id = getattr(part, "tool_call_id", None)
                if speaker is not None and call_id in open_ids:
                    settled |= {message.id, (speaker.id, call_id)}
                    open_ids.discard(call_id)
        else:
            speaker = message
            open_ids = {c.tool_call_id for c in message.tool_calls}
    return settled

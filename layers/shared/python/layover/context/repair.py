"""Leaves out of a prompt the messages that may not stand on the model's wire; the stored thread stays as it
is."""

from collections.abc import Iterable

from layover.values.message import Message, Role, ToolCallPart


def without_orphans(messages: Iterable[Message]) -> list[Message]:
    """Return the messages without calls that have no result, results that have no call, and messages that
    this leaves empty; custom messages are never sent (docs/behaviour.md#orphan-calls,
    docs/behaviour.md#custom-messages)."""
    sendable = [m for m in messages if m.role is not Role.CUSTOM]
    paired_ids = _paired_ids(sendable)
    result: list[Message] = []
    for message in sendable:
        if message.role is Role.TOOL:
            if message.id in paired_ids:
                result.append(message)
            continue
        parts = tuple(
            p
            for p in message.content
            if not isinstance(p, ToolCallPart) or (message.id, p.tool_call_id) in paired_ids
        )
        if len(parts) == len(message.content):
            result.append(message)
        elif parts:
            result.append(message.model_copy(update={"content": parts}))
    return result


def _paired_ids(messages: list[Message]) -> set[object]:
    """Return the ids of tool messages that answer a call of the assistant message before them, and of those
    calls. An id may come again in a later run of the thread, so pairs are found in order, not by id alone."""
    paired_ids: set[object] = set()
    speaker: Message | None = None
    open_ids: set[str] = set()
    for message in messages:
        if message.role is Role.TOOL:
            for part in message.content:
                call_id = getattr(part, "tool_call_id", None)
                if speaker is not None and call_id in open_ids:
                    paired_ids |= {message.id, (speaker.id, call_id)}
                    open_ids.discard(call_id)
        else:
            speaker = message
            open_ids = {c.tool_call_id for c in message.tool_calls}
    return paired_ids

"""The messages that may be sent to a model: others are left out of the prompt, and the stored thread stays
unchanged."""

from collections.abc import Iterable

from layover.values.message import Message, Role, ToolCallPart


def without_orphans(messages: Iterable[Message]) -> list[Message]:
    """Return the messages without calls that have no result, results that have no call, and messages that
    this leaves empty; custom messages are never sent (docs/behaviour.md#orphan-calls,
    docs/behaviour.md#custom-messages). An id may recur in a later run of the thread, so a result belongs to
    the message before it."""
    result: list[Message] = []
    speaker: Message | None = None
    answers: list[Message] = []
    open_ids: set[str] = set()
    for message in messages:
        role = message.role
        if role is Role.TOOL:
            if _answers(message, open_ids):
                answers.append(message)
        elif role is not Role.CUSTOM:
            if speaker is not None:
                result += _paired(speaker, answers, open_ids)
            speaker, answers = message, []
            open_ids = {p.tool_call_id for p in message.content if isinstance(p, ToolCallPart)}
    if speaker is not None:
        result += _paired(speaker, answers, open_ids)
    return result


def _answers(message: Message, open_ids: set[str]) -> bool:
    """Take the calls that a tool message answers out of the set. Return whether there was one."""
    is_answered = False
    for part in message.content:
        call_id = getattr(part, "tool_call_id", None)
        if call_id in open_ids:
            open_ids.discard(call_id)
            is_answered = True
    return is_answered


def _paired(speaker: Message, answers: list[Message], open_ids: set[str]) -> list[Message]:
    """Return a message, without those of its calls that nothing answered, and what answered the others."""
    if not open_ids:
        return [speaker, *answers]
    parts = tuple(
        p
        for p in speaker.content
        if not isinstance(p, ToolCallPart) or p.tool_call_id not in open_ids
    )
    return [speaker.model_copy(update={"content": parts}), *answers] if parts else answers

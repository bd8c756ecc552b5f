"""Calls that wait for a decision, as a model reads them while the conversation goes on."""

from collections.abc import Collection, Iterable
from itertools import takewhile

from layover.values.message import Message, Role, ToolResultPart

WAITS = (
    "This call has not run: it waits for a decision of a person, which may take long. It is asked for "
    "already, so do not call it again. Its result comes in a later message. If the user asks, say that it "
    "waits."
)
"""The result of such a call in the prompts of other runs. It is stored nowhere."""


def with_waiting_results(messages: Iterable[Message], run_ids: Collection[str]) -> list[Message]:
    """Return the messages with a result for each call of these runs that has none yet: the runs wait, and no
    provider takes a call without its result."""
    result: list[Message] = []
    speaker: Message | None = None
    left: dict[str, str] = {}
    for message in messages:
        if message.role is Role.TOOL:
            for part in message.content:
                if isinstance(part, ToolResultPart):
                    left.pop(part.tool_call_id, None)
        elif message.role is not Role.CUSTOM:
            result += _results(speaker, left)
            speaker = message if message.run_id in run_ids else None
            calls = speaker.tool_calls if speaker else ()
            left = {call.tool_call_id: call.tool_name for call in calls}
        result.append(message)
    return [*result, *_results(speaker, left)]


def before_waiting(messages: Iterable[Message], run_ids: Collection[str]) -> list[Message]:
    """Return the messages before the first of these runs, which wait. Compaction goes no further: nothing is
    observed of a call before its result is there."""
    return list(takewhile(lambda message: message.run_id not in run_ids, messages))


def _results(speaker: Message | None, left: dict[str, str]) -> list[Message]:
    if speaker is None:
        return []
    return [
        speaker.model_copy(
            update={
                "id": f"{speaker.id}.{call_id}.w",
                "parent_id": speaker.id,
                "role": Role.TOOL,
                "content": (ToolResultPart(tool_call_id=call_id, tool_name=name, result=WAITS),),
                "model_output": WAITS,
                "provider_state": None,
                "token_count": None,
            }
        )
        for call_id, name in left.items()
    ]

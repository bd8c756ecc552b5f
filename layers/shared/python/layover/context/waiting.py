"""Calls that wait for a decision, as a model reads them while the conversation goes on."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from layover.values.message import Message, Role, ToolResultPart

WAITS = (
    "This call has not run: it waits for a decision of a person, which may take long. It is asked for "
    "already, so do not call it again. Its result comes in a later message. If the user asks, say that it "
    "waits."
)
"""The result of such a call in the prompts of other runs. It is stored nowhere."""


def with_waiting_results(messages: Iterable[Message], run_ids: Collection[str]) -> list[Message]:
    """Return the messages with a result for each call of these runs that has none yet: the runs wait, and no
    provider takes a call without its result. The results of a step are in the order of its calls."""
    result: list[Message] = []
    speaker: Message | None = None
    step: list[Message] = []
    for message in messages:
        if message.role in (Role.TOOL, Role.CUSTOM):
            step.append(message)
            continue
        result += _whole(speaker, step)
        step = []
        speaker = message if message.run_id in run_ids else None
        result.append(message)
    return [*result, *_whole(speaker, step)]


def _whole(speaker: Message | None, step: Sequence[Message]) -> Sequence[Message]:
    """Return what follows a message, with the results that its calls lack. None: it lacks none."""
    if speaker is None or not speaker.tool_calls:
        return step
    order = {call.tool_call_id: n for n, call in enumerate(speaker.tool_calls)}
    results = {id: m for m in step if (id := _call_of(m)) in order}
    others = [m for m in step if _call_of(m) not in order]
    left = {
        c.tool_call_id: c.tool_name for c in speaker.tool_calls if c.tool_call_id not in results
    }
    results.update(_waiting_results(speaker, left))
    return [*(results[id] for id in sorted(results, key=order.__getitem__)), *others]


def _call_of(message: Message) -> str:
    """Return the id of the call whose result the message is; empty if it is none."""
    parts = (part.tool_call_id for part in message.content if isinstance(part, ToolResultPart))
    return next(parts, "")


def _waiting_results(speaker: Message, left: Mapping[str, str]) -> dict[str, Message]:
    return {
        call_id: speaker.model_copy(
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
    }

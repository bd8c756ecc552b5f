"""Content of a prompt that a model cannot read: the keys that name it, and the prompt without it
(docs/behaviour.md#refused-content)."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence

from layover.context.results import result_text, shown_files
from layover.values.base import Json
from layover.values.message import (
    FilePart,
    Message,
    Part,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    name_file,
    reference,
)
from layover.values.prompt import Prompt

UNREADABLE = "could not be read by the model"
_FILE, _TEXT, _CALLS = "file:", "text:", "calls:"
_LONGEST = 2_000
"""Characters of arguments, and of a result, in the text that stands for a call."""


def known_keys(messages: Iterable[Message], model: str) -> frozenset[str]:
    """Return the keys of what this model was found not to read, as its later messages tell."""
    states = [m.provider_state for m in messages if m.provider_state is not None]
    return frozenset(key for state in states for key in state.left_out.get(model, ()))


def file_key(part: FilePart) -> str:
    """Return the key of a file, the same wherever the thread names the file."""
    if part.file_id is not None:
        return f"{_FILE}{part.file_id}"
    return f"{_FILE}{hashlib.sha256((part.url or '').encode()).hexdigest()[:32]}"


def text_key(message: Message) -> str:
    """Return the key of what a user's message says, or of a tool's result."""
    return answer_key(message.id)


def answer_key(message_id: str) -> str:
    """Return the same for the message that gets this id."""
    return f"{_TEXT}{message_id}"


def calls_key(message: Message) -> str:
    """Return the key of calls and thoughts, in the form of their protocol, up to this message."""
    return f"{_CALLS}{message.id}"


def without(prompt: Prompt, keys: frozenset[str]) -> Prompt:
    """Return the prompt with a note in the place of what the keys name. Calls and thoughts become text, up to
    the last message whose `calls_key` is among the keys."""
    if not keys:
        return prompt
    through = max((i for i, m in enumerate(prompt.messages) if calls_key(m) in keys), default=-1)
    messages = [_without_unreadable(m, keys) for m in prompt.messages]
    messages = [*_in_words(messages[: through + 1]), *messages[through + 1 :]]
    return prompt.model_copy(update={"messages": tuple(messages)})


def _without_unreadable(message: Message, keys: frozenset[str]) -> Message:
    if text_key(message) in keys:
        if message.role is Role.TOOL:
            note = f"[result: {UNREADABLE}]"
            return message.model_copy(update={"model_output": note, "token_count": None})
        return message.with_content((TextPart(text=f"[message: {UNREADABLE}]"),))
    unreadable = [file for file in shown_files(message) if file_key(file) in keys]
    if not unreadable:
        return message
    from layover.context.result_files import with_notes

    return with_notes(
        message, {reference(file): name_file(file, UNREADABLE) for file in unreadable}
    )


def _in_words(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with calls, their results and thoughts as text of the assistant."""
    in_words: list[Message] = []
    results: dict[str, str] = {}
    # From the end: an id may recur in a later run, and a result belongs to the message before it.
    for message in reversed(messages):
        if message.role is Role.TOOL:
            results |= {
                part.tool_call_id: _text_of(result_text(message, part))
                for part in message.content
                if isinstance(part, ToolResultPart)
            }
        elif message.role is Role.ASSISTANT:
            in_words.append(_assistant_in_words(message, results))
            results = {}
        else:
            in_words.append(message)
    return in_words[::-1]


def _assistant_in_words(message: Message, results: Mapping[str, str]) -> Message:
    content: list[Part] = []
    for part in message.content:
        if isinstance(part, ToolCallPart):
            text = f"[called {part.tool_name}: {_text_of(part.args)}]"
            if part.tool_call_id in results:
                text += f"\n[result: {results[part.tool_call_id]}]"
            content.append(TextPart(text=text))
        elif not isinstance(part, ReasoningPart):
            content.append(part)
    return message.with_content(tuple(content), provider_state=None)


def _text_of(value: Json) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."

"""Working memory, profile and session memory: their keys, and their form in a prompt. Rendering is pure: the
same notes give the same bytes."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from layover.declare.agent import Agent
from layover.plugins.memory.reads.profile.iteration_log import previous_attempts
from layover.plugins.memory.reads.profile.plan import plan_lines
from layover.plugins.memory.text.escape import escape, escape_value
from layover.values.memory.context import ThreadState
from layover.values.message import Message, is_context
from layover.values.note import Note, NoteKey, profile_key

SHARED = "*"
"""Key of the working memory that all of a user's agents share."""
_BLOCKS = {"profile": "user_profile", "working": "working_memory"}
"""Kind of note -> its block, in the order of the blocks."""


def working_key(agent: Agent, thread_id: str) -> NoteKey | None:
    """Return the key of the agent's working memory; None if it has none."""
    memory = agent.memory.working_memory
    if memory is None:
        return None
    if memory.scope == "thread":
        return NoteKey(kind="working", scope="thread", key=thread_id)
    key = SHARED if memory.shared else agent.name
    return NoteKey(kind="working", scope="resource", key=key)


def note_keys(agent: Agent, thread_id: str) -> tuple[NoteKey, ...]:
    """Return the notes that the agent's prompt shows: `TurnQuery.notes`."""
    profile = profile_key(agent.name) if agent.memory.profile else None
    return tuple(k for k in (profile, working_key(agent, thread_id)) if k is not None)


def system_blocks(notes: Iterable[Note]) -> str:
    """Return profile and working memory for the system message; "" if both are empty."""
    by_kind = {note.key.kind: note for note in notes if not blank(note.value)}
    return "\n\n".join(
        block(name, value_lines(by_kind[kind].value))
        for kind, name in _BLOCKS.items()
        if kind in by_kind
    )


def without_deleted(note: Note, notes: Iterable[Note]) -> Note:
    """Return a note as a run pinned it, without the parts that have been deleted since: the whole note if it
    was removed or created again, otherwise the fields that are now empty. Overwritten fields keep their
    pinned values."""
    now = next((n for n in notes if n.key == note.key), Note(key=note.key))
    if now.created_at != note.created_at:
        return Note(key=note.key)
    fields = _fields(now.value)
    if isinstance(note.value, Mapping):
        value: Any = {k: v for k, v in note.value.items() if k in fields}
    else:
        value = note.value if _fields(note.value).keys() <= fields.keys() else None
    return note.model_copy(update={"value": value})


def _fields(value: Any) -> dict[str, Any]:
    """Return the fields that have content; a text is the field `about`, as for `merged_notes`."""
    fields = value if isinstance(value, Mapping) else {"about": value}
    return {k: v for k, v in fields.items() if not blank(v)}


def merged_notes(old: Any, change: Mapping[str, Any], forget: Iterable[str] = ()) -> dict[str, Any]:
    """Return the fields of working memory after a change: objects are merged field by field, null leaves a
    field as it is, a blank text takes it away, and so does its path in `forget` (`home.city`). A text that
    stands in place of the fields becomes the field `about`."""
    fields = {"about": old} if isinstance(old, str) else old
    merged = _merged(fields if isinstance(fields, Mapping) else {}, change)
    for path in forget:
        *parents, name = path.split(".")
        inner: Any = merged
        for parent in parents:
            inner = inner.get(parent) if isinstance(inner, dict) else None
        if isinstance(inner, dict):
            inner.pop(name, None)
    return merged


def _merged(old: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    fields = {name: _without_nulls(value) for name, value in old.items() if value is not None}
    for name, value in change.items():
        if value is None:
            continue
        if isinstance(value, str) and not value.strip():
            fields.pop(name, None)
        elif isinstance(value, Mapping):
            before = fields.get(name)
            fields[name] = _merged(before if isinstance(before, Mapping) else {}, value)
        else:
            fields[name] = _without_nulls(value)
    return fields


def _without_nulls(value: Any) -> Any:
    """Return a value without the nulls of its objects, which are no knowledge."""
    if isinstance(value, Mapping):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    return [_without_nulls(v) for v in value] if isinstance(value, list) else value


def volatile_blocks(state: ThreadState) -> str:
    """Return session memory, plan and previous attempts for the input's message; "" if there are none."""
    blocks = [
        block("session", value_lines(state.session)) if not blank(state.session) else "",
        block("plan", plan_lines(state.plan)) if not blank(state.plan) else "",
        previous_attempts(state.attempts),
    ]
    return "\n\n".join(b for b in blocks if b)


def client_context_block(message: Message) -> str:
    """Return what a run's input says about its client (docs/behaviour.md#client-context); "" if nothing."""
    lines: list[str] = []
    for part in filter(is_context, message.content):
        items = part.data if isinstance(part.data, list) else [part.data]
        lines += [_context_line(item) for item in items if not blank(item)]
    return block("client_context", lines) if lines else ""


def block(name: str, lines: Sequence[str]) -> str:
    """Return escaped lines between tags, below the sentence that explains them."""
    return "\n".join([f"<{name}>", _introduction(name), *lines, f"</{name}>"])


def value_lines(value: Any) -> list[str]:
    """Return one line for each field that has content; a text is one line."""
    if not isinstance(value, Mapping):
        return [escape_value(value)]
    return [f"- {escape(str(k))}: {_field(v)}" for k, v in value.items() if not blank(v)]


def blank(value: Any) -> bool:
    """Return whether the value has nothing that a model could read: no text, and only blank fields."""
    if isinstance(value, str):
        return not value.strip()
    if isinstance(value, Mapping):
        return all(blank(v) for v in value.values())
    return value is None or value == []


def _context_line(item: Any) -> str:
    if isinstance(item, Mapping) and item.keys() == {"description", "value"}:
        return f"- {escape_value(item['description'])}: {escape_value(item['value'])}"
    return f"- {escape_value(item)}"


def _field(value: Any) -> str:
    if isinstance(value, list) and value and all(isinstance(v, str) for v in value):
        return "; ".join(escape_value(v) for v in value)
    return escape_value(value)


@cache
def _introduction(name: str) -> str:
    return (
        files("layover.plugins.memory")
        .joinpath(f"prompts/block_{name}.md")
        .read_text("utf-8")
        .strip()
    )

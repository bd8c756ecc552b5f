"""Extracts a turn's facts for the profile and session memory (docs/behaviour.md#profile). A model proposes
facts, each with its evidence; a fact that the user did not state is dropped here, whatever the model
answered. Pure."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import count
from typing import Any

from layover.plugins.memory.learns.requests import Part, is_example, memory_prompt
from layover.plugins.memory.learns.text.answers import json_object, numbers_of, objects, text_of
from layover.plugins.memory.learns.text.evidence import Witness, missing_anchors, normalise
from layover.plugins.memory.learns.text.reading import plain
from layover.plugins.memory.learns.text.redaction import is_secret_key, redact
from layover.values.message import Message, Role, TextPart
from layover.values.prompt import Prompt
from layover.values.text import sanitise

MAX_FACTS = 10
"""Of one turn."""
MAX_CONTENT = 500
"""Characters of a fact."""
MAX_KEYS = 100
"""Fields of a profile; further ones are dropped."""
MAX_LINES = 20
"""Entries of a list in session memory; the oldest go."""
_MAX_READ = 8_000
"""Characters of each text that the model reads."""
_LISTS = ("decisions", "follow_ups")
_FACTS = ("facts", "entries")
_TEXTS = ("objective", "state")


@dataclass(frozen=True)
class Turn:
    """The words of a turn, without tool outputs."""

    user: Sequence[str]
    assistant: Sequence[str]

    @cached_property
    def witnesses(self) -> list[Witness]:
        """The user's texts, as the model is shown them."""
        return [Witness(plain(text, _MAX_READ)) for text in self.user]

    @cached_property
    def texts(self) -> list[str]:
        """All texts of the turn, without what the user only quotes."""
        own_texts = [text for witness in self.witnesses for text in witness.own_texts]
        return [*own_texts, *(plain(text, _MAX_READ) for text in self.assistant)]


@dataclass(frozen=True)
class Fact:
    """`field`: the profile's field, or the part of session memory. `content` None: it no longer holds."""

    field: str
    content: str | None
    old: str | None = None
    """In session memory: the entry that is over."""


def turn_of(messages: Sequence[Message]) -> Turn:
    """Return the user and assistant texts of these messages."""
    texts = {r: [m.text for m in messages if m.role is r and m.text.strip()] for r in Role}
    return Turn(texts[Role.USER], texts[Role.ASSISTANT])


def part(task: str, model: str, turn: Turn, current: Any, message: Message) -> Part:
    """Return what facts ask of a turn; `task`: profile | session. `message` lends its ids and time."""
    lines = [{"role": "user", "text": plain(t, _MAX_READ)} for t in turn.user]
    lines += [{"role": "assistant", "text": plain(t, _MAX_READ)} for t in turn.assistant]
    text = json.dumps({"known": current, "turn": lines}, ensure_ascii=False)
    user_message = message.with_content((TextPart(text=text),), role=Role.USER)
    alone = memory_prompt(task, model, user_message)
    return Part(task, task, alone, {task: current, "turn": lines})


def request(task: str, model: str, turn: Turn, current: Any, message: Message) -> Prompt:
    """Return the request for facts alone, as `part` makes it."""
    return part(task, model, turn, current, message).alone


def profile_change(answer: str, turn: Turn, profile: Any) -> dict[str, str | None]:
    """Return the fields of the profile to set, and those to remove (None). Empty for a useless answer."""
    change: dict[str, str | None] = {}
    present = profile if isinstance(profile, Mapping) else {}
    for item in _parse_facts(answer, "profile"):
        name = normalise(text_of(item, "key", "field")).casefold()
        field = re.sub(r"[^\w]+", "_", name).strip("_")[:60]
        if not field or is_secret_key(field) or not _has_user_evidence(item, turn):
            continue
        if field not in present and missing_anchors(field.replace("_", " "), turn.texts):
            continue
        content = _content(item, turn)
        forgets = item.get("content", "") is None and field in present
        if content is not None and (field in present or len(present) + len(change) < MAX_KEYS):
            change[field] = content
        elif forgets:
            change[field] = None
    return change


def number_entries(session: Any) -> dict[str, Any]:
    """Return session memory as the model reads it: the entries of its lists below numbers, from 1 on."""
    numbers = count(1)
    fields = session if isinstance(session, Mapping) else {}
    return {
        field: {str(next(numbers)): entry for entry in value} if isinstance(value, list) else value
        for field, value in fields.items()
    }


def session_facts(answer: str, turn: Turn, session: Mapping[str, Any]) -> list[Fact]:
    """Return the turn's changes of session memory; `session`: it as `number_entries` returned it. Empty for a
    useless answer."""
    facts: list[Fact] = []
    for item in _parse_facts(answer, "session"):
        field = text_of(item, "field", "key")
        if field not in (*_TEXTS, *_LISTS) or not _has_user_evidence(item, turn):
            continue
        entries = session.get(field)
        by_number = entries if isinstance(entries, Mapping) else {}
        numbers = map(str, numbers_of(item.get("replaces")))
        old = next((by_number[number] for number in numbers if number in by_number), None)
        content = _content(item, turn)
        is_over = item.get("content", "") is None and old is not None
        if content is not None or is_over:
            facts.append(Fact(field, content, old))
    return facts


def latest(
    session: Any, times: Mapping[str, datetime], facts: Sequence[Fact], said_at: datetime
) -> list[Fact]:
    """Return the facts, without those of a turn that was said (at `said_at`) before another one that set the
    same text, or replaced the same line. `times`: the last change of each field of the session."""
    fields: Mapping[str, Any] = session if isinstance(session, Mapping) else {}

    def holds(fact: Fact) -> bool:
        if fact.field not in times or times[fact.field] <= said_at:
            return True
        return fact.field in _LISTS and (not fact.old or fact.old in (fields.get(fact.field) or ()))

    return [fact for fact in facts if holds(fact)]


def with_facts(session: Any, facts: Sequence[Fact]) -> dict[str, Any]:
    """Return session memory after these facts: texts replaced, lists appended to."""
    result: dict[str, Any] = dict(session) if isinstance(session, Mapping) else {}
    for fact in facts:
        if fact.field in _TEXTS:
            result[fact.field] = fact.content
            continue
        lines = result.get(fact.field)
        entries = [v for v in lines if v not in (fact.old, fact.content)] if lines else []
        entries += [fact.content] if fact.content is not None else []
        result[fact.field] = entries[-MAX_LINES:]
    return result


def _parse_facts(answer: str, task: str) -> list[dict[str, Any]]:
    items = objects(json_object(sanitise(answer), *_FACTS), *_FACTS)[:MAX_FACTS]
    return [item for item in items if not is_example(task, text_of(item, "evidence"))]


def _has_user_evidence(item: dict[str, Any], turn: Turn) -> bool:
    """Return whether the user said it: in words of their own, not in what they quote or paste."""
    evidence = text_of(item, "evidence")
    return any(witness.own_piece(evidence) is not None for witness in turn.witnesses)


def _content(item: dict[str, Any], turn: Turn) -> str | None:
    """Return the fact as it is stored; None if it is empty, or names something that was not said."""
    content = normalise(text_of(item, "content", "value", "fact"))[:MAX_CONTENT].rstrip()
    content = redact(content)
    return None if not content or missing_anchors(content, turn.texts) else content

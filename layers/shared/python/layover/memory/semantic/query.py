"""Queries of semantic recall, and the form in which it keeps messages (docs/behaviour.md#semantic-recall)."""

import math
import re
from collections.abc import Collection, Sequence

from layover.memory.text.words import spans, words
from layover.values.memory.context import IndexedText
from layover.values.message import Message, Role

MAX_CHARACTERS = 8_000
"""Characters of a text that are embedded: most models take 8,192 tokens."""
MAX_WORDS = 64
"""The most words of a query, since each is looked up in every row."""
MAX_DIMENSIONS = 3_900
"""Of a vector that is stored. A row of the database has to fit into one page."""
MAX_EMBEDDED = 4_096
"""Of an embedder's vector. The last numbers of a longer one than is stored are left out: a twentieth at most,
which moves the cosine of two vectors by less than their texts do."""
_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_SPEAKER = re.compile(r"\s*([^\W\d_][\w.'\u2019-]*(?: [^\W\d_][\w.'\u2019-]*){0,2}):\s+(?=\S)")
"""`Ann Lee: ...`: the speaker, if one user passes on the words of several people."""


def row_of(message: Message, agent: str, speaker: str | None = None) -> IndexedText | None:
    """Return a message of a user or an assistant as recall will find it, without its vector; None: it has no
    text. `speaker`: the name of its role, if it has one; a name before the text wins."""
    text = message.text.strip()
    if message.role not in (Role.USER, Role.ASSISTANT) or not text:
        return None
    at = message.created_at
    name = speaker_of(text) or speaker
    content = text if name is None or speaker_of(text) else f"{name}: {text}"
    return IndexedText(
        thread_id=message.thread_id,
        message_id=message.id,
        agent=agent,
        text=f"{at.day} {_MONTHS[at.month - 1]} {at.year} {content}",
        speaker=name,
    )


def speaker_of(text: str) -> str | None:
    """Return the speaker by the beginning of the text."""
    match = _SPEAKER.match(text)
    return match[1] if match else None


def text_to_embed(text: str) -> str:
    """Return the part of a text to embed: without the speaker's name, which would make all texts alike."""
    match = _SPEAKER.match(text)
    return text[match.end() if match else 0 :].strip()[:MAX_CHARACTERS]


def query_words(text: str) -> list[str]:
    """Return the words that recall looks up, each once."""
    return list(dict.fromkeys(words(text)))[:MAX_WORDS]


def vector_text(text: str, common: Collection[str]) -> str:
    """Return the query without the words that are common in the scope, names mostly: they would draw it to
    every text alike. A query that has only such words stays unchanged."""
    pieces, position = [], 0
    for start, end, word in spans(text):
        if word in common:
            pieces.append(text[position:start])
            position = end
    rest = " ".join("".join([*pieces, text[position:]]).split())
    return (rest if re.search(r"\w", rest) else text)[:MAX_CHARACTERS]


def usable(vector: Sequence[float]) -> tuple[float, ...] | None:
    """Return the vector as it is stored: its first `MAX_DIMENSIONS` numbers, at length 1, which
    half-precision floats hold best. None: nothing can be compared with it."""
    if not 0 < len(vector) <= MAX_EMBEDDED or not all(map(math.isfinite, vector)):
        return None
    stored = vector[:MAX_DIMENSIONS]
    length = math.hypot(*stored)
    return tuple(x / length for x in stored) if length else None

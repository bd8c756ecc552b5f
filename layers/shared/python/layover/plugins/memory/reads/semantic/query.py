"""Queries of semantic recall, and the form in which it keeps messages (docs/behaviour.md#semantic-recall)."""

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from layover.lazy import lazy_pattern
from layover.plugins.memory.text.index_words import head, raw_topics, term
from layover.plugins.memory.text.words import english_stem, raw_words, spans
from layover.values.memory.context import IndexedText
from layover.values.message import Message, Role

MAX_CHARACTERS = 8_000
"""Characters of a text that are embedded: most models take 8,192 tokens."""
MAX_WORDS = 64
"""The most words of a query, since each is looked up in every row."""
_END_WORDS = 24
"""Of a longer query: words of its beginning, and as many of its end. Rare ones of the rest are added."""
_END = 4_000
"""Characters of such a query's beginning and end whose words are taken."""
MAX_QUERY = 800
"""Characters of a query that are embedded. Of a longer text, half of them are its beginning, and half its
end: one vector for a whole log is near to no question, and small models read 256 tokens."""
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
_LETTERS = lazy_pattern(r"\b[^\W\d_]{4,}\b")
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
    """Return the terms that recall looks up (`memory.text.index_words`), each once. Of a long text, only
    topics count: those of its beginning, of its end, and rare ones in between, so that a pasted log does not
    hide the question."""
    return _terms(text, _unique(raw_words(text[: 2 * _END])))


def topic_words(text: str) -> list[str]:
    """Return the terms of a query that carry its topic, each once; of a long text, as many as are looked
    up."""
    return _terms(text, _unique(raw_topics(text[: 2 * _END])))


def _terms(text: str, unique: Sequence[str]) -> list[str]:
    is_short = len(text) <= 2 * _END and len(unique) <= MAX_WORDS
    return [term(word) for word in (unique if is_short else _topics(text))]


def _unique(each: Iterable[str]) -> list[str]:
    """Return the first form of each word."""
    forms: dict[str, str] = {}
    for word in each:
        forms.setdefault(english_stem(word), word)
    return list(forms.values())


def _topics(text: str) -> list[str]:
    first, last = raw_topics(text[:_END]), raw_topics(text[-_END:])
    start = _unique(first)[:_END_WORDS]
    end = _unique(reversed(last))[:_END_WORDS]
    rare = raw_words(" ".join(_rare(text)))
    return _unique([*start, *reversed(end), *rare, *first, *last])[:MAX_WORDS]


def _rare(text: str) -> list[str]:
    """Return words that a long text has least often, from all over it. Numbers and codes of a log are rare as
    well, and say little: they are left out."""
    counts = Counter(_LETTERS.findall(text.casefold()))
    least = min(counts.values(), default=0)
    rare = [word for word, number in counts.items() if number == least]
    return rare[:: max(len(rare) // (MAX_WORDS - 2 * _END_WORDS), 1)]


def vector_text(text: str, common: Collection[str]) -> str:
    """Return the query without the words that are common in the scope, names mostly: they would draw it to
    every text alike. A query that has only such words stays unchanged."""
    text = both_ends(text)
    common_words = set(map(head, common))
    pieces, position = [], 0
    for start, end, word in spans(text):
        if word in common_words:
            pieces.append(text[position:start])
            position = end
    rest = " ".join("".join([*pieces, text[position:]]).split())
    return rest if re.search(r"\w", rest) else text


def vector_texts(text: str, common: Collection[str]) -> list[str]:
    """Return the texts whose vectors make a query's vector (`joint_vector`): the query without the words that
    are common in the scope, and the whole query if that differs. The first is nearer to what is asked for,
    the second to how an answer would put it."""
    return list(dict.fromkeys((vector_text(text, common), both_ends(text))))


def joint_vector(vectors: Sequence[Sequence[float] | None]) -> tuple[float, ...] | None:
    """Return the direction between vectors of length 1, so one scan ranks by the mean of their cosines; None
    if none of them is usable."""
    usable_vectors = [vector for vector in vectors if vector is not None]
    return usable([sum(numbers) for numbers in zip(*usable_vectors, strict=True)])


def both_ends(text: str) -> str:
    """Return the part of a query that is embedded: all of it, or its end and its beginning. The end comes
    first, as a question mostly follows what was pasted."""
    if len(text) <= MAX_QUERY:
        return text
    head, tail = text[: MAX_QUERY // 2], text[-MAX_QUERY // 2 :]
    # Whole words, where there are blanks.
    head = head.rpartition(" ")[0] or head
    tail = tail.partition(" ")[2] or tail
    return f"{tail}\n{head}"


def usable(vector: Sequence[float]) -> tuple[float, ...] | None:
    """Return the vector as it is stored: its first `MAX_DIMENSIONS` numbers, at length 1, which
    half-precision floats hold best. None: nothing can be compared with it."""
    if not 0 < len(vector) <= MAX_EMBEDDED or not all(map(math.isfinite, vector)):
        return None
    stored = vector[:MAX_DIMENSIONS]
    length = math.hypot(*stored)
    return tuple(x / length for x in stored) if length else None

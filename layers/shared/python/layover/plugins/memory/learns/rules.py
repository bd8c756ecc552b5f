"""Rules of episodic memory: the entries that a turn may add (docs/behaviour.md#episodic-prompt). A model
proposes entries, each with its evidence; an entry without evidence in the turn is dropped here, whatever the
model answered. Pure."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from layover.declare.memory import EpisodicMemory
from layover.lazy import lazy_pattern
from layover.plugins.memory.learns.requests import (
    KINDS,
    REQUESTED,
    Part,
    is_example,
    memory_prompt,
)
from layover.plugins.memory.learns.text.answers import json_object, numbers_of, objects, text_of
from layover.plugins.memory.learns.text.dates import without_resolved_dates
from layover.plugins.memory.learns.text.evidence import (
    Witness,
    codes,
    missing_anchors,
    normalise,
    says_enough,
    sentences_around,
)
from layover.plugins.memory.learns.text.reading import plain
from layover.plugins.memory.learns.text.redaction import REDACTED, redact, redact_value
from layover.plugins.memory.text.index_words import is_english, raw_topics
from layover.plugins.memory.text.words import raw_words
from layover.values.memory.entry import MemoryEntry, Source
from layover.values.message import Message, Role, TextPart
from layover.values.prompt import Prompt
from layover.values.text import sanitise

PROMPT_VERSION = "extractor-9"
"""Changes with `prompts/extractor.md` and `extractor_known.md`; each entry names the one that proposed it."""
MAX_KNOWN = 20
"""Similar entries that the extractor is shown."""
_MAX_PROPOSALS = 50
_MAX_READ = 8_000
"""Characters of a text that the extractor reads."""
_MAX_READ_IN_ALL = 60_000
_BEFORE, _MAX_BEFORE = 2, 4
"""Texts before the turn that the extractor reads, and the most of them if they are short."""
_MAX_TEXT_BEFORE, _ROOM_BEFORE = 500, 400
"""Characters of such a text, and of all of them if there are more than `_BEFORE`."""
_MAX_EVIDENCE = 2_000
"""The most characters that are stored, since a whole message may be evidence."""
_LEEWAY = 2_000
"""Characters of a content beyond its limit that are checked: without its secrets it may be shorter."""
_TOKENS_OF_ENTRY = 400
_OF_USER = lazy_pattern(
    r"\W*(?:(?:the|this|der|die|el|la|il|o|a) |l['\u2019])?(?:user|(?:be)?nutzer(?:in)?|utilisat(?:eur|rice)"
    r"|usuari[oa]|usuári[oa]|utilizador|utente|пользователь)\b(?!['\u2019])",
    re.IGNORECASE,
)
"""The beginning of a statement about the user: no pasted text says who they are or what they may do."""
_OF_THINGS = frozenset({"symptom", "cause", "environment"})
_WISH = lazy_pattern(
    r"(?:the )?user (?:is |was |has )?(?:already |now |also )?(?:been |being )?"
    r"(?:ask|want|wish|request|seek|prefer|like|love|greet|thank|remind|told|inquir)",
    re.IGNORECASE,
)
"""A wish, a preference or a question of the user's: their profile keeps it. Small models call it a symptom,
in the prompt's English. In `make eval`, 6 of 14 wrong entries of the set main were such ones, and none of 56
facts (docs/evaluation.md)."""
_QUESTION_MARKS = ("?", "\uff1f", "\u061f")


class Refusal(StrEnum):
    """The reason why a proposed entry is not stored."""

    OTHER = "other"
    """The model itself says that it is of no kind that is kept, or calls a wish a symptom."""
    NO_EVIDENCE = "no_evidence"
    UNSAID = "unsaid"
    """It names a number or an identifier that was not said, and its quote states nothing either."""
    UNTRUSTED = "untrusted"
    """Only an assistant says so, based on tools that are not trusted, or a text that the user quotes."""
    EMPTY = "empty"
    REPEATED = "repeated"
    OVER_LIMIT = "over_limit"
    SIMILAR = "similar"


@dataclass(frozen=True)
class Candidate:
    """A proposed entry that has evidence. `accepted`: what the assistant said and the evidence answers.
    `replaces`, `same`: the numbers of the known entries of which the extractor says so."""

    content: str
    source: Source
    evidence: str
    message_id: str
    verified: bool
    hash: str
    accepted: str = ""
    replaces: tuple[int, ...] = ()
    same: tuple[int, ...] = ()


@dataclass(frozen=True)
class ToolText:
    """The result of a trusted tool in the turn, as the extractor reads it. `message`: the one that has it."""

    message: Message
    call_id: str
    name: str
    text: str


@dataclass(frozen=True)
class Surroundings:
    """All that the extractor reads next to the words of a turn. `now`: the time of the turn in the user's
    zone; `before`: texts before it, oldest first."""

    now: datetime | None = None
    before: Sequence[Message] = ()
    results: Sequence[ToolText] = ()


_ALONE = Surroundings()


@dataclass
class EntryCheck:
    """The candidates of an answer that pass the rules, and the refusals counted by reason."""

    candidates: list[Candidate]
    refusals: Counter[Refusal] = field(default_factory=Counter)


# The request to the model, and the entries of its answer


def part(
    model: str,
    dialogue: Sequence[Message],
    profile: Any,
    similar: Sequence[str],
    settings: EpisodicMemory,
    around: Surroundings = _ALONE,
) -> Part:
    """Return what entries ask of a turn; `dialogue`: at least one message, `similar`: stored ones like it,
    which the answer names by their numbers."""
    parts_of_turn = [
        (m, {"role": m.role.value, "text": _visible_text(m)}) for m in _readable(dialogue)
    ]
    parts_of_turn += [
        (r.message, {"role": "tool", "call": r.call_id, "name": r.name, "text": r.text})
        for r in around.results
    ]
    turn = [each for _, each in sorted(parts_of_turn, key=lambda pair: pair[0].created_at)]
    numbered = {str(number): text for number, text in enumerate(similar, 1)}
    parts: dict[str, Any] = (
        {"now": f"{around.now:%A %Y-%m-%d %H:%M} {around.now.tzinfo}"} if around.now else {}
    )
    parts |= {"profile": profile, "known": numbered}
    if before := readable_before(around.before):
        parts["before"] = [{"role": m.role.value, "text": _text_before(m)} for m in before]
    payload = redact_value({**parts, "turn": turn})
    text = TextPart(text=json.dumps(payload, ensure_ascii=False))
    user_message = dialogue[0].with_content((text,), role=Role.USER)
    alone = memory_prompt(
        "extractor",
        model,
        user_message,
        instructions=settings.instructions,
        least=settings.per_turn * _TOKENS_OF_ENTRY,
        names_known=bool(similar),
    )
    return Part("extractor", "entries", alone, payload)


def request(
    model: str,
    dialogue: Sequence[Message],
    profile: Any,
    similar: Sequence[str],
    settings: EpisodicMemory,
    around: Surroundings = _ALONE,
) -> Prompt:
    """Return the request for entries alone, as `part` makes it."""
    return part(model, dialogue, profile, similar, settings, around).alone


def check_entries(
    answer: str,
    dialogue: Sequence[Message],
    settings: EpisodicMemory,
    *,
    trusted: bool,
    finds_out: bool = True,
    around: Surroundings = _ALONE,
) -> EntryCheck:
    """Return the entries of an answer that have evidence, in the order of
    docs/behaviour.md#episodic-duplicates; `select` judges what they do to known ones. `finds_out`: whether
    the assistant had anything to find out something from; `trusted`: whether it may be believed; `around`:
    what the extractor read next to the turn."""
    turn = _Turn(dialogue, settings, around, trusted=trusted, finds_out=finds_out)
    check = EntryCheck([])
    hashes: set[str] = set()
    items = objects(json_object(sanitise(answer), "entries"), "entries")
    for item in items[:_MAX_PROPOSALS]:
        candidate = turn.candidate(item)
        if isinstance(candidate, Refusal):
            check.refusals[candidate] += 1
        elif candidate.hash in hashes:
            check.refusals[Refusal.REPEATED] += 1
        elif len(check.candidates) >= settings.per_turn:
            check.refusals[Refusal.OVER_LIMIT] += 1
        else:
            hashes.add(candidate.hash)
            check.candidates.append(candidate)
    return check


def stored_evidence(candidate: Candidate) -> str:
    """Return the evidence as it is stored: the user's words, and the text that they accept."""
    if not candidate.accepted:
        return candidate.evidence
    return f"{candidate.evidence} (about: {candidate.accepted})"[:_MAX_EVIDENCE]


def hash_of(content: str) -> str:
    """Return a hash that is equal for contents that differ only in case."""
    return hashlib.sha256(content.lower().encode("utf-8", "replace")).hexdigest()


def _readable(dialogue: Sequence[Message]) -> list[Message]:
    """Return all of the users' words and the newest of the assistants' words, as far as they are read."""
    room = _MAX_READ_IN_ALL - sum(
        min(len(m.text), _MAX_READ) for m in dialogue if m.role is Role.USER
    )
    readable: list[Message] = []
    for message in reversed(dialogue):
        if message.role is Role.ASSISTANT:
            room -= min(len(message.text), _MAX_READ)
            if room < 0:
                continue
        readable.append(message)
    return readable[::-1]


def readable_before(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the last texts before a turn that the extractor reads: two, or four if they are short."""
    newest = list(messages[-_MAX_BEFORE:])
    while len(newest) > _BEFORE and sum(len(_text_before(m)) for m in newest) > _ROOM_BEFORE:
        newest.pop(0)
    return newest


def _text_before(message: Message) -> str:
    return plain(message.text.strip(), _MAX_TEXT_BEFORE)


def _visible_text(message: Message) -> str:
    """Return the text of a message as the extractor sees it."""
    return plain(message.text.strip(), _MAX_READ)


@dataclass(frozen=True)
class _Quote:
    """A quote with its witness. The model is not asked who said it: small models make that up. `accepted`:
    what the assistant said, if the quote only answers it."""

    source: Source
    piece: str
    message: Message
    accepted: str = ""


class _Turn:
    """The words of a turn, as the extractor saw them."""

    def __init__(
        self,
        dialogue: Sequence[Message],
        settings: EpisodicMemory,
        around: Surroundings,
        *,
        trusted: bool,
        finds_out: bool,
    ) -> None:
        self._settings = settings
        self._now = around.now
        before = readable_before(around.before)
        self._answered = dict(_answered(before, dialogue))
        self._results = [(r.message, Witness(r.text)) for r in around.results]
        self._trusted = trusted
        witnesses = [(m, Witness(_visible_text(m))) for m in _readable(dialogue)]
        self._of_user = [(m, w) for m, w in witnesses if m.role is Role.USER]
        self._of_assistant = [(m, w) for m, w in witnesses if m.role is Role.ASSISTANT]
        has_findings = finds_out or settings.assistant_evidence == "trust"
        self._findings = self._of_assistant if has_findings else []
        self._texts = [m.text for m in dialogue] + [_visible_text(m) for m, _ in witnesses]
        self._texts += [_text_before(m) for m in before] + [r.text for r in around.results]
        own_texts = [text for _, witness in self._of_user for text in witness.own_texts]
        self._own_texts = own_texts + [_visible_text(m) for m, _ in self._of_assistant]
        self._known_texts = self._own_texts + [r.text for r in around.results]
        for message in before:
            text = _text_before(message)
            is_own = message.role is Role.ASSISTANT
            self._known_texts += [text] if is_own else Witness(text).own_texts

    def candidate(self, item: dict[str, Any]) -> Candidate | Refusal:
        """Return the entry that a proposal leads to, or the reason why it leads to none."""
        kind, evidence = text_of(item, "kind").casefold(), text_of(item, "evidence")
        content = normalise(text_of(item, "content"))[: self._settings.max_length + _LEEWAY]
        content = redact(content)
        if not self._keeps(kind, content):
            return Refusal.OTHER
        quote = None if is_example("extractor", evidence) else self._quote(evidence)
        if quote is None:
            return Refusal.NO_EVIDENCE
        sure = self._sure_content(content, quote)
        if sure is None:
            return Refusal.UNSAID
        content = sure
        quote = self._answering(content, quote)
        source = quote.source
        # Own words next to a log do not vouch for what stands only in the log.
        vouches = source in ("user_assertion", "user_accepted_assistant_proposal")
        if vouches and missing_anchors(self._without_dates(content), self._known_texts):
            source = "quoted_text"
        verified = self._is_verified(source)
        if not verified and self._is_refused(source, content):
            return Refusal.UNTRUSTED
        text = content[: self._settings.max_length].rstrip()
        if not any(c.isalnum() for c in text):
            return Refusal.EMPTY
        return Candidate(
            content=text,
            source=source,
            evidence=redact(quote.piece)[:_MAX_EVIDENCE],
            message_id=quote.message.id,
            verified=verified,
            hash=hash_of(text),
            accepted=redact(quote.accepted)[:_MAX_EVIDENCE],
            replaces=numbers_of(item.get("replaces")),
            same=numbers_of(item.get("same")),
        )

    def _keeps(self, kind: str, content: str) -> bool:
        """Return whether a content is worth keeping, by its kind."""
        if kind in _OF_THINGS:
            return _WISH.match(content) is None
        return (
            not kind or kind in KINDS or (kind == REQUESTED and bool(self._settings.instructions))
        )

    def _sure_content(self, content: str, quote: _Quote) -> str | None:
        """Return the content, or the sentences of its quote if it names what was not said, or is a
        translation. None: it names what was not said, and they cannot be used."""
        unsaid = missing_anchors(self._without_dates(content), self._texts)
        if not unsaid and not self._is_translated(content):
            return content
        return self._own_words(quote) or (None if unsaid else content)

    def _own_words(self, quote: _Quote) -> str:
        """Return the sentences of a quote, for a content that cannot be compared: nothing is lost for its
        spelling. "" if they state nothing, have a secret, or are neither the user's nor a trusted tool's."""
        words = redact(sentences_around(quote.piece, self._own_texts))
        is_own = quote.source in ("user_assertion", "tool_result")
        is_statement = says_enough(words) and not words.endswith(_QUESTION_MARKS)
        return words if is_own and is_statement and REDACTED not in words else ""

    def _is_translated(self, content: str) -> bool:
        """Return whether the content is in the prompt's English and nothing of the turn is: small models fall
        back to it, and a question in the user's language does not find the entry."""
        return is_english(content) and not any(map(is_english, self._texts))

    def _quote(self, evidence: str) -> _Quote | None:
        """Return the quote with its witness. What the user quotes stays quoted, though the assistant repeats
        it."""
        for message, witness in self._of_user:
            if piece := witness.own_piece(evidence):
                return _Quote("user_assertion", piece, message)
        for message, witness in self._of_user:
            if piece := witness.piece(evidence):
                return _Quote("quoted_text", piece, message)
        for message, witness in self._results:
            if piece := witness.piece(evidence):
                return _Quote("tool_result", piece, message)
        for message, witness in self._findings:
            if piece := witness.piece(evidence):
                return _Quote("verified_assistant_finding", piece, message)
        return None

    def _answering(self, content: str, quote: _Quote) -> _Quote:
        """Return the quote with the assistant's words that it answers, if the content tells more of these
        than of its own message."""
        answered = self._answered.get(quote.message.id)
        if quote.source != "user_assertion" or answered is None:
            return quote
        topics, own = (set(raw_topics(text)) for text in (content, quote.message.text))
        if len((topics - own) & set(raw_topics(answered))) <= len(topics & own):
            return quote
        source: Source = "user_accepted_assistant_proposal"
        return replace(quote, source=source, accepted=normalise(answered))

    def _without_dates(self, content: str) -> str:
        """Return the content without dates that the turn names in relation to its day."""
        if self._now is None:
            return content
        return without_resolved_dates(content, self._own_texts, self._now)

    def _is_refused(self, source: Source, content: str) -> bool:
        """Return whether what nobody vouches for is not even stored with a label."""
        if self._settings.assistant_evidence == "refuse":
            return True
        return source == "quoted_text" and _OF_USER.match(content) is not None

    def _is_verified(self, source: Source) -> bool:
        if source == "verified_assistant_finding":
            return self._trusted or self._settings.assistant_evidence == "trust"
        return source != "quoted_text"


def _answered(before: Sequence[Message], dialogue: Sequence[Message]) -> Iterator[tuple[str, str]]:
    """Yield the user's messages that follow words of the assistant's, by id, with these words."""
    newest = before[-1] if before else None
    for message in dialogue:
        is_answer = newest is not None and newest.role is Role.ASSISTANT
        if message.role is Role.USER and newest is not None and is_answer:
            yield message.id, _text_before(newest) if newest in before else _visible_text(newest)
        newest = message


# What an entry does to the known ones


@dataclass(frozen=True)
class Selection:
    """A candidate that is to be stored. `supersedes`: the stored entries that it replaces."""

    candidate: Candidate
    supersedes: tuple[str, ...] = ()


def select(
    candidates: Sequence[Candidate],
    shown_entries: Sequence[MemoryEntry],
    standing: Mapping[str, MemoryEntry],
    said_at: datetime,
) -> list[Selection]:
    """Return the candidates that are new, each with what it replaces (docs/behaviour.md#known-entries).
    `shown_entries`: those that the extractor read, in its order; `standing`: those of them that still
    stand, by id; `said_at`: the time of the candidates' turn."""
    current = {
        number: standing[entry.id]
        for number, entry in enumerate(shown_entries, 1)
        if entry.id in standing and standing[entry.id].content == entry.content
    }
    selections: list[Selection] = []
    for candidate in candidates:
        same = _entries_of(candidate.same, current)
        repeated = [e for e in same if _adds_nothing(candidate, e)]
        retold = [e for e in same if e not in repeated and _tells_all_of(candidate, e)]
        claimed = (*_entries_of(candidate.replaces, current), *retold)
        over = [e for e in claimed if _may_replace(candidate, e, said_at)]
        if over:
            over += [e for e in repeated if _may_replace(candidate, e, said_at)]
        elif candidate.verified:
            over = [e for e in repeated if not e.verified]
        if over or not repeated:
            ids = dict.fromkeys(e.id for e in over)
            selections.append(Selection(candidate, tuple(ids)))
    return selections


def _entries_of(
    numbers: Sequence[int], current: Mapping[int, MemoryEntry]
) -> Sequence[MemoryEntry]:
    return [current[number] for number in numbers if number in current]


def _adds_nothing(candidate: Candidate, entry: MemoryEntry) -> bool:
    """Return whether an entry has all words of a candidate in their order: what is dropped cannot be taken
    back."""
    words = list(raw_words(candidate.content))
    for text in (entry.content, entry.evidence):
        rest = raw_words(text)
        if all(word in rest for word in words):
            return True
    return False


def _tells_all_of(candidate: Candidate, entry: MemoryEntry) -> bool:
    """Return whether a candidate that says the same in other words has every number and identifier of an
    entry: it may take its place."""
    return not missing_anchors(entry.content, [candidate.content, candidate.evidence])


def _may_replace(candidate: Candidate, entry: MemoryEntry, said_at: datetime) -> bool:
    """Return whether a candidate may take the place of an entry: it was said later, it is no less certain,
    and it does not name another thing by its code."""
    if entry.created_at > said_at or (entry.verified and not candidate.verified):
        return False
    return not _is_of_another_thing(candidate, entry)


def _is_of_another_thing(candidate: Candidate, entry: MemoryEntry) -> bool:
    """Return whether both name things by codes, and none of them is the same."""
    new, old = codes(candidate.content), codes(entry.content)
    return bool(new and old) and new.isdisjoint(old)

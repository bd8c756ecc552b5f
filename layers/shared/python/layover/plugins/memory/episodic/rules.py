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
from enum import Enum, StrEnum, auto
from typing import Any

from layover.declare.memory import EpisodicMemory
from layover.plugins.memory.episodic.contradiction import (
    Relation,
    may_replace,
    relation,
    replaces,
    says_the_same,
)
from layover.plugins.memory.episodic.person import (
    is_only_about_user,
    without_reminder,
    without_role,
)
from layover.plugins.memory.ranking import cosine
from layover.plugins.memory.requests import (
    KINDS,
    REQUESTED,
    Part,
    is_example,
    memory_prompt,
)
from layover.plugins.memory.text.acceptance import accepts
from layover.plugins.memory.text.answers import json_object, numbers_of, objects, text_of
from layover.plugins.memory.text.dates import without_resolved_dates
from layover.plugins.memory.text.evidence import Witness, missing_anchors, normalise
from layover.plugins.memory.text.languages import is_translation
from layover.plugins.memory.text.likeness import MIN_TOPICS, adds_nothing, denies, statement
from layover.plugins.memory.text.reading import plain
from layover.plugins.memory.text.redaction import REDACTED, redact, redact_value
from layover.values.memory.entry import MemoryEntry, SimilarEntry, Source
from layover.values.message import Message, Role, TextPart
from layover.values.prompt import Prompt
from layover.values.text import sanitise

PROMPT_VERSION = "extractor-7"
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
_WITH_SECRET = re.compile(rf"\S*{re.escape(REDACTED)}\S*")
_SENTENCES = re.compile(r"[.!?;:\u2026\u3002\uff01\uff1f]\s+\S|[\u3002\uff01\uff1f].")
_MIN_SHARE = 0.5
"""The share of a quote's topics that an entry has if it says what the quote says."""
_MAX_CONTEXT = 200
"""Characters before and after a quote that may say that it corrects something."""


class Refusal(StrEnum):
    """The reason why a proposed entry is not stored."""

    OTHER = "other"
    """The model itself says that it is of no kind that is kept."""
    NO_EVIDENCE = "no_evidence"
    UNSAID = "unsaid"
    """It names a number or an identifier that was not said."""
    UNTRUSTED = "untrusted"
    """Only an assistant says so, based on tools that are not trusted, or a text that the user quotes."""
    EMPTY = "empty"
    REPEATED = "repeated"
    OVER_LIMIT = "over_limit"
    SIMILAR = "similar"


@dataclass(frozen=True)
class Candidate:
    """A proposed entry that has evidence. `context`: what its message says around the evidence.
    `accepted`: what the assistant proposed and the evidence accepts. `replaces`, `same`: the numbers of the
    known entries of which the extractor says so."""

    content: str
    source: Source
    evidence: str
    message_id: str
    verified: bool
    hash: str
    context: str = ""
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
    """All that the extractor reads next to the words of a turn. `now`: the time of the turn; `before`: texts
    before it, oldest first."""

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
        {"now": around.now.strftime("%A %Y-%m-%d %H:%M UTC")} if around.now else {}
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
    docs/behaviour.md#episodic-duplicates, up to the rules that need vectors. `finds_out`: whether the
    assistant had anything to find out something from; `trusted`: whether it may be believed; `around`: what
    the extractor read next to the turn."""
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
    what the assistant proposed, if the quote accepts it."""

    source: Source
    piece: str
    message: Message
    accepted: str = ""


@dataclass(frozen=True)
class _Acceptance:
    """A message of the user's that accepts what the assistant proposed just before it."""

    message: Message
    proposal: str
    witness: Witness

    def is_told_by(self, content: str) -> bool:
        """Return whether a content says something that only the proposal says."""
        a, own, proposal = (statement(t) for t in (content, self.message.text, self.proposal))
        topics = (a.topics - own.topics) & proposal.topics
        return bool(topics | ((a.literals - own.literals) & proposal.literals))


def _around(quote: _Quote) -> str:
    """Return the quote with the words next to it: they may say that it corrects something."""
    text = redact(normalise(_visible_text(quote.message)))
    start = max(text.find(quote.piece), 0)
    return text[max(start - _MAX_CONTEXT, 0) : start + len(quote.piece) + _MAX_CONTEXT]


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
        self._accepted = list(_acceptances(before, dialogue))
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
        content = without_reminder(redact(content))
        if kind and kind not in KINDS and not (kind == REQUESTED and self._settings.instructions):
            return Refusal.OTHER
        quote = None if is_example("extractor", evidence) else self._quote(evidence)
        if quote is None:
            return Refusal.NO_EVIDENCE
        # Small models call a wish a symptom. What is still to be done may be a wish.
        if kind != "open" and not self._settings.instructions:
            content = without_role(content)
            if is_only_about_user(content):
                return Refusal.OTHER
        content = self._untranslated(content, quote)
        if missing_anchors(self._without_dates(content), self._texts):
            return Refusal.UNSAID
        quote = self._accepting(content, quote)
        content = self._faithful(content, quote)
        source = quote.source
        # Own words next to a log do not vouch for what stands only in the log.
        vouches = source in ("user_assertion", "user_accepted_assistant_proposal")
        if vouches and missing_anchors(self._without_dates(content), self._known_texts):
            source = "quoted_text"
        verified = self._is_verified(source)
        if not verified and self._settings.assistant_evidence == "refuse":
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
            context=_around(quote),
            accepted=redact(quote.accepted)[:_MAX_EVIDENCE],
            replaces=numbers_of(item.get("replaces")),
            same=numbers_of(item.get("same")),
        )

    def _untranslated(self, content: str, quote: _Quote) -> str:
        """Return the content, or the quote if the content is in a language that nobody spoke: small models
        translate, and words find no translation."""
        own_words = " ".join([quote.piece, *self._own_texts])
        # What a mail or a page says is not to be kept in its own words, which may be orders.
        is_wanted = self._settings.instructions is not None or quote.source == "quoted_text"
        if (
            is_wanted
            or not is_translation(content, quote.piece)
            or not is_translation(content, own_words)
        ):
            return content
        return redact(quote.piece)

    def _faithful(self, content: str, quote: _Quote) -> str:
        """Return the content, or the user's own quote if the content tells less than half of it and lost
        what matters: words beside a secret, which models leave out with it, or a denial."""
        if self._settings.instructions or quote.source != "user_assertion":
            return content
        words = redact(quote.piece)
        around = _WITH_SECRET.sub(" ", words)
        # A denial between sentences may take back what was said before it.
        is_denial = denies(around) and not denies(content) and not _SENTENCES.search(around)
        if around == words and not is_denial:
            return content
        whole = statement(around)
        share = whole.coverage(statement(content).topics)
        return content if len(whole.topics) < MIN_TOPICS or share >= _MIN_SHARE else words

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
        for accepted in self._accepted:
            if piece := accepted.witness.own_piece(evidence):
                words = normalise(_visible_text(accepted.message))
                return _Quote("user_accepted_assistant_proposal", words, accepted.message, piece)
        for message, witness in self._findings:
            if piece := witness.piece(evidence):
                return _Quote("verified_assistant_finding", piece, message)
        return None

    def _accepting(self, content: str, quote: _Quote) -> _Quote:
        """Return the quote with what it accepts, if the content says what the assistant proposed."""
        if quote.source != "user_assertion":
            return quote
        for accepted in self._accepted:
            if accepted.message is quote.message and accepted.is_told_by(content):
                source: Source = "user_accepted_assistant_proposal"
                return replace(quote, source=source, accepted=normalise(accepted.proposal))
        return quote

    def _without_dates(self, content: str) -> str:
        """Return the content without dates that the turn names in relation to its day."""
        if self._now is None:
            return content
        return without_resolved_dates(content, self._own_texts, self._now)

    def _is_verified(self, source: Source) -> bool:
        if source == "verified_assistant_finding":
            return self._trusted or self._settings.assistant_evidence == "trust"
        return source != "quoted_text"


def _acceptances(before: Sequence[Message], dialogue: Sequence[Message]) -> Iterator[_Acceptance]:
    """Yield the messages of the turn that accept what the assistant said just before them."""
    newest: Message | None = before[-1] if before else None
    for message in dialogue:
        is_answer = newest is not None and newest.role is Role.ASSISTANT
        if message.role is Role.USER and newest is not None and is_answer and accepts(message.text):
            is_before = newest in before
            text = _text_before(newest) if is_before else _visible_text(newest)
            yield _Acceptance(message, text, Witness(text))
        newest = message


# Similar entries


Vector = Sequence[float]


@dataclass(frozen=True)
class Selection:
    """A candidate that is to be stored. `supersedes`: the stored entries that it replaces."""

    candidate: Candidate
    vector: tuple[float, ...] | None = None
    supersedes: tuple[str, ...] = ()


def select(
    candidates: Sequence[Candidate],
    vectors: Sequence[tuple[float, ...] | None],
    similar: Sequence[SimilarEntry],
    least: float | None,
    said_at: datetime,
    by_words: Sequence[MemoryEntry] = (),
    known_entries: Sequence[MemoryEntry] = (),
) -> list[Selection]:
    """Return the candidates that are new. `least`: the cosine at which two are the same; None: nothing is
    dropped. `similar`: stored entries like them (`SimilarEntry.place`: the candidate's); `by_words`: stored
    ones with some of their words; `known_entries`: those that the extractor was shown, in its order.
    `said_at`: the time of the candidates' turn; stored entries may be from a later one."""
    selections: list[Selection] = []
    for place, (candidate, vector) in enumerate(zip(candidates, vectors, strict=True)):
        nearest = [s for s in similar if s.place == place]
        near = {e.id: _verdict_by_words(candidate, e, said_at) for e in by_words}
        near |= {s.id: _verdict(candidate, s, said_at) for s in nearest}
        near |= _claimed_verdicts(candidate, known_entries, [*by_words, *nearest], near, said_at)
        if _Verdict.OUTDATED in near.values():
            continue
        same = _Verdict.SAME in near.values()
        if least is not None and (same or _is_repeated(candidate, vector, selections, least)):
            continue
        over = {_Verdict.SUPERSEDES} if least is None else {_Verdict.SUPERSEDES, _Verdict.VOUCHES}
        ids = [id for id, verdict in near.items() if verdict in over]
        shorter = [s for s in selections if least is not None and _says_all(candidate, s.candidate)]
        for each in shorter:
            selections.remove(each)
            ids += each.supersedes
        selections.append(Selection(candidate, vector, tuple(dict.fromkeys(ids))))
    return selections


def _says_all(candidate: Candidate, other: Candidate) -> bool:
    """Return whether a candidate can stand for another one of its turn."""
    is_as_good = candidate.verified or not other.verified
    return is_as_good and adds_nothing(other.content, candidate.content)


_REPLACING = frozenset({Relation.AGAINST, Relation.MORE})


class _Verdict(Enum):
    """The relation of a candidate to a similar stored entry."""

    SAME = auto()
    BESIDE = auto()
    SUPERSEDES = auto()
    VOUCHES = auto()
    """It says the same, and is verified now."""
    OUTDATED = auto()
    """A stored entry contradicts it and was said later."""


def _verdict(candidate: Candidate, entry: SimilarEntry, said_at: datetime) -> _Verdict:
    """Compare the two. If only one of them can hold, the later one wins, unless it is unverified and the
    other verified: both are then kept, the doubtful one with its label."""
    mine = relation(candidate.content, entry.content, candidate.evidence, candidate.context)
    if entry.created_at > said_at:
        theirs = relation(entry.content, candidate.content, entry.evidence)
        doubtful = candidate.verified and not entry.verified
        if theirs in _REPLACING and not doubtful:
            return _Verdict.OUTDATED
        return _Verdict.SAME if theirs is mine is Relation.SAME else _Verdict.BESIDE
    if mine in _REPLACING:
        doubtful = entry.verified and not candidate.verified
        return _Verdict.BESIDE if doubtful else _Verdict.SUPERSEDES
    if mine is Relation.OTHER:
        return _Verdict.BESIDE
    return _Verdict.VOUCHES if candidate.verified and not entry.verified else _Verdict.SAME


def _verdict_by_words(candidate: Candidate, entry: MemoryEntry, said_at: datetime) -> _Verdict:
    """Compare the two by their words only, which say less than vectors: in doubt both are kept."""
    new, old = candidate.content, entry.content
    if entry.created_at > said_at:
        is_outdated = replaces(old, new, entry.evidence) and (
            entry.verified or not candidate.verified
        )
        if is_outdated:
            return _Verdict.OUTDATED
    elif replaces(new, old, candidate.evidence, candidate.context):
        doubtful = entry.verified and not candidate.verified
        return _Verdict.BESIDE if doubtful else _Verdict.SUPERSEDES
    if not adds_nothing(new, old):
        return _Verdict.BESIDE
    return _Verdict.VOUCHES if candidate.verified and not entry.verified else _Verdict.SAME


def _claimed_verdicts(
    candidate: Candidate,
    known_entries: Sequence[MemoryEntry],
    stored: Sequence[MemoryEntry | SimilarEntry],
    verdicts: Mapping[str, _Verdict],
    said_at: datetime,
) -> dict[str, _Verdict]:
    """Return the verdicts on the known entries of which the extractor says that the candidate replaces or
    repeats them, as far as the words allow it. Only what still stands as it was shown counts."""
    by_number = dict(enumerate(known_entries, 1))
    current = {e.id: e for e in stored}
    claimed: dict[str, _Verdict] = {}
    for number in (*candidate.same, *candidate.replaces):
        entry = current.get(by_number[number].id) if number in by_number else None
        if (
            entry is None
            or entry.content != by_number[number].content
            or entry.created_at > said_at
        ):
            continue
        doubtful = entry.verified and not candidate.verified
        if number in candidate.replaces:
            if may_replace(candidate.content, entry.content, candidate.evidence, candidate.context):
                claimed[entry.id] = _Verdict.BESIDE if doubtful else _Verdict.SUPERSEDES
            elif verdicts.get(entry.id) is _Verdict.SAME and candidate.hash != hash_of(
                entry.content
            ):
                claimed[entry.id] = _Verdict.BESIDE
        elif says_the_same(candidate.content, entry.content, candidate.evidence, entry.evidence):
            vouches = candidate.verified and not entry.verified
            claimed[entry.id] = _Verdict.VOUCHES if vouches else _Verdict.SAME
    return claimed


def _is_repeated(
    candidate: Candidate, vector: Vector | None, selections: Sequence[Selection], least: float
) -> bool:
    """Return whether another entry of the same turn says the same already."""
    if any(adds_nothing(candidate.content, other.candidate.content) for other in selections):
        return True
    if vector is None:
        return False
    return any(
        other.vector is not None
        and (cosine(vector, other.vector) or 0.0) >= least
        and relation(candidate.content, other.candidate.content) is Relation.SAME
        for other in selections
    )

"""The evaluation set as values: what was said, what has to be remembered of it and what must not be.
The format is described in README.md beside this file."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator

from layover.plugins.memory.learns.rules import Refusal
from layover.plugins.memory.text.courtesies import is_courtesy
from layover.values.message import Message, Role, TextPart, ToolCallPart, ToolResultPart

C = TypeVar("C", bound=BaseModel)

HERE = Path(__file__).parent
TOPICS = (
    "debugging",
    "preferences",
    "agent_rules",
    "task",
    "advice",
    "restated",
    "corrections",
    "speculation",
    "findings",
    "proposals",
    "directions",
    "questions",
    "planted",
    "secrets",
    "markup",
    "contradictions",
    "duplicates",
    "invented",
    "limits",
)
START = datetime(2026, 11, 20, 9, tzinfo=UTC)
"""The start of a transcript without times."""

Outcome = Literal[
    "stored",
    "unverified",
    "superseded",
    "no_evidence",
    "wrong_role",
    "too_short",
    "other",
    "unsaid",
    "empty",
    "duplicate",
    "similar",
    "too_many",
]
"""Outcomes of a proposal. `unverified`: stored with that label; `superseded`: stored, and gone at the end;
the others name why it is refused."""
KEPT: tuple[Outcome, ...] = ("stored", "unverified")
REASONS: dict[Outcome, Refusal] = {
    "no_evidence": Refusal.NO_EVIDENCE,
    "wrong_role": Refusal.NO_EVIDENCE,
    "too_short": Refusal.NO_EVIDENCE,
    "other": Refusal.OTHER,
    "unsaid": Refusal.UNSAID,
    "empty": Refusal.EMPTY,
    "duplicate": Refusal.REPEATED,
    "similar": Refusal.SIMILAR,
    "too_many": Refusal.OVER_LIMIT,
}
"""The reason under which the product counts a refusal."""


class Model(BaseModel):
    """A part of a case: a field that nobody knows is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Said(Model):
    """A text of one of the two speakers."""

    role: Literal["user", "assistant"]
    text: str = Field(min_length=1)
    at: datetime | None = None


class ToolUse(Model):
    """A call of a tool with its result. `trusted`: the tool is declared so."""

    role: Literal["tool"]
    name: str
    args: dict[str, Any] = {}
    result: Any = None
    is_error: bool = False
    trusted: bool = False
    at: datetime | None = None


Item = Annotated[Said | ToolUse, Field(discriminator="role")]


class Point(Model):
    """Something that a text has to say. It does, where it matches every pattern of one of the alternatives
    (regular expressions, without regard to case)."""

    fact: str
    patterns: Annotated[list[Annotated[list[str], Field(min_length=1)]], Field(min_length=1)]

    def is_in(self, texts: Sequence[str]) -> bool:
        """Return whether one of the texts states the fact."""
        return self.count_in(texts) > 0

    def count_in(self, texts: Sequence[str]) -> int:
        """Count the texts that state the fact."""
        return sum(
            any(all(matches(p, text) for p in together) for together in self.patterns)
            for text in texts
        )


class Fact(Point):
    """Something that has to be remembered. `evidence`: where it was said."""

    evidence: str


class Proposal(Model):
    """An entry that an extractor proposes, and what becomes of it. `replaces`, `same`: contents of known
    entries that it names; `stored_as`: where that is not the content itself."""

    evidence: str
    kind: str = "symptom"
    content: str
    replaces: list[str] = []
    same: list[str] = []
    outcome: Outcome = "stored"
    stored_as: str | None = Field(default=None, alias="as")


class Judged(Model):
    """A case of any task. `may_keep`: without `must`, all may be kept but `must_not`."""

    id: str
    language: str
    why: str
    must: Sequence[Point] = ()
    must_not: list[str] = []
    may_keep: bool = False

    def forbidden(self, texts: Sequence[str]) -> list[tuple[str, str]]:
        """(pattern, text) of what must not be remembered and is."""
        return [(p, text) for p in self.must_not for text in texts if matches(p, text)]


class _Conversation(Judged):
    known: list[str] = []
    messages: Annotated[list[Item], Field(min_length=2, max_length=10)]
    must: Sequence[Fact] = ()
    must_not: Annotated[list[str], Field(min_length=1)]

    def texts(self, *roles: str) -> list[str]:
        """Return the texts of these speakers."""
        return [m.text for m in self.messages if isinstance(m, Said) and m.role in roles]


@dataclass(frozen=True)
class Step:
    """One step of the assistant: words, and calls with them (none: the turn's last step)."""

    text: str
    tools: tuple[ToolUse, ...] = ()


@dataclass(frozen=True)
class Turn:
    """A text of the user's and all that the assistant does then."""

    user: str
    steps: tuple[Step, ...]

    @property
    def assistant(self) -> list[str]:
        """The assistant's texts."""
        return [s.text for s in self.steps if s.text]


class Transcript(_Conversation):
    """A conversation for the extractor. Without `must`, nothing of it belongs in memory (`may_keep`: all
    may be kept but `must_not`).

    `scripted`: for each turn what an extractor answers, as proposals or as raw text (of which nothing is
    stored); `wrapped`: what stands around its JSON; `gone`: known entries that are superseded;
    `awaits`: a defect of the product's that keeps it from what the script expects."""

    topic: str
    gone: list[str] = []
    wrapped: str = "{answer}"
    scripted: list[list[Proposal] | str]
    awaits: str | None = None

    @property
    def turns(self) -> list[Turn]:
        """The conversation by the user's messages."""
        starts = [i for i, m in enumerate(self.messages) if m.role == "user"]
        ends = [*starts[1:], len(self.messages)]
        return [_turn(self.messages[a:b]) for a, b in zip(starts, ends, strict=True)]

    @property
    def tools(self) -> dict[str, list[ToolUse]]:
        """Every tool's uses, in order."""
        uses = [m for m in self.messages if isinstance(m, ToolUse)]
        return {u.name: [v for v in uses if v.name == u.name] for u in uses}

    def proposals(self) -> Iterator[tuple[Turn, Proposal]]:
        """All that is proposed, with the turn that it is drawn from."""
        for turn, answer in zip(self.turns, self.scripted, strict=True):
            for proposal in answer if isinstance(answer, list) else ():
                yield turn, proposal

    def answer(self, turn: int, asked: str) -> str:
        """Return the scripted extractor's answer to what it is asked after this turn."""
        answer = self.scripted[turn]
        if isinstance(answer, str):
            return answer
        return self.wrapped.replace("{answer}", shown(answer, known_in(asked)))

    @property
    def kept(self) -> list[tuple[str, bool]]:
        """(text, whether it is verified) of what the script leaves in memory, in its order."""
        return [
            (p.stored_as or p.content, p.outcome == "stored")
            for _, p in self.proposals()
            if p.outcome in KEPT
        ]

    @property
    def number_read(self) -> int:
        """The number of turns that the extractor reads: not those in which nobody says more than thanks."""
        worked = ([u for s in t.steps for u in s.tools if not u.is_error] for t in self.turns)
        turns = zip(self.turns, worked, strict=True)
        return sum(not is_courtesy(turn.user) or bool(uses) for turn, uses in turns)

    @property
    def refused(self) -> Counter[str]:
        """The number of proposals that the product has to refuse, by its reasons."""
        outcomes = (p.outcome for _, p in self.proposals())
        return Counter(REASONS[o].value for o in outcomes if o in REASONS)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.topic not in TOPICS:
            raise ValueError(f"{self.id}: no such topic: {self.topic}")
        if self.messages[0].role != "user" or not all(t.steps[-1:] for t in self.turns):
            raise ValueError(f"{self.id}: every turn is a user's text and an answer")
        if len(self.scripted) != len(self.turns):
            raise ValueError(f"{self.id}: {len(self.turns)} turns, {len(self.scripted)} answers")
        if not set(self.gone) <= set(self.known):
            raise ValueError(f"{self.id}: what is gone was not known")
        return self


class Line(Model):
    """An observation as it has to come out of an answer. `child`: a detail of the last line that is none."""

    marker: str
    at: datetime
    text: str
    child: bool = False


class Observed(_Conversation):
    """A conversation for the observer. `scripted`: its answer; `lines`: what is read from it; `hidden`:
    patterns that the observer does not even get to see."""

    scripted: str
    lines: list[Line]
    hidden: list[str] = []

    @property
    def thread(self) -> list[Message]:
        """The conversation as a thread's messages."""
        return [m for i, item in enumerate(self.messages) for m in messages_of(item, i)]


SETS = ("main", "apart")
"""`main`: conversations that prompts may be tuned to; `apart`: those that no prompt was tuned to."""
_FOLDERS = {"main": HERE / "transcripts", "apart": HERE / "apart"}


@cache
def transcripts(set_name: str = "main") -> tuple[Transcript, ...]:
    """Return a set of the extractor's conversations; () if its folder is missing."""
    return load(_FOLDERS[set_name], Transcript)


def every_transcript() -> tuple[Transcript, ...]:
    """Return the conversations of all sets."""
    return tuple(case for name in SETS for case in transcripts(name))


@cache
def observed() -> tuple[Observed, ...]:
    """The observer's set."""
    return load(HERE / "observer", Observed)


def matches(pattern: str, text: str) -> bool:
    """Return whether the pattern is in the text, regardless of case and of runs of white space."""
    return re.search(pattern, " ".join(text.split()), re.IGNORECASE) is not None


def shown(proposals: Sequence[Proposal], known: Mapping[str, int] = MappingProxyType({})) -> str:
    """The JSON of an extractor's answer. `known`: the numbers of the entries that it may name."""
    entries = [p.model_dump(include={"evidence", "kind", "content"}) for p in proposals]
    for entry, proposal in zip(entries, proposals, strict=True):
        entry["replaces"] = [known[text] for text in proposal.replaces if text in known]
        entry["same"] = [known[text] for text in proposal.same if text in known]
    return json.dumps({"entries": entries}, ensure_ascii=False)


def known_in(asked: str) -> dict[str, int]:
    """Return the known entries that a request for entries shows, with their numbers."""
    known: dict[str, str] = json.loads(asked)["known"]
    return {text: int(number) for number, text in known.items()}


def load(folder: Path, kind: type[C]) -> tuple[C, ...]:
    """Return the cases of a folder's files, in order; () if there is no such folder."""
    files = sorted(folder.glob("*.json"))
    return tuple(case for f in files for case in load_file(f, kind))


def load_file(path: Path, kind: type[C]) -> tuple[C, ...]:
    """Return the cases of a file. Raises OSError, ValueError."""
    adapter: TypeAdapter[list[C]] = TypeAdapter(list[kind])  # type: ignore[valid-type]
    return tuple(adapter.validate_json(path.read_bytes()))


def _turn(items: Sequence[Said | ToolUse]) -> Turn:
    """Words that come before calls are one step with them."""
    user, *rest = items
    assert isinstance(user, Said)
    steps: list[Step] = []
    for item in rest:
        if isinstance(item, Said):
            steps.append(Step(item.text))
        elif steps:
            steps[-1] = Step(steps[-1].text, (*steps[-1].tools, item))
        else:
            steps.append(Step("", (item,)))
    if not steps or steps[-1].tools or not all(s.tools for s in steps[:-1]):
        raise ValueError(f"a turn ends in one answer without calls: {user.text!r}")
    return Turn(user.text, tuple(steps))


def messages_of(item: Said | ToolUse, index: int) -> list[Message]:
    """Return an item of a conversation as a thread's messages; `index`: its place."""
    at = item.at or START + timedelta(minutes=index)
    common: dict[str, Any] = {"thread_id": "t1", "created_at": at}
    if isinstance(item, Said):
        text = TextPart(text=item.text)
        return [Message(id=f"m{index}", role=Role(item.role), content=(text,), **common)]
    names = {"tool_call_id": f"c{index}", "tool_name": item.name}
    asked = ToolCallPart(args=item.args, **names)
    answer = ToolResultPart(result=item.result, is_error=item.is_error, **names)
    return [
        Message(id=f"m{index}a", role=Role.ASSISTANT, content=(asked,), **common),
        Message(id=f"m{index}b", role=Role.TOOL, content=(answer,), **common),
    ]

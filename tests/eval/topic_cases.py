"""Cases of the tasks beside extractor and observer. Each has good and bad answers of a scripted model: the
judge has to tell them apart. The format is described in README.md beside this file."""

import json
from collections.abc import Sequence
from datetime import timedelta
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import Field

from eval.cases import HERE, START, Item, Judged, Model, Step, Turn, load_file, messages_of
from layover.values.memory.compaction import Marker, Observation
from layover.values.message import Message

Answer = str | dict[str, Any]
"""What a model says; an object is said as its JSON."""


class Bad(Model):
    """Answers that the judge has to find fault with. `because`: a pattern of one of its remarks."""

    answers: Annotated[list[Answer], Field(min_length=1)]
    because: str


class Case(Judged):
    """A case with answers for its judge: each a list in the order of the requests, the last one for all that
    follow."""

    good: Annotated[list[Annotated[list[Answer], Field(min_length=1)]], Field(min_length=1)]
    bad: Annotated[list[Bad], Field(min_length=1)]


class TitleCase(Case):
    """A conversation's first message, which is to be named. Where no blanks separate words, each character
    counts as one."""

    message: str
    most_words: int = 8


class Exchange(Model):
    """What was said in a turn."""

    user: str
    assistant: str

    @property
    def turn(self) -> Turn:
        """The turn, as it is played."""
        return Turn(self.user, (Step(self.assistant),))


class NotesCase(Case):
    """Turns that a profile, or the notes of a session, are made of. `known`: what they had before; `gone`:
    patterns of lines of it that hold no longer."""

    known: dict[str, Any] = {}
    turns: Annotated[list[Exchange], Field(min_length=1)]
    gone: list[str] = []


class ThreadCase(Case):
    """A thread that is observed turn by turn. Each fact of `must` has to be in one observation at the end,
    and in one only."""

    turns: Annotated[list[Exchange], Field(min_length=2)]


class SummaryCase(Case):
    """Messages that leave the prompt, and the summary of those before them."""

    previous: str | None = None
    messages: list[Item]
    most_words: int = 300

    @property
    def thread(self) -> list[Message]:
        """The messages of the thread."""
        return [m for i, item in enumerate(self.messages) for m in messages_of(item, i)]


class Line(Model):
    """An observation of a log. `parent`: the id of the one that it is a detail of."""

    id: str
    marker: Marker = Marker.INFO
    text: str
    parent: str | None = None


class ReflectorCase(Case):
    """Observations that have become too many. Each fact of `must` has to be in one line afterwards, and in
    one only; `most`: lines that may be left."""

    log: list[Line]
    most: int

    @property
    def observations(self) -> tuple[Observation, ...]:
        """The log."""
        return tuple(
            Observation(
                id=line.id,
                at=START + timedelta(minutes=minute),
                marker=line.marker,
                text=line.text,
                parent_id=line.parent,
            )
            for minute, line in enumerate(self.log)
        )


class Question(Model):
    """A question about what is remembered. `patterns`: of the right entry; none: nothing of it is known."""

    question: str
    patterns: list[str] = []


class BadHits(Model):
    """Entries, for each question, that the judge has to find fault with."""

    hits: list[list[str]]
    because: str


class RecallCase(Judged):
    """Entries and questions. The right entry has to be among the first `within`."""

    known: list[str]
    questions: list[Question]
    within: int = 3
    good: list[list[list[str]]]
    bad: list[BadHits]


class Call(Model):
    """A scripted model's call."""

    call: Literal["lookup_order", "refund", "recall_memory"]
    args: dict[str, Any]


class BadRun(Model):
    """Steps that the judge has to find fault with; the last one is repeated."""

    steps: list[Call | str]
    because: str


class LoopCase(Judged):
    """Turns in an environment that does not change: memory is empty, a look-up returns the same, and a person
    denies each refund. `must`: of the last answers of the turns; `most_asked`: how often a person may be
    asked in all."""

    turns: list[str]
    order: Any
    deny: str = "no"
    most_requests: int
    most_asked: int = 0
    good: list[list[Call | str]]
    bad: list[BadRun]


def said(answer: Answer) -> str:
    """Return an answer as a model says it."""
    return answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)


_KINDS: dict[str, type[Judged]] = {
    "title": TitleCase,
    "profile": NotesCase,
    "session": NotesCase,
    "summary": SummaryCase,
    "reflector": ReflectorCase,
    "recall": RecallCase,
    "loops": LoopCase,
}


@cache
def threads_apart() -> Sequence[ThreadCase]:
    """Return the threads that no prompt was tuned to, in order."""
    return load_file(HERE / "apart" / "observer" / "once.json", ThreadCase)


@cache
def topic_cases(topic: str) -> Sequence[Any]:
    """Return the cases of a topic in `topics`, in order."""
    return load_file(HERE / "topics" / f"{topic}.json", _KINDS[topic])

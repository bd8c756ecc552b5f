"""Pairs of statements of which each has a truth: the later one takes the place of the earlier one, or both
hold. What becomes of a pair is decided by what an extractor says of it. README.md in this folder says where
they come from."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from enum import StrEnum
from functools import cache
from itertools import combinations

from eval.cases import HERE, START, Model, load_file
from eval.scores import Score
from eval.watched import Watched
from layover import EpisodicMemory
from layover.errors import LayoverError
from layover.plugins.memory.learns.rules import (
    Surroundings,
    check_entries,
    hash_of,
    request,
    select,
)
from layover.values.memory.entry import MemoryEntry
from layover.values.message import Message, Role, TextPart
from layover.values.prompt import Prompt

GROUPS = {"main": ("sentences", "free", "both_hold"), "apart": ("apart", "languages")}
"""The files of each set, in `statements`."""
MOST_OF_KIND = 2
"""Pairs of a kind, of each truth, that a model is asked about. About `languages` it is asked in full."""
_SETTINGS = EpisodicMemory()
_LATER = START + timedelta(days=1)


class Fate(StrEnum):
    """What becomes of the two statements."""

    STAND = "both stand"
    REPLACED = "the earlier one is superseded"
    LOST = "the later one is not stored"


class Pair(Model):
    """Two statements. `replaces`: the later one says of the same thing what holds now; `said`: the words in
    which a user says the later one, "" for its own."""

    kind: str
    language: str = ""
    old: str
    new: str
    replaces: bool
    said: str = ""

    @property
    def message(self) -> Message:
        """The later statement, as the user says it."""
        text = TextPart(text=self.said or self.new)
        return Message(id="m", thread_id="t", role=Role.USER, content=(text,), created_at=_LATER)

    @property
    def known(self) -> MemoryEntry:
        """The earlier statement, as it is stored."""
        about = {"id": "old", "agent": "a", "source": "user_assertion", "thread_id": "t"}
        said = {"content": self.old, "evidence": self.old, "created_at": START}
        return MemoryEntry.model_validate(about | said)

    def request(self, model: str) -> Prompt:
        """Return what the extractor is asked, with the earlier statement as known entry 1."""
        around = Surroundings(now=_LATER)
        return request(model, [self.message], None, [self.old], _SETTINGS, around)

    def fate(self, answer: str) -> Fate:
        """Return what becomes of it with this answer of the extractor's."""
        around = Surroundings(now=_LATER)
        check = check_entries(answer, [self.message], _SETTINGS, trusted=True, around=around)
        # As in the product, what is known in the same words is no news.
        news = [c for c in check.candidates if c.hash != hash_of(self.old)]
        selections = select(news, [self.known], {"old": self.known}, _LATER)
        if any(selection.supersedes for selection in selections):
            return Fate.REPLACED
        return Fate.STAND if selections else Fate.LOST


class AskedPair(Pair):
    """A pair that a model is asked about. `group`: its row in the table."""

    id: str
    group: str


class _Sentence(Model):
    """A sentence with `{x}`, the thing, and `{v}`, what holds of it."""

    kind: str
    language: str
    text: str
    things: list[str]
    values: list[str]

    def pairs(self) -> Iterator[Pair]:
        """Yield pairs of the same thing with two values, of two things with one value, and of two things
        with two values."""
        x, v = self.things[0], self.values[0]
        for old, new in combinations(self.values, 2):
            yield self._pair((x, old), (x, new), replaces=True)
        for old, new in combinations(self.things, 2):
            yield self._pair((old, v), (new, v), replaces=False)
        yield self._pair((x, v), (self.things[1], self.values[1]), replaces=False)

    def _pair(self, old: tuple[str, str], new: tuple[str, str], *, replaces: bool) -> Pair:
        before, now = (self.text.format(x=x, v=v) for x, v in (old, new))
        of = {"kind": self.kind, "language": self.language}
        return Pair(**of, old=before, new=now, replaces=replaces)


@cache
def pairs(group: str) -> Sequence[Pair]:
    """Return the pairs of a group, in order."""
    file = HERE / "statements" / f"{group}.json"
    if group != "sentences":
        return load_file(file, Pair)
    return tuple(pair for sentence in load_file(file, _Sentence) for pair in sentence.pairs())


def asked_pairs(set_name: str) -> Sequence[AskedPair]:
    """Return the pairs of a set that a model is asked about: some of each kind, always the same ones."""
    return [
        AskedPair(**pair.model_dump(), id=f"{group}-{number}", group=group)
        for group in GROUPS[set_name]
        for number, pair in enumerate(_sample(group), start=1)
    ]


def _sample(group: str) -> Sequence[Pair]:
    every = pairs(group)
    if group == "languages":
        return every
    kinds = dict.fromkeys((pair.kind, pair.replaces) for pair in every)
    of_kinds = ([p for p in every if (p.kind, p.replaces) == kind] for kind in kinds)
    return [p for some in of_kinds for p in some[:: -(-len(some) // MOST_OF_KIND)]]


async def play_pair(case: AskedPair, name: str, model: Watched) -> Score:
    """Ask the extractor of this name about a pair. `facts`: true replacements, `found`: those of them that
    are made, `wrong`: other replacements; `stored`: pairs of which the later statement is kept."""
    score = Score()
    try:
        reply = await model.complete(case.request(name))
    except LayoverError:
        return score
    fate = case.fate(reply.text)
    is_made = fate is Fate.REPLACED
    score.facts = int(case.replaces)
    score.found = int(case.replaces and is_made)
    score.wrong = int(is_made and not case.replaces)
    score.stored = int(fate is not Fate.LOST)
    if fate is Fate.LOST or is_made is not case.replaces:
        score.remarks.append(f"{case.id}: {fate}: {case.old} | {case.message.text}")
    return score

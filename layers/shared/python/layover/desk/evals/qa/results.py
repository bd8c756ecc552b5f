"""Results of questions: a file with a line for each, from which a measurement goes on, and their figures."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import ValidationError

from layover.desk.evals.qa.judge import PAIRS
from layover.desk.evals.report import interval
from layover.desk.failures import CommandFailed
from layover.values.base import Value, compact_json


class ResultsInvalid(CommandFailed):
    """The measurement cannot go on from the file. The message says why, and what to do."""


class Setup(Value):
    """Everything that a result depends on and that is not code: the file's first line. `prompts`: a digest of
    each; `data`: of the file of questions."""

    layover_bench_qa: Literal[1] = 1
    data: str
    form: str
    model: str
    judge: str
    extractor: str
    observer: str
    embedder: str
    prompts: dict[str, str]


class Answered(Value):
    """A question that was asked. `right` None: there is no answer (`problem`), or no verdict. `again`: the
    judge's second verdict, of those that it was asked for twice."""

    id: str
    kind: str
    question: str
    reference: str
    answer: str
    tokens: int
    right: bool | None
    reason: str
    problem: str | None = None
    again: bool | None = None


class KnownPair(Value):
    """The judge's verdict on a known pair, by its place."""

    pair: int
    holds: bool | None


class Learned(Value):
    """The contents of memory after a conversation, when its questions were asked."""

    conversation: str
    entries: int
    observations: int


Line = Answered | KnownPair | Learned
_KINDS: dict[str, type[Line]] = {"answered": Answered, "pair": KnownPair, "learned": Learned}
_NAMES = {kind: name for name, kind in _KINDS.items()}


class Results:
    """The results so far. `path` None: they are in no file."""

    def __init__(self, path: Path | None, lines: Sequence[Line] = ()) -> None:
        self._path = path
        self.lines: list[Line] = list(lines)

    @classmethod
    def open(cls, path: Path | None, setup: Setup) -> Self:
        """Return the results in a file, which is begun if it is not there. A last line that is cut, as a
        process that dies leaves it, is removed. Raises ResultsInvalid."""
        if path is None:
            return cls(None)
        try:
            if not path.exists():
                path.write_text(compact_json(setup.model_dump(mode="json")) + "\n", "utf-8")
                return cls(path)
            *whole, rest = path.read_text("utf-8").split("\n")
            lines = [json.loads(text) for text in whole]
            if rest:
                path.write_text("".join(f"{text}\n" for text in whole), "utf-8")
        except (OSError, ValueError) as error:
            raise ResultsInvalid(f"{path} cannot be gone on with: {error}") from error
        if not lines or not isinstance(lines[0], dict) or lines[0].get("layover_bench_qa") != 1:
            raise ResultsInvalid(f"{path} is not a file of `layover bench qa`: name another file")
        other = [
            n for n, value in setup.model_dump(mode="json").items() if lines[0].get(n) != value
        ]
        if other:
            raise ResultsInvalid(
                f"{path} was measured with another {', another '.join(other)}: name another file"
            )
        try:
            return cls(
                path, [_KINDS[line["line"]].model_validate(line["of"]) for line in lines[1:]]
            )
        except (LookupError, TypeError, ValidationError) as error:
            raise ResultsInvalid(f"{path} has a line that cannot be read: {error}") from error

    def add(self, line: Line) -> None:
        """Add a result, and write it down. Raises OSError."""
        self.lines.append(line)
        if self._path is not None:
            row = {"line": _NAMES[type(line)], "of": line.model_dump(mode="json")}
            with self._path.open("a", encoding="utf-8") as file:
                file.write(compact_json(row) + "\n")

    @property
    def answered(self) -> list[Answered]:
        """The questions that were asked, each as it was asked last."""
        by_id = {line.id: line for line in self.lines if isinstance(line, Answered)}
        return list(by_id.values())

    @property
    def pairs(self) -> dict[int, bool | None]:
        """The judge's verdicts on known pairs."""
        return {line.pair: line.holds for line in self.lines if isinstance(line, KnownPair)}


def report(results: Results) -> Iterator[str]:
    """Yield the report for people."""
    answered = results.answered
    judged = [each for each in answered if each.right is not None]
    for kind in sorted({each.kind for each in judged}):
        yield _line(kind, [bool(e.right) for e in judged if e.kind == kind])
    yield _line("all questions", [bool(each.right) for each in judged])
    if without := len(answered) - len(judged):
        yield f"{without} questions have no answer or no verdict, and are in no figure"
    yield from _report_pairs(results)
    twice = [each.again != each.right for each in judged if each.again is not None]
    yield _line("judge: another verdict when asked again", twice)
    learned = {line.conversation: line for line in results.lines if isinstance(line, Learned)}
    entries, observations = (
        sum(line.entries for line in learned.values()),
        sum(line.observations for line in learned.values()),
    )
    tokens = sum(each.tokens for each in answered)
    yield (
        f"{len(learned)} conversations, {entries:,} entries, {observations:,} observations, "
        f"{tokens:,} tokens of answers"
    )


def _report_pairs(results: Results) -> Iterator[str]:
    """Yield how wrong the judge is about pairs whose verdict is known."""
    pairs = {n: holds for n, holds in results.pairs.items() if holds is not None}
    wrong = [holds != PAIRS[n].holds for n, holds in pairs.items()]
    yield _line("judge: wrong on known pairs", wrong)
    yield _line("  takes wrong for right", [h for n, h in pairs.items() if not PAIRS[n].holds])
    yield _line("  takes right for wrong", [not h for n, h in pairs.items() if PAIRS[n].holds])


def figures(setup: Setup, results: Results) -> dict[str, Any]:
    """Return the same as JSON, with every question."""
    answered = results.answered
    judged = [each for each in answered if each.right is not None]
    pairs = {n: holds for n, holds in results.pairs.items() if holds is not None}
    kinds = sorted({each.kind for each in judged})
    return {
        "setup": setup.model_dump(mode="json"),
        "all": _share([bool(each.right) for each in judged]),
        "kinds": {k: _share([bool(e.right) for e in judged if e.kind == k]) for k in kinds},
        "without_verdict": len(answered) - len(judged),
        "judge": {
            "wrong_on_pairs": _share([h != PAIRS[n].holds for n, h in pairs.items()]),
            "wrong_for_right": _share([h for n, h in pairs.items() if not PAIRS[n].holds]),
            "right_for_wrong": _share([not h for n, h in pairs.items() if PAIRS[n].holds]),
            "another_verdict": _share([e.again != e.right for e in judged if e.again is not None]),
        },
        "questions": [each.model_dump(mode="json") for each in answered],
    }


def _share(holds: Sequence[bool]) -> dict[str, Any]:
    if not holds:
        return {"number": 0, "of": 0, "share": None, "interval": None}
    number = sum(holds)
    bounds = [round(bound, 4) for bound in interval(number, len(holds))]
    share = round(number / len(holds), 4)
    return {"number": number, "of": len(holds), "share": share, "interval": bounds}


def _line(name: str, holds: Sequence[bool]) -> str:
    if not holds:
        return f"{name}: nothing was asked"
    number, total = sum(holds), len(holds)
    low, high = interval(number, total)
    return (
        f"{name}: {number} of {total}, {number / total:.1%} (95 % interval {low:.1%} to {high:.1%})"
    )

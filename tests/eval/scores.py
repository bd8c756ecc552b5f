"""The results of a transcript, in figures."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from eval.cases import Judged
from layover.values.runs.usage import Usage


@dataclass
class Score:
    """Of one case, or of several added up. `wrong`: remembered texts that should not be; `stale`: known
    entries that should be gone and are not; `seconds`: that the model took; `texts`: what is judged, of one
    case only. Of runs: `requests` of the model, `approvals` that a person was asked for, how each `ends`."""

    transcripts: int = 1
    facts: int = 0
    found: int = 0
    stored: int = 0
    wrong: int = 0
    stale: int = 0
    failed: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    usage: list[Usage] = field(default_factory=list)
    seconds: float = 0.0
    requests: int = 0
    approvals: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    remarks: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    @property
    def precision(self) -> float | None:
        """The share of what is remembered that may be; None if nothing is."""
        return (self.stored - self.wrong) / self.stored if self.stored else None

    @property
    def recall(self) -> float | None:
        """The share of what has to be remembered that is; None if nothing has to be."""
        return self.found / self.facts if self.facts else None

    @property
    def cost(self) -> Decimal | None:
        """US dollars; None if a price is not known."""
        return Usage.total(self.usage).cost_usd

    @property
    def tokens(self) -> int:
        """Of the memory model, in and out."""
        return sum(u.total_tokens for u in self.usage)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON, from which `of_json` makes it again."""
        result: dict[str, Any] = _adapter().dump_python(self, mode="json", round_trip=True)
        return result

    @classmethod
    def of_json(cls, value: Any) -> "Score":
        """Return the score of this JSON. Raises ValueError."""
        return _adapter().validate_python(value)

    def in_words(self) -> str:
        """Return one line for a person who waits."""
        if self.failed:
            return "failed"
        parts = [f"{self.found} of {self.facts} facts" if self.facts else "nothing to find"]
        parts += [f"{n} {name}" for name, n in (("wrong", self.wrong), ("stale", self.stale)) if n]
        return ", ".join(parts)


@cache
def _adapter() -> TypeAdapter[Score]:
    return TypeAdapter(Score)


def judged(case: Judged, texts: Sequence[str]) -> Score:
    """Return the score of these remembered texts. If a transcript has no `must`, each of them is wrong."""
    missed = [f for f in case.must if not f.is_in(texts)]
    forbidden = case.forbidden(texts)
    wrong = {text for _, text in forbidden}
    if not case.must and not case.may_keep:
        wrong = set(texts)
    remarks = [f"{case.id}: missed: {f.fact}" for f in missed]
    remarks += [f"{case.id}: must not be there: {text}" for text in sorted(wrong)]
    return Score(
        facts=len(case.must),
        found=len(case.must) - len(missed),
        stored=len(texts),
        wrong=sum(text in wrong for text in texts),
        remarks=remarks,
        texts=list(texts),
    )


_ADDED_UP = (
    "transcripts",
    "facts",
    "found",
    "stored",
    "wrong",
    "stale",
    "failed",
    "seconds",
    "requests",
    "approvals",
)


def total(scores: Iterable[Score]) -> Score:
    """The sum."""
    whole = Score(transcripts=0)
    for score in scores:
        for name in _ADDED_UP:
            setattr(whole, name, getattr(whole, name) + getattr(score, name))
        whole.refused.update(score.refused)
        whole.ends.update(score.ends)
        whole.usage += score.usage
        whole.remarks += score.remarks
    return whole


_HEAD = (
    "topic",
    "cases",
    "stored",
    "wrong",
    "precision",
    "facts",
    "found",
    "recall",
    "stale",
    "failed",
)


def row_json(name: str, score: Score) -> dict[str, Any]:
    """Return a row of a table as JSON; shares are None where there is nothing to divide by."""
    whole = Usage.total(score.usage)
    return {
        "name": name,
        "cases": score.transcripts,
        "stored": score.stored,
        "wrong": score.wrong,
        "precision": score.precision,
        "facts": score.facts,
        "found": score.found,
        "recall": score.recall,
        "stale": score.stale,
        "failed": score.failed,
        "refused": dict(score.refused),
        "requests": score.requests,
        "approvals": score.approvals,
        "ends": dict(score.ends),
        "input_tokens": whole.input_tokens,
        "output_tokens": whole.output_tokens,
        "cost_usd": None if whole.cost_usd is None else str(whole.cost_usd),
        "seconds": round(score.seconds, 1),
    }


def table(rows: Sequence[tuple[str, Score]]) -> str:
    """One line a topic, and one for all."""
    lines = [_HEAD, *(_row(name, score) for name, score in rows)]
    lines.append(_row("all", total(score for _, score in rows)))
    return "\n".join(_line(line) for line in lines)


def runs_table(rows: Sequence[tuple[str, Score]]) -> str:
    """One line a conversation: what its runs took, how often a person was asked, and how they ended."""
    head = ("case", "requests", "tokens in", "tokens out", "approvals", "points", "kept", "failed")
    lines = [f"{_line(head)}  ends"]
    for name, score in [*rows, ("all", total(score for _, score in rows))]:
        whole = Usage.total(score.usage)
        figures = (
            score.requests,
            whole.input_tokens,
            whole.output_tokens,
            score.approvals,
            score.facts,
            score.found,
            score.failed,
        )
        ends = ", ".join(f"{n} {reason}" for reason, n in score.ends.most_common())
        lines.append(f"{_line((name, *map(str, figures)))}  {ends or '-'}")
    return "\n".join(lines)


def pairs_table(rows: Sequence[tuple[str, Score]]) -> str:
    """One line a group: true replacements and those made, wrong ones, and later statements that are lost."""
    lines = [_line(("pairs", "asked", "true", "replaced", "wrongly", "lost", "failed"))]
    for name, score in [*rows, ("all", total(score for _, score in rows))]:
        lost = score.transcripts - score.failed - score.stored
        figures = (score.transcripts, score.facts, score.found, score.wrong, lost, score.failed)
        lines.append(_line((name, *map(str, figures))))
    return "\n".join(lines)


def _row(name: str, score: Score) -> tuple[str, ...]:
    figures = (
        score.transcripts,
        score.stored,
        score.wrong,
        _share(score.precision),
        score.facts,
        score.found,
        _share(score.recall),
        score.stale,
        score.failed,
    )
    return (name, *map(str, figures))


def _line(cells: Sequence[str]) -> str:
    first, *others = cells
    return f"{first:<15}" + "".join(f"{cell:>11}" for cell in others)


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"

"""The tasks that a model is measured on: each with its cases, its model, and how a case is played."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from eval import observing
from eval.cases import Observed, Transcript, observed, transcripts
from eval.extraction import held
from eval.prompts import memory_number
from eval.scores import Score, judged
from eval.watched import Provider, Watched
from layover.errors import LayoverError
from layover.values.deployment.settings import Settings

OBSERVER = "observer"
EXTRACTOR = "extractor"


@dataclass(frozen=True)
class Task:
    """A task. `cases`: of a set; `model`: the name of the model that does it; `play`: asks that model, and
    judges; `prompt`: the number of what is sent; `embeds`: the embedder changes what comes of it."""

    name: str
    cases: Callable[[str], Sequence[Any]]
    model: Callable[[Settings], str]
    play: Callable[[Any, Provider, Watched], Awaitable[Score]]
    prompt: Callable[[], str]
    embeds: bool = False

    def topic(self, case: Any) -> str:
        """Return the row of a case in the task's table."""
        return case.topic if isinstance(case, Transcript) else self.name


def all_tasks() -> tuple[Task, ...]:
    """Return every task, in the order of the report."""
    return (
        Task(
            name=EXTRACTOR,
            cases=transcripts,
            model=lambda s: s.extractor_model or s.model,
            play=_extracted,
            prompt=partial(memory_number, "extractor"),
            embeds=True,
        ),
        Task(
            name=OBSERVER,
            cases=_of_main(observed),
            model=lambda s: s.observer_model or s.model,
            play=_observed,
            prompt=partial(memory_number, "observer"),
        ),
    )


def _of_main(cases: Callable[[], Sequence[Any]]) -> Callable[[str], Sequence[Any]]:
    return lambda set_name: cases() if set_name == "main" else ()


async def _extracted(case: Transcript, provider: Provider, model: Watched) -> Score:
    left = await held(case, model, provider.embedder)
    score = judged(case, left.texts)
    stale = [text for text, _ in left.known if text in case.gone]
    score.stale = len(stale)
    score.remarks += [f"{case.id}: should be superseded: {text}" for text in stale]
    score.refused.update(left.refused)
    return score


async def _observed(case: Observed, provider: Provider, model: Watched) -> Score:
    name = provider.settings.observer_model or provider.settings.model
    try:
        texts, _ = await observing.asked(case, model, name)
    except LayoverError:
        texts = []
    return judged(case, texts)

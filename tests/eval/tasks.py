"""The tasks that a model is measured on: each with its cases, its model, and how a case is played."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from eval.cases import Transcript, observed, transcripts
from eval.extraction import Held, held
from eval.looping import loops_number, play_loops
from eval.pairs import AskedPair, asked_pairs, play_pair
from eval.playing import (
    play_observer,
    play_profile,
    play_reflector,
    play_session,
    play_summary,
    play_threads,
    play_title,
    play_vectors,
    play_words,
)
from eval.prompts import lesson_number, memory_number, pairs_number
from eval.scores import Score, judged
from eval.topic_cases import threads_apart, topic_cases
from eval.watched import Provider, Watched
from layover.values.deployment.settings import Settings

OBSERVER = "observer"
THREADS = "threads"
EXTRACTOR = "extractor"
LESSON = "lesson"
RECALL = "recall"
VECTORS = "recall-vectors"
LOOPS = "loops"
PAIRS = "pairs"


@dataclass(frozen=True)
class Task:
    """A task. `cases`: of a set; `model`: the name of the model that does it, "" if none does; `play`: asks
    that model, and judges; `prompt`: the number of what is sent, "" if nothing is; `embeds`: the embedder
    changes what comes of it."""

    name: str
    cases: Callable[[str], Sequence[Any]]
    model: Callable[[Settings], str]
    play: Callable[[Any, Provider, Watched], Awaitable[Score]]
    prompt: Callable[[], str]
    embeds: bool = False

    def topic(self, case: Any) -> str:
        """Return the row of a case in the task's table."""
        if self.name == LOOPS:
            return str(case.id)
        if self.name == PAIRS:
            return str(case.group)
        return str(case.topic) if self.name == EXTRACTOR else self.name


def all_tasks() -> tuple[Task, ...]:
    """Return every task, in the order of the report."""
    return (
        Task(
            EXTRACTOR, transcripts, _extractor, _play_extractor, _number("extractor"), embeds=True
        ),
        Task(LESSON, _debugging, _extractor, _play_lesson, lesson_number, embeds=True),
        Task(PAIRS, asked_pairs, _extractor, _play_pair, pairs_number),
        _of_memory(OBSERVER, observed, _observer, play_observer),
        Task(THREADS, _of_apart(threads_apart), _observer, play_threads, _number(OBSERVER)),
        _of_memory("title", _cases("title"), lambda s: s.title_model or s.model, play_title),
        _of_memory("profile", _cases("profile"), _extractor, play_profile),
        _of_memory("session", _cases("session"), _extractor, play_session),
        _of_memory("reflector", _cases("reflector"), _observer, play_reflector),
        _of_memory("summary", _cases("summary"), _observer, play_summary),
        Task(RECALL, _of_main(_cases(RECALL)), lambda _: "", play_words, lambda: ""),
        Task(VECTORS, _of_main(_vector_cases), lambda _: "", play_vectors, lambda: "", embeds=True),
        Task(LOOPS, _of_main(_cases("loops")), lambda s: s.model, play_loops, loops_number),
    )


def _of_memory(
    name: str,
    cases: Callable[[], Sequence[Any]],
    model: Callable[[Settings], str],
    play: Callable[[Any, Provider, Watched], Awaitable[Score]],
) -> Task:
    return Task(name, _of_main(cases), model, play, _number(name))


def _number(task: str) -> Callable[[], str]:
    return partial(memory_number, task)


def _cases(topic: str) -> Callable[[], Sequence[Any]]:
    return partial(topic_cases, topic)


def _vector_cases() -> Sequence[Any]:
    """The questions of `recall`, as cases of their own."""
    return [c.model_copy(update={"id": f"{c.id}-vectors"}) for c in topic_cases("recall")]


def _of_main(cases: Callable[[], Sequence[Any]]) -> Callable[[str], Sequence[Any]]:
    return lambda set_name: cases() if set_name == "main" else ()


def _of_apart(cases: Callable[[], Sequence[Any]]) -> Callable[[str], Sequence[Any]]:
    return lambda set_name: cases() if set_name == "apart" else ()


def _debugging(set_name: str) -> Sequence[Transcript]:
    """The debugging conversations, as cases of their own."""
    cases = (case for case in transcripts(set_name) if case.topic == "debugging")
    return [case.model_copy(update={"id": f"{case.id}-lesson"}) for case in cases]


def _extractor(settings: Settings) -> str:
    return settings.extractor_model or settings.model


def _observer(settings: Settings) -> str:
    return settings.observer_model or settings.model


async def _play_extractor(case: Transcript, provider: Provider, model: Watched) -> Score:
    return _score(case, await held(case, model, provider.embedder))


async def _play_lesson(case: Transcript, provider: Provider, model: Watched) -> Score:
    """Entries alone are judged: profiles and session notes have cases of their own."""
    return _score(case, await held(case, model, provider.embedder, keeps_notes=True))


async def _play_pair(case: AskedPair, provider: Provider, model: Watched) -> Score:
    return await play_pair(case, _extractor(provider.settings), model)


def _score(case: Transcript, left: Held) -> Score:
    score = judged(case, left.texts)
    stale = [text for text, _ in left.known if text in case.gone]
    score.stale = len(stale)
    score.remarks += [f"{case.id}: should be superseded: {text}" for text in stale]
    score.refused.update(left.refused)
    return score

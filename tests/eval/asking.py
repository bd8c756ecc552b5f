"""Asks a provider for cases, some at once: what is told meanwhile, what is kept, and when it is given up."""

import asyncio
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from eval.prompts import code_number, number
from eval.results import Measured, Result, Results
from eval.scores import Score
from eval.tasks import Task
from eval.watched import Provider, Watched

AT_ONCE = 8
"""Cases that ask the provider at the same time."""
MAX_FAILURES = 3
"""Cases in a row that a provider does not answer. Then no other case is asked: each would wait for the last
of its attempts."""


@dataclass(frozen=True)
class Job:
    """A case to ask for. `set`, `topic`: the table and the row in which it counts."""

    task: Task
    set: str
    case: Any

    @property
    def topic(self) -> str:
        """See `Task.topic`."""
        return self.task.topic(self.case)

    def measured(self, provider: Provider) -> Measured:
        """Return what a result of it is of."""
        embedder = provider.settings.embedder_model if self.task.embeds else None
        return Measured(
            task=self.task.name,
            case=self.case.id,
            content=number(self.case.model_dump(mode="json", by_alias=True)),
            prompt=self.task.prompt(),
            model=self.task.model(provider.settings),
            embedder=embedder or "",
        )


@dataclass
class Answers:
    """What became of the jobs. `scores`: by job; `reused`: how many results were there before, `other_code`:
    of those, the ones that other code of memory had judged; `left`: jobs that were not asked for, because of
    `stopped`."""

    scores: dict[int, Score] = field(default_factory=dict)
    reused: int = 0
    other_code: int = 0
    left: int = 0
    stopped: str = ""

    @property
    def failed(self) -> int:
        """Jobs without a result."""
        return sum(score.failed for score in self.scores.values())


def say_to_stderr(line: str) -> None:
    """Print progress."""
    print(line, file=sys.stderr, flush=True)


async def answers(
    jobs: Sequence[Job],
    provider: Provider,
    results: Results,
    *,
    at_once: int = AT_ONCE,
    say: Callable[[str], None] = say_to_stderr,
) -> Answers:
    """Ask for every job that `results` has not, `at_once` at a time, and say each one's end."""
    asking = _Asking(jobs, provider, results, say)
    room = asyncio.Semaphore(at_once)

    async def one(index: int) -> None:
        async with room:
            await asking.ask(index)

    try:
        await asyncio.gather(*(one(index) for index in asking.missing))
    except asyncio.CancelledError:
        asking.stop("it was interrupted")
    return asking.whole()


class _Asking:
    def __init__(
        self,
        jobs: Sequence[Job],
        provider: Provider,
        results: Results,
        say: Callable[[str], None],
    ) -> None:
        self.answers = Answers()
        self._jobs = jobs
        self._provider = provider
        self._results = results
        self._say = say
        self._failures = 0
        for index, job in enumerate(jobs):
            if (result := results.get(job.measured(provider))) is not None:
                self.answers.scores[index] = result.score
                self.answers.reused += 1
                self.answers.other_code += result.code != code_number()
        self.missing = [i for i in range(len(jobs)) if i not in self.answers.scores]
        if self.answers.reused:
            say(f"{self.answers.reused} of {len(jobs)} cases were answered before")

    async def ask(self, index: int) -> None:
        """Ask for one job, unless the provider was given up."""
        if self.answers.stopped:
            return
        job = self._jobs[index]
        model = self._provider.watched()
        score = await job.task.play(job.case, self._provider, model)
        score = replace(score, usage=model.usage, seconds=round(model.seconds, 2))
        if model.errors:
            score = failed(job.case.id, f"no answer: {model.failure}")
            self._count_failure(model)
        else:
            self._failures = 0
            of = job.measured(self._provider)
            self._results.add(Result(of, score, job.set, job.topic, code_number()))
        self.answers.scores[index] = score
        count = f"{len(self.answers.scores):>{len(str(len(self._jobs)))}}/{len(self._jobs)}"
        about = f"{job.task.name} {job.case.id}"
        self._say(f"[{count}] {about}: {score.in_words()} ({model.seconds:.1f} s){_why(score)}")

    def _count_failure(self, model: Watched) -> None:
        self._failures = self._failures + 1 if model.is_away else 0
        if self._failures >= MAX_FAILURES:
            self.stop(f"{MAX_FAILURES} cases in a row were not answered")

    def stop(self, why: str) -> None:
        """Ask for nothing more."""
        self.answers.stopped = self.answers.stopped or why

    def whole(self) -> Answers:
        """Return the answers. Jobs that are left count as failed."""
        for index in range(len(self._jobs)):
            if index not in self.answers.scores:
                self.answers.scores[index] = Score(failed=1)
                self.answers.left += 1
        return self.answers


def failed(name: str, why: str) -> Score:
    """Return the score of a case that says nothing about the model: it counts as a failure and nowhere
    else."""
    return Score(failed=1, remarks=[f"{name}: {why}"])


def _why(score: Score) -> str:
    return f": {score.remarks[0].partition(': ')[2]}" if score.failed else ""

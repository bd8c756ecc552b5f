"""All runs of all cases."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from layover.desk.evals.cases import Case
from layover.desk.evals.judges import judge
from layover.desk.evals.outcome import Outcome
from layover.desk.evals.play import Play, play
from layover.ports import ChatModel

Progress = Callable[[Outcome, int, int], None]
"""Called with each run that has ended, the count of those that have, and of all."""


async def evaluate(
    how: Play,
    cases: Sequence[Case],
    *,
    judges: Sequence[str] = (),
    judge_model: ChatModel | None = None,
    repeat: int = 1,
    at_once: int = 1,
    progress: Progress | None = None,
    earlier: Mapping[tuple[str, int], Outcome] | None = None,
) -> list[Outcome]:
    """Run each case `repeat` times, `at_once` at the same time, and return what became of each run, case by
    case. `judge_model` is asked for the judges of these names. `earlier`: runs by case and repeat, which are
    not made again."""
    places = asyncio.Semaphore(at_once)
    earlier = earlier or {}
    total, ended = len(cases) * repeat, len(earlier)

    async def one(case: Case, number: int) -> Outcome:
        nonlocal ended
        if (case.name, number) in earlier:
            return earlier[case.name, number]
        async with places:
            outcome = await play(how, case, number)
            if judge_model is not None and judges:
                outcome = await judge(judge_model, judges, case, outcome)
        ended += 1
        if progress is not None:
            progress(outcome, ended, total)
        return outcome

    async with asyncio.TaskGroup() as group:
        runs = [group.create_task(one(c, n)) for c in cases for n in range(1, repeat + 1)]
    return [run.result() for run in runs]

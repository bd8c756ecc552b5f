"""`make eval`: what the memory models remember of the evaluation set.

First the scripted half: does the product keep exactly what it has to of given answers? Then, where the
environment names a provider, the real extractor and observer on the same conversations. Without one the
second half does not happen, and that is what is printed. Arguments: topics (`observer` is one); none: all."""

import asyncio
import logging
import os
import sys
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from eval import observing
from eval.cases import TOPICS, Observed, Transcript, observed, transcripts
from eval.extraction import Held, held
from eval.scores import Score, judged, table, total
from layover.errors import LayoverError
from layover.runtime import Runtime
from layover.testing import HashingEmbedder
from layover.wiring import in_memory_runtime

OBSERVER = "observer"
AT_ONCE = 8
"""Conversations that ask the provider at the same time."""
NO_KEY = "OPENAI_API_KEY and OPENAI_BASE_URL are not set: only the scripted half ran, no model was asked."
CASE = TypeVar("CASE")


def main() -> int:
    """0: the scripted half is right and, where a provider is named, it answered everything."""
    wanted = sys.argv[1:] or [*TOPICS, OBSERVER]
    if unknown := [t for t in wanted if t not in (*TOPICS, OBSERVER)]:
        print(f"no such topic: {', '.join(unknown)}; there are {', '.join((*TOPICS, OBSERVER))}")
        return 2
    # Tools that fail are part of some conversations, and of no table.
    logging.getLogger("layover").setLevel(logging.ERROR)
    cases = [case for case in transcripts() if case.topic in wanted]
    seen = observed() if OBSERVER in wanted else ()
    deviations = asyncio.run(scripted(cases))
    late = [case for case in cases if case.awaits]
    print(
        f"scripted: {len(cases)} transcripts, {len(deviations)} not as expected,"
        f" {len(late)} await a change of the product"
    )
    print("\n".join(f"{case.id}: {case.awaits}" for case in late), end="\n" if late else "")
    print("\n".join(deviations), end="\n" if deviations else "")
    if not (os.environ.get("OPENAI_API_KEY") or os.environ.get("OPENAI_BASE_URL")):
        print(NO_KEY)
        return int(bool(deviations))
    failed = asyncio.run(real(cases, seen))
    return int(bool(deviations) or failed)


async def scripted(cases: Sequence[Transcript]) -> list[str]:
    """The transcripts of which something else is kept than the script says, but for those that await a
    change of the product; these are named once they await it no longer."""
    found = [(case, deviation(case, await rehearsed(case))) for case in cases]
    astray = [f"{case.id}: {d}" for case, d in found if d and not case.awaits]
    return astray + [f"{case.id}: awaits nothing" for case, d in found if case.awaits and not d]


async def rehearsed(case: Transcript) -> Held:
    """With the transcript's own script as the extractor."""
    return await held(case, embedder=HashingEmbedder())


def deviation(case: Transcript, found: Held) -> str:
    """Return how memory differs from what the script has to leave; "" if it does not."""
    known = [text for text in case.known if text not in case.gone]
    parts = [
        f"keeps {found.new}, not {case.kept}" if sorted(found.new) != sorted(case.kept) else "",
        f"knows {found.known}, not {known}" if {t for t, _ in found.known} != set(known) else "",
        f"refuses {found.refused}, not {case.refused}" if found.refused != case.refused else "",
        f"asks {len(found.asked)} times" if len(found.asked) != len(case.turns) else "",
    ]
    return "; ".join(p for p in parts if p)


async def real(cases: Sequence[Transcript], seen: Sequence[Observed]) -> bool:
    """Ask the provider of the environment and print what came of it; whether anything failed."""
    runtime = in_memory_runtime()
    settings = runtime.settings
    extractor = settings.extractor_model or settings.model
    observer = settings.observer_model or settings.model
    embedder = settings.embedder_model or "by words only"
    learned = await _each(cases, lambda case: _extracted(case, runtime))
    if cases:
        print(f"\nextractor: {extractor}, embedder: {embedder}")
        _print(_by_topic(cases, learned))
    observations = await _each(seen, lambda case: _observed(case, runtime, observer))
    if seen:
        print(f"\nobserver: {observer}")
        _print([(OBSERVER, total(observations))])
    return any(score.failed for score in (*learned, *observations))


async def _each(cases: Iterable[CASE], judge: Callable[[CASE], Awaitable[Score]]) -> list[Score]:
    room = asyncio.Semaphore(AT_ONCE)

    async def one(case: CASE) -> Score:
        async with room:
            return await judge(case)

    return list(await asyncio.gather(*(one(case) for case in cases)))


async def _extracted(case: Transcript, runtime: Runtime) -> Score:
    found = await held(case, runtime.model, runtime.embedder)
    if found.faults:
        return _failed(case, found.faults[0])
    score = judged(case, found.texts)
    stale = [text for text, _ in found.known if text in case.gone]
    score.stale = len(stale)
    score.remarks += [f"{case.id}: should be superseded: {text}" for text in stale]
    score.usage = found.usage
    score.refused.update(found.refused)
    return score


async def _observed(case: Observed, runtime: Runtime, name: str) -> Score:
    try:
        texts, reply = await observing.asked(case, runtime.model, name)
    except LayoverError as error:
        return _failed(case, f"{type(error).__name__}: {error}")
    score = judged(case, texts)
    price = runtime.price(reply.model, reply.usage) if runtime.price else None
    score.usage = [reply.usage.model_copy(update={"cost_usd": price})]
    return score


def _failed(case: Transcript | Observed, why: str) -> Score:
    """Says nothing about the model's memory: it counts as a failure and nowhere else."""
    return Score(failed=1, remarks=[f"{case.id}: no answer: {why}"])


def _by_topic(cases: Iterable[Transcript], scores: Iterable[Score]) -> list[tuple[str, Score]]:
    found: dict[str, list[Score]] = defaultdict(list)
    for case, score in zip(cases, scores, strict=True):
        found[case.topic].append(score)
    return [(topic, total(found[topic])) for topic in TOPICS if topic in found]


def _print(rows: list[tuple[str, Score]]) -> None:
    whole = total(score for _, score in rows)
    cost = "unknown" if whole.cost is None else f"{whole.cost:.4f} USD"
    print(table(rows))
    if whole.refused:
        print("refused:", ", ".join(f"{n} {why}" for why, n in whole.refused.most_common()))
    print(f"cost: {cost}, {whole.tokens} tokens")
    print("\n".join(whole.remarks), end="\n" if whole.remarks else "")


if __name__ == "__main__":
    sys.exit(main())

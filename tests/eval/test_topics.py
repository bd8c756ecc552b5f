"""Every topic except extractor and observer: a scripted model gives good and bad answers; the judge has to
tell them apart."""

import re
from collections.abc import Iterator
from itertools import chain, repeat
from typing import Any

import pytest

from eval.looping import play_loops
from eval.playing import hits_of, judge_hits
from eval.scores import Score
from eval.tasks import OBSERVER, RECALL, THREADS, VECTORS, all_tasks
from eval.topic_cases import Call, LoopCase, RecallCase, said, threads_apart, topic_cases
from eval.watched import Provider, Watched
from layover import Embedded
from layover.plugins.memory.learns import requests
from layover.testing import HashingEmbedder, ScriptedModel, call, fail, say
from layover.values.deployment.settings import Settings
from layover.values.prompt import Reply

ANSWERED = ("title", "profile", "session", "reflector", "summary")
"""Topics whose answers are texts."""
TOPICS = (*ANSWERED, "recall", "loops")
TASKS = {task.name: task for task in all_tasks()}


def test_every_prompt_of_memory_has_cases_in_several_languages_for_a_script_and_a_real_model() -> (
    None
):
    # A lesson is made of the requests of its parts, whose cases ask for each of them.
    alone = requests.TASKS.keys() - {"lesson"}
    assert alone <= TASKS.keys()
    for name in alone:
        task = TASKS[name]
        cases = task.cases("main")
        assert len(cases) >= 3, name
        assert task.prompt(), f"{name}: a figure names its prompt"
        assert task.model(Settings(model="openai/any")), f"{name}: a real model is asked"
    for name in ANSWERED:
        assert len({case.language for case in topic_cases(name)}) > 1, name
        assert all(case.good and case.bad for case in topic_cases(name)), name


def answered_cases() -> Iterator[tuple[str, Any]]:
    """The cases whose answers are texts, each with its task."""
    yield from ((topic, case) for topic in ANSWERED for case in topic_cases(topic))
    yield from ((THREADS, case) for case in threads_apart())


def good_answers() -> Iterator[Any]:
    for topic, case in answered_cases():
        for number, answers in enumerate(case.good, start=1):
            yield pytest.param(topic, case, answers, id=f"{case.id}-{number}")


def bad_answers() -> Iterator[Any]:
    for topic, case in answered_cases():
        for number, bad in enumerate(case.bad, start=1):
            yield pytest.param(topic, case, bad, id=f"{case.id}-{number}")


async def play(topic: str, case: Any, answers: list[Any]) -> Score:
    """Play a case with a model that gives these answers."""
    replies = chain(map(say, map(said, answers)), repeat(say(said(answers[-1]))))
    asked_for = OBSERVER if topic == THREADS else topic
    model = ScriptedModel([], background={asked_for: replies})
    watched = Watched(model)
    score = await TASKS[topic].play(case, Provider(model, Settings()), watched)
    assert watched.prompts, "no model was asked"
    assert {p.task for p in watched.prompts} == {asked_for}
    return score


@pytest.mark.parametrize(("topic", "case", "bad"), list(bad_answers()))
async def test_a_bad_answer_is_found_fault_with(topic: str, case: Any, bad: Any) -> None:
    score = await play(topic, case, bad.answers)
    assert any(re.search(bad.because, remark) for remark in score.remarks), score.remarks
    assert score.found < score.facts or score.wrong or score.stale


@pytest.mark.parametrize(("topic", "case", "answers"), list(good_answers()))
async def test_a_good_answer_gets_full_marks(topic: str, case: Any, answers: list[Any]) -> None:
    score = await play(topic, case, answers)
    assert score.remarks == []
    assert (score.found, score.wrong, score.stale) == (score.facts, 0, 0)


@pytest.mark.parametrize("topic", ANSWERED)
async def test_a_model_that_fails_leaves_an_error_that_can_be_counted(topic: str) -> None:
    model = ScriptedModel([], background={topic: repeat(fail("down", status=503))})
    watched = Watched(model)
    await TASKS[topic].play(topic_cases(topic)[0], Provider(model, Settings()), watched)
    assert watched.is_away
    assert "down" in watched.failure


async def test_a_limit_that_a_model_refuses_and_then_takes_is_not_a_failure() -> None:
    case = topic_cases("summary")[0]
    refusal = fail("max_tokens is too large: at most 1000", status=400)
    replies: list[Any] = [refusal, say(said(case.good[0][0]))]
    watched = Watched(ScriptedModel([], background={"summary": replies}))
    score = await TASKS["summary"].play(case, Provider(watched.model, Settings()), watched)
    assert watched.errors == []
    assert score.remarks == []


# Recall.


def recall_cases() -> list[RecallCase]:
    return list(topic_cases("recall"))


@pytest.mark.parametrize("case", recall_cases(), ids=lambda c: c.id)
def test_hits_are_judged(case: RecallCase) -> None:
    for hits in case.good:
        score = judge_hits(case, hits)
        assert (score.remarks, score.found, score.wrong) == ([], score.facts, 0)
    for bad in case.bad:
        score = judge_hits(case, bad.hits)
        assert any(re.search(bad.because, remark) for remark in score.remarks), score.remarks
        assert score.found < score.facts or score.wrong


@pytest.mark.parametrize("case", recall_cases(), ids=lambda c: c.id)
async def test_what_a_question_shares_words_with_is_found_without_an_embedder(
    case: RecallCase,
) -> None:
    score = judge_hits(case, await hits_of(case, None))
    if case.id == "recall-paraphrase":
        assert score.found < score.facts
    else:
        assert score.remarks == []


class Meaning:
    """An embedder that knows what the questions mean: each text's vector is that of its entry."""

    model = "meaning/4"

    def __init__(self, case: RecallCase) -> None:
        self._case = case

    async def embed(self, texts: Any) -> Any:
        return Embedded([self._vector(text) for text in texts], self.model)

    def _vector(self, text: str) -> list[float]:
        places = [q.patterns[0] for q in self._case.questions]
        asked = [q.question for q in self._case.questions]
        hits = [text == q or re.search(p, text, re.I) for p, q in zip(places, asked, strict=True)]
        return [1.0 if hit else 0.0 for hit in hits]


async def test_what_only_an_embedder_can_find_is_found_with_one() -> None:
    case = next(c for c in recall_cases() if c.id == "recall-paraphrase")
    provider = Provider(ScriptedModel([]), Settings(), embedder=Meaning(case))
    score = await TASKS[VECTORS].play(case, provider, provider.watched())
    assert (score.found, score.remarks) == (score.facts, [])


async def test_recall_by_words_asks_no_embedder() -> None:
    case = recall_cases()[0]
    provider = Provider(ScriptedModel([]), Settings(), embedder=HashingEmbedder())
    by_words = await TASKS[RECALL].play(case, provider, provider.watched())
    assert by_words.texts == judge_hits(case, await hits_of(case, None)).texts


# Loops.


async def play_steps(case: LoopCase, steps: list[Call | str]) -> tuple[Score, Watched]:
    replies = [reply_of(step) for step in steps]
    watched = Watched(ScriptedModel(chain(replies, repeat(replies[-1]))))
    return await play_loops(case, Provider(watched.model, Settings()), watched), watched


def reply_of(step: Call | str) -> Reply:
    return say(step) if isinstance(step, str) else call(step.call, **step.args)


def loop_runs(which: str) -> list[Any]:
    return [
        pytest.param(case, each, id=f"{case.id}-{number}")
        for case in topic_cases("loops")
        for number, each in enumerate(getattr(case, which), start=1)
    ]


@pytest.mark.parametrize(("case", "bad"), loop_runs("bad"))
async def test_a_run_that_turns_in_circles_or_asks_again_is_found_fault_with(
    case: LoopCase, bad: Any
) -> None:
    score, _ = await play_steps(case, bad.steps)
    assert any(re.search(bad.because, remark) for remark in score.remarks), score.remarks
    assert score.found < score.facts or score.wrong


@pytest.mark.parametrize(("case", "steps"), loop_runs("good"))
async def test_a_run_that_ends_when_it_knows_enough_gets_full_marks(
    case: LoopCase, steps: list[Call | str]
) -> None:
    score, watched = await play_steps(case, steps)
    assert (score.remarks, score.found) == ([], score.facts)
    assert score.requests == len(steps) == len(watched.usage)
    assert score.ends == {"stop": len(case.turns)}
    refunds = sum(isinstance(s, Call) and s.call == "refund" for s in steps)
    assert score.approvals == refunds


def test_ten_threads_are_kept_apart_in_several_languages() -> None:
    cases = threads_apart()
    assert len(cases) == len({c.id for c in cases}) == 10
    assert len({c.language for c in cases}) >= 5
    assert all(case.must and case.good and case.bad for case in cases)


def test_every_topic_has_cases_good_answers_and_bad_ones() -> None:
    for topic in TOPICS:
        cases = topic_cases(topic)
        assert 3 <= len(cases) <= 6
        assert all(case.good and case.bad for case in cases)

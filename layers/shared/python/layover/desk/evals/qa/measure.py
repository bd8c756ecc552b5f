"""The measurement: conversations are learned, questions asked, answers judged, and the judge itself."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from layover.desk.evals.qa.data import Conversation, Data, Question
from layover.desk.evals.qa.judge import PAIRS, SYSTEM, Judgement, digest, judge, pairs_digest
from layover.desk.evals.qa.learner import ANSWERING, Learner, Models, Reply
from layover.desk.evals.qa.results import Answered, KnownPair, Learned, Results, Setup
from layover.errors import LayoverError
from layover.plugins.memory.prompts import prompt_file
from layover.ports import ChatModel, Embedder


@dataclass(frozen=True)
class Measure:
    """The way in which questions are asked. `model`: answers to every name; `limit`: the most questions;
    `again`: answers for which the judge is asked twice; `at_once`: conversations that are worked on
    together."""

    models: Models
    model: ChatModel
    embedder: Embedder
    limit: int | None = None
    again: int = 20
    at_once: int = 1


def setup_of(data: Data, models: Models, embedder: Embedder) -> Setup:
    """Return all that the results will depend on."""
    return Setup(
        data=data.sha256,
        form=data.form,
        model=models.answers,
        judge=models.judge,
        extractor=models.extractor,
        observer=models.observer,
        embedder=embedder.model,
        prompts={
            "answers": digest(ANSWERING),
            "judge": digest(SYSTEM),
            "pairs": pairs_digest(),
            "extractor": digest(prompt_file("extractor"), prompt_file("extractor_known")),
            "observer": digest(prompt_file("observer")),
        },
    )


async def measure(how: Measure, data: Data, results: Results, tell: Callable[[str], None]) -> None:
    """Ask and judge what has no result yet."""
    questions = [question for each in data.conversations for question in each.questions][
        : how.limit
    ]
    twice = {question.id for question in _sample(questions, how.again)}
    done = {each.id for each in results.answered if each.right is not None}
    open_ids = {question.id for question in questions} - done
    room = asyncio.Semaphore(how.at_once)

    async def work(conversation: Conversation) -> None:
        open_questions = [q for q in conversation.questions if q.id in open_ids]
        if not open_questions:
            return
        async with room:
            await _converse(
                how, conversation, open_questions, twice=twice, results=results, tell=tell
            )

    await asyncio.gather(*(work(conversation) for conversation in data.conversations))
    for number, pair in enumerate(PAIRS):
        if results.pairs.get(number) is None:
            verdict = await _judge(how, pair.question, pair.reference, pair.answer)
            results.add(KnownPair(pair=number, holds=verdict.holds))


async def _converse(
    how: Measure,
    conversation: Conversation,
    questions: Sequence[Question],
    twice: set[str],
    results: Results,
    tell: Callable[[str], None],
) -> None:
    tell(f"{conversation.id}: {len(conversation.sessions)} sessions are learned")
    learner = Learner(conversation, how.models, model=how.model, embedder=how.embedder)
    problem: str | None = None
    try:
        await learner.learn()
        entries, observations = await learner.count()
        results.add(
            Learned(conversation=conversation.id, entries=entries, observations=observations)
        )
    except LayoverError as error:  # the other conversations are measured all the same
        problem = f"nothing was learned: {type(error).__name__}: {error}"
    for question in questions:
        reply = Reply("", problem=problem) if problem else await learner.ask(question)
        verdict, again = Judgement(holds=None, reason=""), None
        if reply.problem is None:
            verdict = await _judge(how, question.text, question.answer, reply.text)
            if question.id in twice and verdict.holds is not None:
                again = (await _judge(how, question.text, question.answer, reply.text)).holds
        results.add(
            Answered(
                id=question.id,
                kind=question.kind,
                question=question.text,
                reference=question.answer,
                answer=reply.text,
                tokens=reply.tokens,
                right=verdict.holds,
                reason=verdict.reason,
                problem=reply.problem,
                again=again,
            )
        )
        word = {True: "right", False: "wrong", None: "no verdict"}[verdict.holds]
        tell(f"{question.id}: {word}")


async def _judge(how: Measure, question: str, reference: str, answer: str) -> Judgement:
    return await judge(how.model, how.models.judge, question, reference, answer)


def _sample(questions: Sequence[Question], number: int) -> Sequence[Question]:
    """Return so many of the questions, from all over them, and the same ones each time."""
    if number <= 0:
        return ()
    step = max(1, len(questions) // number)
    return questions[::step][:number]

"""Cases of titles, profiles, session notes, summaries, reflections and recall, through the product: an agent
in this process for what is learned after a turn, a compaction job for what condenses a thread."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, repeat
from typing import Any

from eval.cases import Judged, Observed, Proposal, Step, Turn, matches, shown
from eval.observing import lines as observations_of
from eval.observing import request as observer_request
from eval.scores import Score, judged
from eval.talk import AGENT, THREAD, USER, Assistant, hold
from eval.topic_cases import (
    NotesCase,
    RecallCase,
    ReflectorCase,
    SummaryCase,
    ThreadCase,
    TitleCase,
)
from eval.watched import Provider, Watched
from layover import Agent, EpisodicMemory, Memory
from layover.context.compaction import Limits
from layover.context.transcript import response_messages
from layover.plugins.memory.condenses import reflector, summary
from layover.plugins.memory.condenses.job import CompactionJob
from layover.plugins.memory.condenses.observation_lines import latest, without_repetition
from layover.plugins.memory.condenses.observe import ask_reflector, observe_ahead
from layover.plugins.memory.learns.profiles import put_profile
from layover.runtime import Runtime
from layover.testing import ScriptedModel, call, say, tool_results
from layover.values.memory.compaction import Compacted
from layover.values.message import Role
from layover.values.note import profile_key
from layover.values.prompt import Prompt, Reply
from layover.wiring import in_memory_runtime

BEFORE = "before"
"""The thread of what is known before."""
_QUOTES = re.compile('["\u201c\u201d\u201e\u00ab\u00bb*`#]')
_SPACED = re.compile(r"[^\W\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]+")
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
_ANY_LIMITS = Limits(kind="summary", start=1, late=1, whole=None, ahead=None, block=None, tail=1)


@dataclass
class _Bench:
    """An agent in this process whose tasks of this name the model does, and whose turns are scripted."""

    agent: Agent
    runtime: Runtime
    assistant: Assistant

    @classmethod
    def of(cls, memory: Memory, task: str, model: Watched, *first: str) -> "_Bench":
        """`first`: answers that are scripted, before the model is asked."""
        agent = Agent(AGENT, instructions="You help.", memory=memory)
        assistant = Assistant()
        answers: Iterator[Any] = chain(map(say, first), repeat(model.complete))
        scripted = ScriptedModel(assistant, background={task: answers})
        agent.runtime = in_memory_runtime(agent, model=scripted)
        return cls(agent, agent.runtime, assistant)

    async def hold(self, turn: Turn, thread: str = THREAD) -> str:
        self.assistant.begin(turn)
        return await hold(self.agent, turn, thread)

    async def job(self) -> CompactionJob:
        """Return the compaction of a thread of one turn."""
        run_id = await self.hold(Turn("Hello.", (Step("Hello."),)))
        snapshot = await self.runtime.journal.runs.snapshot(USER, run_id)
        assert snapshot is not None
        return CompactionJob(self.runtime, self.agent, snapshot.meta, _ANY_LIMITS, "none")


async def play_title(case: TitleCase, _: Provider, model: Watched) -> Score:
    """Let the thread of one turn be named."""
    bench = _Bench.of(Memory(titles=True), "title", model)
    await bench.hold(Turn(case.message, (Step("Noted."),)))
    head = await bench.runtime.journal.heads.get(USER, THREAD)
    title = head.title if head else None
    score = judged(case, [title] if title else [])
    if title is None:
        return _also_missed(score, f"{case.id}: no title")
    if (words := count_words(title)) > case.most_words:
        _find_wrong(score, f"{case.id}: {words} words, not {case.most_words}: {title}")
    if _QUOTES.search(title) or title.endswith((".", "\u3002")):
        _find_wrong(score, f"{case.id}: a mark that a title has not: {title}")
    return score


async def play_profile(case: NotesCase, _: Provider, model: Watched) -> Score:
    """Let an agent learn its user's profile from the turns."""
    bench = _Bench.of(Memory(titles=False, profile=True), "profile", model)
    if case.known:
        await put_profile(bench.runtime, USER, AGENT, case.known)
    for exchange in case.turns:
        await bench.hold(exchange.turn)
    (note,) = await bench.runtime.memory.read_notes(USER, [profile_key(AGENT)])
    return _judged_notes(case, case.known, note.value)


async def play_session(case: NotesCase, _: Provider, model: Watched) -> Score:
    """Let an agent keep notes of a conversation. What is known comes from a turn whose notes are scripted."""
    notes = [(name, text) for name, each in case.known.items() for text in _as_list(each)]
    facts = [{"evidence": text, "field": name, "content": text} for name, text in notes]
    first = [json.dumps({"facts": facts})] if facts else []
    bench = _Bench.of(Memory(titles=False, session=True), "session", model, *first)
    if facts:
        await bench.hold(Turn(".\n".join(text for _, text in notes), (Step("Noted."),)))
    for exchange in case.turns:
        await bench.hold(exchange.turn)
    state = await bench.runtime.memory.read_state(USER, THREAD)
    return _judged_notes(case, case.known, state.session)


async def play_summary(case: SummaryCase, _: Provider, model: Watched) -> Score:
    """Let the messages be summarised."""
    job = await _Bench.of(Memory(titles=False), "summary", model).job()
    request = summary.request(job.model, case.thread, case.previous)
    answer = await job.ask(request, summary.parse, "no summary")
    text = answer.value if answer else None
    score = judged(case, [text] if text else [])
    if text is None:
        return _also_missed(score, f"{case.id}: no summary")
    if (words := count_words(text)) > case.most_words:
        _find_wrong(score, f"{case.id}: {words} words, not {case.most_words}")
    return score


async def play_observer(case: Observed, _: Provider, model: Watched) -> Score:
    """Let a conversation be observed. What is known already is not noted again, as in the product."""
    job = await _Bench.of(Memory(titles=False), "observer", model).job()
    answer = await job.ask(
        observer_request(case, job.model),
        lambda text: observations_of(case, text),
        "no observations",
    )
    lines = without_repetition(answer.value if answer else ())
    return judged(case, [line.text for line in lines])


async def play_threads(case: ThreadCase, _: Provider, model: Watched) -> Score:
    """Let a thread be observed turn by turn, and judge what its prompt would show at the end. A turn whose
    answer cannot be used is observed with the next one, as in the product."""
    bench = _Bench.of(Memory(titles=False), "observer", model)
    after: str | None = None
    noted = Compacted()
    for exchange in case.turns:
        run_id = await bench.hold(exchange.turn)
        snapshot = await bench.runtime.journal.runs.snapshot(USER, run_id)
        assert snapshot is not None
        leaf = response_messages(snapshot)[-1].id
        limits = replace(_ANY_LIMITS, kind="observations")
        job = CompactionJob(bench.runtime, bench.agent, snapshot.meta, limits, leaf)
        if await observe_ahead(job, after, leaf) == "compacted":
            after = leaf
            noted = await job.read_compacted()
    texts = [line.text for line in latest([o for g in noted.slices for o in g.observations])]
    score = judged(case, texts)
    _find_repetition(score, case, texts)
    return score


def _find_repetition(score: Score, case: Judged, texts: Sequence[str]) -> None:
    """Each text more than one that states a fact is wrong."""
    for point in case.must:
        if (count := point.count_in(texts)) > 1:
            score.wrong += count - 1
            score.remarks.append(f"{case.id}: said {count} times: {point.fact}")


async def play_reflector(case: ReflectorCase, _: Provider, model: Watched) -> Score:
    """Let a log be condensed; an answer that cannot be used leaves it as it is."""
    job = await _Bench.of(Memory(titles=False), "reflector", model).job()
    before = case.observations
    target = reflector.size(before) * case.most // len(before)
    answer = await ask_reflector(job, before, target, waits=True)
    texts = [line.text for line in (answer.value if answer else before)]
    score = judged(case, texts)
    score.facts += 1
    if len(texts) > case.most:
        score.remarks.append(f"{case.id}: not condensed: {len(texts)} lines, not {case.most}")
    else:
        score.found += 1
    _find_repetition(score, case, texts)
    return score


async def play_words(case: RecallCase, _: Provider, __: Watched) -> Score:
    """Teach the entries, and let an agent search them with `recall_memory`, by words only."""
    return judge_hits(case, await hits_of(case, None))


async def play_vectors(case: RecallCase, provider: Provider, _: Watched) -> Score:
    """The same, by words and by the vectors of the provider's embedder."""
    return judge_hits(case, await hits_of(case, provider.embedder))


async def hits_of(case: RecallCase, embedder: Any) -> list[list[str]]:
    """Return the entries that a search finds for each question, best first."""
    questions = iter(q.question for q in case.questions)

    def turn(prompt: Prompt) -> Reply:
        asks = prompt.messages[-1].role is Role.USER and not bool(next_text)
        return call("recall_memory", query=next(questions)) if asks else say("Noted.")

    def learn(_: Prompt) -> Reply:
        return say(shown([Proposal(evidence=t, content=t) for t in next_text]))

    next_text: list[str] = []
    memory = Memory(titles=False, episodic=EpisodicMemory())
    agent = Agent(AGENT, instructions="You help.", memory=memory)
    model = ScriptedModel(turn, background={"extractor": learn})
    # Without one of its own, an agent has the environment's embedder.
    runtime = replace(in_memory_runtime(agent, model=model), embedder=embedder, embedder_named=None)
    agent.runtime = runtime
    for number, text in enumerate(case.known):
        next_text[:] = [text]
        await agent.generate(text, thread_id=f"{BEFORE}-{number}", resource_id=USER)
        await agent.wait_for_memory()
    next_text.clear()
    hits: list[list[str]] = []
    for number, question in enumerate(case.questions):
        run = await agent.generate(question.question, thread_id=f"q-{number}", resource_id=USER)
        (result,) = tool_results(run, "recall_memory")
        hits.append([entry["content"] for entry in result["entries"]])
        await agent.wait_for_memory()
    return hits


def judge_hits(case: RecallCase, hits: Sequence[Sequence[str]]) -> Score:
    """Return the score of these entries, for each question. A fact is found if its entry is among the first;
    wrong is each question whose first entry is another one."""
    score = Score(texts=[text for texts in hits for text in texts[:1]])
    for question, texts in zip(case.questions, hits, strict=True):
        right = [bool(question.patterns) and _has_all(question.patterns, t) for t in texts]
        score.facts += bool(question.patterns)
        score.found += any(right[: case.within])
        score.stored += bool(texts)
        score.wrong += bool(texts) and not right[0]
        if question.patterns and not any(right[: case.within]):
            score.remarks.append(f"{case.id}: not found: {question.question}")
        elif texts and not right[0]:
            score.remarks.append(f"{case.id}: another one first: {question.question}: {texts[0]}")
    return score


def count_words(text: str) -> int:
    """Count words; in a script without blanks, each character is one."""
    return len(_SPACED.findall(text)) + len(_UNSPACED.findall(text))


def _judged_notes(case: NotesCase, known: Mapping[str, Any], value: Any) -> Score:
    """Return the score of the lines of a note that are new; `stale`: known ones that should be gone."""
    before = _note_lines(known)
    after = _note_lines(value)
    score = judged(case, [line for line in after if line not in before])
    stale = [line for line in after if line in before and any(matches(p, line) for p in case.gone)]
    score.stale = len(stale)
    score.remarks += [f"{case.id}: should be gone: {line}" for line in stale]
    return score


def _note_lines(value: Any) -> list[str]:
    fields = value if isinstance(value, Mapping) else {"about": value or ""}
    return [
        f"{name}: {each}" for name, content in fields.items() for each in _as_list(content) if each
    ]


def _as_list(content: Any) -> list[Any]:
    return content if isinstance(content, list) else [content]


def _also_missed(score: Score, remark: str) -> Score:
    """Return the score with one more fact, which was not found."""
    score.facts += 1
    score.remarks.append(remark)
    return score


def _find_wrong(score: Score, remark: str) -> None:
    """The one text that there is is wrong, for this reason."""
    score.wrong = 1
    score.remarks.append(remark)


def _has_all(patterns: Sequence[str], text: str) -> bool:
    return all(matches(p, text) for p in patterns)

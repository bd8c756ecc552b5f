"""A conversation in this process: it is imported, memory learns from it, and a model answers questions with
what is remembered."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from layover.clock import ManualClock
from layover.context.compaction import limits_of
from layover.declare.agent import Agent
from layover.declare.context import RunContext
from layover.declare.memory import EpisodicMemory, Memory, ObservationalMemory, SemanticRecall
from layover.desk.evals.qa.data import Conversation, Question, Said
from layover.keys import step_key
from layover.plugins.memory.condenses import observe
from layover.plugins.memory.condenses.job import CompactionJob
from layover.plugins.memory.learns.learning import learn
from layover.plugins.memory.learns.record import record
from layover.ports import ChatModel, Embedder
from layover.records.threads import head_of
from layover.runtime import Runtime
from layover.threads.imports import (
    MAX_MESSAGES,
    MAX_MESSAGES_BYTES,
    ImportedMessage,
    ThreadImport,
    import_thread,
)
from layover.values.memory.context import Extraction
from layover.values.message import Message, Role
from layover.values.runs.run import RunMeta, RunSnapshot, Status, StepRecord
from layover.values.runs.usage import Usage
from layover.values.text import json_size
from layover.values.thread import ThreadHead
from layover.wiring import in_memory_runtime

OWNER, AGENT = "bench", "bench"
_HISTORY = "history"
ANSWERING = """You answer questions about past conversations, from what you are shown of them and recall.
Answer in one or two sentences, with names, numbers and dates as they were said. Count relative dates from
the day on which they were said, and give them in full. If nothing that you are shown tells it, say that it
was not mentioned."""


@dataclass(frozen=True)
class Models:
    """The models by name: of answers, of the judge, of the extractor and of the observer."""

    answers: str
    judge: str
    extractor: str
    observer: str


@dataclass(frozen=True)
class Reply:
    """An answer. `problem`: the reason why there is none."""

    text: str
    tokens: int = 0
    problem: str | None = None


class Learner:
    """One conversation, and what memory has of it. `model` None: the environment's."""

    def __init__(
        self,
        conversation: Conversation,
        models: Models,
        *,
        model: ChatModel | None = None,
        embedder: Embedder | None = None,
    ) -> None:
        self._conversation = conversation
        times = [each.at for session in conversation.sessions for each in session]
        newest = max([*times, *(question.at for question in conversation.questions)])
        learning = _agent(per_turn=EpisodicMemory().per_turn)
        runtime = in_memory_runtime(
            learning,
            model=model,
            embedder=embedder,
            clock=ManualClock(newest + timedelta(minutes=1)),
        )
        settings = {
            "model": models.answers,
            "extractor_model": models.extractor,
            "observer_model": models.observer,
        }
        self._agent = learning
        self._runtime = replace(runtime, settings=runtime.settings.model_copy(update=settings))
        # What a question says teaches nothing: the next one would find it.
        self._answering = _agent(per_turn=0)
        self._answering.runtime = replace(self._runtime, agents=lambda: {AGENT: self._answering})
        self._head: ThreadHead | None = None

    async def learn(self) -> None:
        """Import the conversation as one thread and observe it, and extract entries from every turn."""
        whole = [each for session in self._conversation.sessions for each in session]
        self._head = await self._import(self._runtime, _HISTORY, whole)
        await self._observe(self._head)
        # Entries of a thread are not shown in it: they belong to the sessions' own threads, whose messages
        # nobody recalls a second time.
        wordless = replace(self._runtime, embedder=None)
        for number, session in enumerate(self._conversation.sessions):
            head = await self._import(wordless, f"session {number}", session)
            messages = await self._runtime.threads.newest_messages(
                OWNER, head.id, str(head.leaf_id), len(session)
            )
            for turn in _turns(messages):
                await self._extract(turn)

    async def count(self) -> tuple[int, int]:
        """Return the numbers of entries and of observations that memory has."""
        assert self._head is not None
        entries = await self._runtime.memory.list_entries(OWNER, AGENT, 100_000, None)
        stages = await self._runtime.memory.observations(
            OWNER, self._head.id, str(self._head.leaf_id)
        )
        return len(entries), sum(len(stage.observations) for stage, _ in stages)

    async def ask(self, question: Question) -> Reply:
        """Ask, as the next message of the conversation; then the thread is as before."""
        assert self._head is not None
        head, agent = self._head, self._answering
        try:
            result = await agent.generate(question.text, thread_id=head.id, resource_id=OWNER)
            await agent.wait_for_memory()
        except Exception as error:  # a question that fails is counted, and the others are asked
            return Reply("", problem=f"{type(error).__name__}: {error}")
        await self._go_back(head)
        if result.error is not None:
            words = result.error_detail or result.error
            return Reply("", problem=f"{result.error.type}: {words.message}")
        return Reply(result.text, tokens=result.usage.total_tokens)

    async def _go_back(self, head: ThreadHead) -> None:
        now = await head_of(self._runtime, OWNER, head.id)
        assert head.leaf_id is not None
        assert head.last_created_at is not None
        await self._runtime.journal.heads.advance(now, head.leaf_id, head.last_created_at)

    async def _import(self, runtime: Runtime, id: str, turns: Sequence[Said]) -> ThreadHead:
        offset = 0
        for part in _parts(turns):
            messages = [ImportedMessage(each.role, each.text, each.at) for each in part]
            outcome = await import_thread(
                runtime,
                OWNER,
                ThreadImport(agent=AGENT, messages=messages, external_id=id, offset=offset),
            )
            offset += len(part)
        return await head_of(runtime, OWNER, outcome.thread.id)

    async def _observe(self, head: ThreadHead) -> None:
        (newest,) = await self._runtime.threads.newest_messages(
            OWNER, head.id, str(head.leaf_id), 1
        )
        limits = limits_of(self._runtime, self._agent)
        assert limits is not None
        job = CompactionJob(
            runtime=self._runtime,
            agent=self._agent,
            meta=_meta(newest),
            limits=limits,
            leaf_id=newest.id,
        )
        await observe.condense(job, waits=False)

    async def _extract(self, turn: Sequence[Message]) -> None:
        first, *others = turn
        steps = [
            StepRecord(
                key=step_key("", number),
                index=number,
                message=message,
                usage=Usage(),
                model="",
                finish_reason="stop",
            )
            for number, message in enumerate(others, 1)
        ]
        snapshot = RunSnapshot(meta=_meta(first), steps=tuple(steps))
        learning = await learn(self._runtime, self._agent, snapshot)
        extraction = Extraction(
            run_id=snapshot.meta.id,
            thread_id=first.thread_id,
            agent=AGENT,
            said_at=first.created_at,
        )
        await record(self._runtime, OWNER, extraction, learning.facts, learning.entries)


def _agent(per_turn: int) -> Agent:
    memory = Memory(
        titles=False,
        compaction=ObservationalMemory(),
        semantic_recall=SemanticRecall(),
        # Both speakers of a conversation between people are believed.
        episodic=EpisodicMemory(assistant_evidence="trust", per_turn=per_turn),
    )
    return Agent(AGENT, instructions=_instructions, memory=memory)


def _instructions(ctx: RunContext[Any]) -> str:
    return f"{ANSWERING}\nToday is {ctx.now:%A, %d %B %Y}."


def _meta(message: Message) -> RunMeta:
    return RunMeta(
        id=f"run_{message.id}",
        owner=OWNER,
        thread_id=message.thread_id,
        agent=AGENT,
        status=Status.SUCCESS,
        input=message,
        created_at=message.created_at,
        updated_at=message.created_at,
    )


def _turns(messages: Sequence[Message]) -> Iterator[list[Message]]:
    """Yield each message of a user with what answers it. What comes before the first is a turn as well."""
    turn: list[Message] = []
    for message in messages:
        if message.role is Role.USER and turn:
            yield turn
            turn = []
        turn.append(message)
    if turn:
        yield turn


def _parts(turns: Sequence[Said]) -> Iterator[list[Said]]:
    """Yield the messages in as many requests as an import needs."""
    part: list[Said] = []
    size = 0
    for each in turns:
        bytes_of_it = json_size([each.text]) + 1
        if part and (len(part) == MAX_MESSAGES or size + bytes_of_it > MAX_MESSAGES_BYTES - 2):
            yield part
            part, size = [], 0
        part.append(each)
        size += bytes_of_it
    if part:
        yield part

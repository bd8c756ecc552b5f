"""Semantic recall around real turns: what is kept after one, and what the next one sees."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from layover import Agent, Memory, NodeMemory, SemanticRecall, TokenBuffer
from layover.errors import ModelError
from layover.inmemory.model import ScriptedModel, fail, say
from layover.inmemory.stores.memory import InMemoryMemory
from layover.inmemory.stores.threads import InMemoryThreads
from layover.testing import HashingEmbedder, InMemoryMetrics
from layover.values.memory.context import TurnContext, TurnQuery
from layover.values.metrics import Metric
from layover.values.prompt import Embedded, Prompt
from layover.wiring import in_memory_runtime
from support.worlds.loops import skipping

SECRET = "my locker code is 4711"
FILLER = [f"tell me something about number {n}" for n in range(4)]


class Hanging(HashingEmbedder):
    """Answers until it is told to hang."""

    hangs = False

    async def embed(self, texts: Sequence[str]) -> Embedded:
        if self.hangs:
            await asyncio.Event().wait()
        return await super().embed(texts)


class Answering(HashingEmbedder):
    """Gives what it should answer in another form."""

    def __init__(self, form: Any) -> None:
        super().__init__()
        self._form = form

    async def embed(self, texts: Sequence[str]) -> Any:
        return self._form((await super().embed(texts)).vectors)


class Chat:
    """One agent in one process, and what its model saw."""

    def __init__(self, embedder: Any, recall: SemanticRecall | None, **memory: Any) -> None:
        self.model = ScriptedModel(lambda prompt: say("fine"))
        options = {"titles": False, **memory}
        if "token_buffer" not in memory:
            options.setdefault("last_messages", 2)
        self.agent = Agent("helper", memory=Memory(semantic_recall=recall, **options))
        runtime = in_memory_runtime(self.agent, model=self.model, embedder=embedder)
        self.agent.runtime = runtime

    async def say(self, *texts: str, thread: str = "t") -> Prompt:
        """Say these in turn; the last one's prompt."""
        for text in texts:
            result = await self.agent.generate(text, thread_id=thread, resource_id="ann")
            assert result.status == "success"
            await self.agent.wait_for_memory()
        return self.model.prompts[-1]


def recalled(prompt: Prompt) -> str:
    """The block of recalled messages."""
    text = prompt.messages[-1].text
    return text.partition("<recalled_messages>")[2].partition("</recalled_messages>")[0]


def lines(prompt: Prompt) -> list[str]:
    """Return the recalled messages, each with its speaker."""
    block = recalled(prompt).strip().splitlines()
    return [line.partition("] ")[2] for line in block if "] " in line]


async def test_an_agent_that_does_not_name_recall_embeds_nothing() -> None:
    embedder = HashingEmbedder()
    chat = Chat(embedder, None)
    assert recalled(await chat.say(SECRET, *FILLER, "what is my locker code?")) == ""
    assert embedder.asked == 0


async def test_without_an_embedder_recall_is_off_with_one_warning(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "layover.plugins.memory.reads.semantic.recall._warned_agents", set()
    )  # once a process
    chat = Chat(None, SemanticRecall())
    assert recalled(await chat.say(SECRET, *FILLER, "what is my locker code?")) == ""
    assert [r.message for r in caplog.records].count(
        "semantic recall is off: no embedder is set (LAYOVER_EMBEDDER_MODEL)"
    ) == 1


async def test_a_failing_embedder_costs_no_turn_and_words_still_find() -> None:
    embedder = HashingEmbedder()
    embedder.fault = ModelError("down")
    chat = Chat(embedder, SemanticRecall(top_k=1))
    assert SECRET in recalled(await chat.say(SECRET, *FILLER, "what is my locker code?"))


async def test_an_embedder_that_raises_anything_costs_no_turn() -> None:
    embedder = HashingEmbedder()
    embedder.fault = ZeroDivisionError()
    chat = Chat(embedder, SemanticRecall(top_k=1))
    assert SECRET in recalled(await chat.say(SECRET, *FILLER, "what is my locker code?"))


@pytest.mark.parametrize("answer", [None, [], [["x"]], Embedded([], "m"), Embedded(None, "m")])  # type: ignore[arg-type]
async def test_an_embedder_that_answers_wrongly_costs_no_turn_and_words_still_find(
    answer: Any,
) -> None:
    chat = Chat(Answering(lambda vectors: answer), SemanticRecall(top_k=1))
    assert SECRET in recalled(await chat.say(SECRET, *FILLER, "what is my locker code?"))


async def test_an_embedder_may_answer_with_a_plain_list_of_vectors() -> None:
    chat = Chat(Answering(lambda vectors: vectors), SemanticRecall(top_k=1))
    await chat.say(SECRET, *FILLER)
    (thread,) = chat.agent.runtime.threads.of("ann")
    assert all(kept.text.vector for kept in thread.texts.values())


async def test_a_text_that_the_embedder_refuses_costs_the_turns_others_no_vector() -> None:
    class Choosy(HashingEmbedder):
        async def embed(self, texts: Sequence[str]) -> Embedded:
            if SECRET in texts:
                raise ModelError("too long", status=400)
            return await super().embed(texts)

    chat = Chat(Choosy(), SemanticRecall(top_k=1))
    await chat.say(SECRET, *FILLER)
    (thread,) = chat.agent.runtime.threads.of("ann")
    texts = [kept.text for kept in thread.texts.values()]
    assert [t.text.endswith(SECRET) for t in texts if t.vector is None] == [True]
    assert len(texts) == 10


@skipping
async def test_an_embedder_that_hangs_is_waited_for_two_seconds() -> None:
    embedder = Hanging()
    chat = Chat(embedder, SemanticRecall(top_k=1))
    await chat.say(SECRET, *FILLER)
    embedder.hangs = True
    question = "what is my locker code?"
    stream = chat.agent.stream(question, thread_id="t", resource_id="ann")
    async with asyncio.timeout(60):
        async for event in stream:
            if event.type == "finish":
                break
    embedder.hangs = False
    assert SECRET in recalled(chat.model.prompts[-1])


async def test_what_was_said_outside_the_window_is_recalled_with_its_neighbours() -> None:
    chat = Chat(HashingEmbedder(), SemanticRecall(top_k=1))
    prompt = await chat.say("hello", SECRET, *FILLER, "what is my locker code?")
    assert lines(prompt) == [
        "user: hello",
        "assistant: fine",
        f"user: {SECRET}",
        "assistant: fine",
    ]


async def test_what_the_window_shows_is_not_recalled() -> None:
    chat = Chat(HashingEmbedder(), SemanticRecall(), last_messages=20)
    assert recalled(await chat.say("hello", SECRET, "what is my locker code?")) == ""


async def test_what_a_token_buffer_shows_is_not_recalled() -> None:
    chat = Chat(
        HashingEmbedder(),
        SemanticRecall(top_k=1, before=0),
        token_buffer=TokenBuffer(max_tokens=30),
    )
    prompt = await chat.say(SECRET, *FILLER, "what is my locker code?")
    assert SECRET in recalled(prompt)
    prompt = await chat.say("say locker", "what is my locker?")
    assert "say locker" not in recalled(prompt)


async def test_what_a_token_buffer_shows_takes_no_place_of_what_is_recalled() -> None:
    chat = Chat(
        HashingEmbedder(),
        SemanticRecall(top_k=1, before=0, after=1),
        token_buffer=TokenBuffer(max_tokens=300),
    )
    await chat.say(SECRET, *FILLER, "x" * 1_600)
    prompt = await chat.say(*["what is my locker code?"] * 5)
    assert [m.text for m in prompt.messages[:-1]].count("what is my locker code?") == 4
    assert lines(prompt) == [f"user: {SECRET}", "assistant: fine"]


async def test_a_node_recalls_what_its_history_does_not_show() -> None:
    chat = Chat(
        HashingEmbedder(),
        SemanticRecall(top_k=1, before=0, after=0),
        history=NodeMemory("step"),
        last_messages=20,
    )
    answers = iter([fail("down")])
    chat.model._scripts["turn"] = iter([lambda prompt: next(answers, say("fine"))] * 20)
    failed = await chat.agent.generate(SECRET, thread_id="t", resource_id="ann")
    assert failed.status == "failed"
    prompt = await chat.say("the locker code is blue", "what is my locker code?")
    assert SECRET not in [m.text for m in prompt.messages]
    assert lines(prompt) == [f"user: {SECRET}"]


async def test_other_threads_are_searched_only_where_asked() -> None:
    for scope, found in (("thread", False), ("resource", True)):
        chat = Chat(HashingEmbedder(), SemanticRecall(top_k=1, scope=scope))  # type: ignore[arg-type]
        await chat.say(SECRET, thread="old")
        prompt = await chat.say("what is my locker code?", thread="new")
        assert (SECRET in recalled(prompt)) is found


async def test_a_text_is_embedded_once() -> None:
    embedder = HashingEmbedder()
    await Chat(embedder, SemanticRecall(scope="resource")).say("my lamp is blue")
    assert embedder.asked == 3  # the query, the input and the answer


async def test_thanks_look_for_nothing() -> None:
    embedder = HashingEmbedder()
    chat = Chat(embedder, SemanticRecall())
    await chat.say(f"Thanks for noting that {SECRET}", *FILLER)
    asked = embedder.asked
    assert recalled(await chat.say("Thanks!")) == ""
    assert embedder.asked == asked + 2  # the input and the answer


@pytest.mark.parametrize("question", ["How is it?", "And what about the weather in Oslo?"])
async def test_what_is_on_another_topic_is_not_recalled(question: str) -> None:
    chat = Chat(Answering(lambda vectors: [None] * len(vectors)), SemanticRecall())
    await chat.say(f"How is it that {SECRET}", *FILLER)
    assert recalled(await chat.say(question)) == ""


async def test_a_pasted_log_does_not_hide_the_question() -> None:
    log = "\n".join(
        f"2026-05-0{n % 9} 12:00:0{n % 9} worker{n} task{n} done in {n} ms" for n in range(900)
    )
    for text in (f"{log}\n\nwhat is my locker code?", f"what is my locker code?\n\n{log}"):
        chat = Chat(HashingEmbedder(), SemanticRecall(top_k=1))
        assert SECRET in recalled(await chat.say(SECRET, *FILLER, text))


async def test_what_was_said_to_a_run_that_failed_is_found_later() -> None:
    chat = Chat(HashingEmbedder(), SemanticRecall(top_k=1))
    answers = iter([fail("down")])
    chat.model._scripts["turn"] = iter([lambda prompt: next(answers, say("fine"))] * 20)
    failed = await chat.agent.generate(SECRET, thread_id="t", resource_id="ann")
    assert failed.status == "failed"
    assert "4711" in recalled(await chat.say(*FILLER, "what is my locker code?"))


class SmallScopes(InMemoryThreads):
    """A store that searches three texts."""

    async def open_turn(self, query: TurnQuery) -> TurnContext:
        recall = query.recall and query.recall.model_copy(update={"most_rows": 3})
        return await super().open_turn(query.model_copy(update={"recall": recall}))


async def test_a_scope_that_is_not_searched_whole_is_counted() -> None:
    chat = Chat(HashingEmbedder(), SemanticRecall(top_k=1))
    threads, metrics = SmallScopes(), InMemoryMetrics()
    stores = {"threads": threads, "memory": InMemoryMemory(threads), "metrics": metrics}
    chat.agent.runtime = replace(chat.agent.runtime, **stores)
    await chat.say("one", "two")
    assert metrics.total(Metric.RECALL_SCOPE_CUT) == 0
    await chat.say("three", "four")
    assert metrics.total(Metric.RECALL_SCOPE_CUT, agent="helper") > 0


async def test_at_the_beginning_of_a_thread_nothing_is_looked_for() -> None:
    embedder = HashingEmbedder()
    chat = Chat(embedder, SemanticRecall())
    await chat.say("one")
    said_and_answered = 2
    assert embedder.asked == said_and_answered
    await chat.say("two")
    assert embedder.asked == 2 * said_and_answered + 1

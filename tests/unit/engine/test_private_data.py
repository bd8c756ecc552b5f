"""Personal data under `RedactPII`: no model reads it, in no request that is made for its agent."""

import json
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from layover import (
    Agent,
    EpisodicMemory,
    Hook,
    HookContext,
    Memory,
    ModelRequest,
    ObservationalMemory,
    RedactPII,
    RollingSummary,
    SemanticRecall,
    WorkingMemory,
    tool,
)
from layover.plugins.memory.learns.entries import correct_entry, list_entries
from layover.plugins.memory.learns.reembed import reembed
from layover.plugins.memory.reads.profile.notes import note_keys
from layover.ports.memory.entries import Owners
from layover.testing import HashingEmbedder, ScriptedModel, call, say
from layover.values.prompt import Embedded, Prompt
from support.worlds.runs import ANN, Bench

MAIL = "ann@x.org"
SAID = f"Please write to {MAIL} about the order that is late"


def sent(bench: Bench) -> dict[str, str]:
    """Return the texts that the model has read, by task."""
    texts: dict[str, str] = {}
    for prompt in bench.model.prompts:
        texts[prompt.task] = texts.get(prompt.task, "") + text_of(prompt)
    return texts


def text_of(prompt: Prompt) -> str:
    messages = [m.model_dump_json() + (m.model_output or "") for m in prompt.messages]
    return f"{prompt.system}\n" + "\n".join(messages)


def bench_of(background: dict[str, Any], *script: Any, **options: Any) -> Bench:
    agent = Agent("helper", model="m", hooks=[RedactPII()], **options)
    return Bench(agent, ScriptedModel(list(script) or [say("ok")] * 9, background=background))


async def test_a_title_is_made_of_placeholders_and_stored_with_the_data() -> None:
    bench = bench_of({"title": [say("Late order of [EMAIL_1]")]})
    await bench.go(SAID)
    await bench.remember()
    assert "[EMAIL_1]" in sent(bench)["title"]
    assert MAIL not in str(sent(bench))
    assert (await bench.head()).title == f"Late order of {MAIL}"


async def test_working_memory_keeps_the_data_and_the_next_run_shows_placeholders() -> None:
    script = [call("update_working_memory", memory="Mail: [EMAIL_1]"), say("ok"), say("ok")]
    bench = bench_of({}, *script, memory=Memory(titles=False, working_memory=WorkingMemory()))
    await bench.go(SAID)
    assert MAIL in str(await _notes(bench))
    await bench.go("and now?")
    system = bench.model.prompts[-1].system or ""
    assert "Mail: [EMAIL_1]" in system
    assert MAIL not in str(sent(bench))


async def _notes(bench: Bench) -> Any:
    return await bench.plain.memory.read_notes(ANN, note_keys(bench.agent, "t1"))


async def test_facts_and_entries_are_learned_of_placeholders_and_stored_with_the_data() -> None:
    quote = "write to [EMAIL_1] about the order"
    entry = {"content": "Ann reads [EMAIL_1].", "source": "user_assertion", "evidence": quote}
    fact = {"mail": {"value": "[EMAIL_1]", "evidence": "write to [EMAIL_1]"}}
    bench = bench_of(
        {
            "extractor": [say(json.dumps({"entries": [entry]}))],
            "profile": [say(json.dumps(fact))],
        },
        memory=Memory(titles=False, profile=True, session=True, episodic=EpisodicMemory()),
    )
    await bench.go(SAID)
    await bench.remember()
    assert {"extractor", "profile", "session"} <= sent(bench).keys()
    assert MAIL not in str(sent(bench))
    page = await list_entries(bench.plain, ANN, "helper", None, 10, None)
    assert [e.content for e in page.items] == [f"Ann reads {MAIL}."]
    assert page.items[0].evidence == f"write to {MAIL} about the order"


@pytest.mark.parametrize(
    ("compaction", "task", "answer"),
    [
        (
            RollingSummary(max_window=12_000, tail=1),
            "summary",
            "## Goal\nTo write to [EMAIL_1].",
        ),
        (
            ObservationalMemory(message_tokens=3_000),
            "observer",
            "Date: 2026-01-01\n* 🔴 (10:00) Ann wants a mail to [EMAIL_1].",
        ),
    ],
)
async def test_older_messages_are_condensed_of_placeholders_and_stored_with_the_data(
    compaction: Any, task: str, answer: str
) -> None:
    memory = Memory(titles=False, compaction=compaction)
    bench = bench_of({task: lambda prompt: say(answer)}, memory=memory)
    for _ in range(6):
        await bench.go(f"{SAID}. " + "It is late. " * 1_000)
        await bench.remember()
    assert "[EMAIL_1]" in sent(bench)[task]
    assert MAIL not in str(sent(bench))
    kind: Any = "summary" if task == "summary" else "observations"
    leaf = (await bench.stored())[-1].id
    assert MAIL in str(await bench.plain.memory.compacted(ANN, "t1", leaf, kind))


async def test_a_sub_agent_redacts_as_its_caller_does() -> None:
    leaf = Agent("leaf", model="m")
    child = Agent("child", model="m", tools=[leaf.as_tool("Does it.")])
    script = [
        call("child", input="write to [EMAIL_1]"),
        call("leaf", input="mail [EMAIL_1]"),
        say("wrote to [EMAIL_1]"),
        say("done: [EMAIL_1]"),
        say("ok [EMAIL_1]"),
    ]
    bench = bench_of({}, *script, tools=[child.as_tool("Writes mails.")])
    run = await bench.go(SAID)
    assert run.text == f"ok {MAIL}"
    assert str(run.children).count(f"done: {MAIL}") >= 1
    assert MAIL not in str(sent(bench))


async def test_a_sub_agents_own_redaction_stays() -> None:
    own = RedactPII({"ORDER": r"A-\d+"}, kinds=())
    child = Agent("child", model="m", hooks=[own])
    script = [call("child", input="[EMAIL_1] ordered A-17"), say("done"), say("ok")]
    bench = bench_of({}, *script, tools=[child.as_tool("Writes mails.")])
    await bench.go(SAID)
    briefing = bench.model.prompts[1].messages[0].text
    assert briefing == f"{MAIL} ordered [ORDER_1]"


async def test_a_sub_agent_has_its_callers_hook_around_the_model_alone() -> None:
    asked: list[str] = []

    class Notes(Hook):
        everywhere = True

        def before_model(self, ctx: HookContext, request: ModelRequest) -> None:
            asked.append(f"model of {ctx.agent_name}")

        def before_tool(self, ctx: HookContext, call: Any) -> None:
            asked.append(f"tool of {ctx.agent_name}")

        def at_end(self, ctx: HookContext, result: Any) -> None:
            asked.append(f"end of {ctx.agent_name}")

    @tool
    def look() -> str:
        """Look."""
        return "x"

    child = Agent("child", tools=[look])
    agent = Agent("top", tools=[child.as_tool("Does it.")], hooks=[Notes()])
    bench = Bench(agent, [call("child", input="x"), call("look"), say("a"), say("b")])
    await bench.go()
    top = ["model of top", "tool of top"]
    assert asked == [*top, "model of child", "model of child", "model of top", "end of top"]


async def test_a_hook_that_fails_around_memory_sends_nothing() -> None:
    class Fails(Hook):
        everywhere = True

        def before_model(self, ctx: HookContext, request: ModelRequest) -> None:
            if request.system and "title" in request.system:
                raise ValueError("no")

    agent = Agent("helper", model="m", hooks=[Fails()])
    bench = Bench(agent, ScriptedModel([say("ok")], background={"title": [say("A title")]}))
    await bench.go(SAID)
    await bench.remember()
    assert "title" not in sent(bench)
    assert (await bench.head()).title is None


async def test_other_hooks_are_not_asked_around_memory() -> None:
    asked: list[str | None] = []

    class Looks(Hook):
        def before_model(self, ctx: HookContext, request: ModelRequest) -> None:
            asked.append(request.system)

    agent = Agent("helper", model="m", instructions="mine", hooks=[Looks()])
    bench = Bench(agent, ScriptedModel([say("ok")], background={"title": [say("A title")]}))
    await bench.go(SAID)
    await bench.remember()
    assert asked == ["mine"]
    assert (await bench.head()).title == "A title"


@pytest.mark.parametrize(
    "text", ["call\n+49 30 1234567", "mail\nann@x.org", "\tDE89370400440532013000"]
)
def test_a_value_behind_an_escaped_line_end_is_found(text: str) -> None:
    from unit.engine.test_ready_hooks import sent as texts_of

    [shown] = texts_of(RedactPII(), json.dumps({"note": text}))
    assert json.loads(shown)["note"].endswith("_1]")


class Reads(HashingEmbedder):
    """An embedder, and the texts that it has read."""

    def __init__(self) -> None:
        super().__init__(64)
        self.texts: list[str] = []

    async def embed(self, texts: Sequence[str]) -> Embedded:
        self.texts += texts
        return await super().embed(texts)


async def test_an_embedder_reads_placeholders_and_the_words_are_stored() -> None:
    entry = {"content": "Ann reads [EMAIL_1].", "source": "user_assertion"}
    entry["evidence"] = "write to [EMAIL_1] about the order"
    background = {"extractor": [say(json.dumps({"entries": [entry]})), say("{}")]}
    memory = Memory(titles=False, semantic_recall=SemanticRecall(), episodic=EpisodicMemory())
    script = [say("ok"), call("recall_memory", query="the mail [EMAIL_1]"), say("ok")]
    agent = Agent("helper", model="m", hooks=[RedactPII()], memory=memory)
    reads = Reads()
    bench = Bench(agent, ScriptedModel(script, background=background), embedder=reads)
    await bench.go(SAID)
    await bench.remember()
    await bench.go(f"Which order of {MAIL} is late, {MAIL}?")
    await bench.remember()
    [learned] = (await list_entries(bench.plain, ANN, "helper", None, 10, None)).items
    assert learned.content == f"Ann reads {MAIL}."
    await list_entries(bench.plain, ANN, "helper", f"mail of {MAIL}", 10, None)
    await correct_entry(bench.plain, ANN, learned.id, f"Ann reads {MAIL} and bob@y.org.")
    assert "Ann reads [EMAIL_1]." in reads.texts
    assert "Ann reads [EMAIL_1] and [EMAIL_2]." in reads.texts
    assert "mail of [EMAIL_1]" in reads.texts
    assert "the mail [EMAIL_1]" in reads.texts
    assert not [text for text in reads.texts if "@" in text or "x.org" in text]
    assert len(reads.texts) > 8


async def test_a_hook_changes_an_embedded_text_once() -> None:
    class Masks(Hook):
        everywhere = True

        def before_embedding(self, text: str) -> str:
            return f"masked {text}"

    memory = Memory(titles=False, semantic_recall=SemanticRecall())
    agent = Agent("helper", model="m", hooks=[Masks()], memory=memory)
    reads = Reads()
    bench = Bench(agent, ScriptedModel([say("Kyoto"), say("ok")]), embedder=reads)
    await bench.go("Which city has temples?")
    await bench.remember()
    await bench.go("Which temples?")
    assert reads.texts[:2] == ["masked Which city has temples?", "masked Kyoto"]
    assert [text.count("masked") for text in reads.texts] == [1, 1, 1]


async def test_reembedding_reads_placeholders() -> None:
    memory = Memory(titles=False, semantic_recall=SemanticRecall(), episodic=EpisodicMemory())
    agent = Agent("helper", model="m", hooks=[RedactPII()], memory=memory)
    bench = Bench(agent, ScriptedModel([say("ok")]), embedder=Fails())
    await bench.go(SAID)
    await bench.remember()
    reads, owners = Reads(), cast(Owners, OneOwner())
    counts = await reembed(replace(bench.plain, embedder=reads), owners)
    assert counts.messages == 2
    assert "Please write to [EMAIL_1] about the order that is late" in reads.texts
    assert MAIL not in str(reads.texts)


class Fails(HashingEmbedder):
    async def embed(self, texts: Sequence[str]) -> Embedded:
        raise ValueError("it is down")


class OneOwner:
    async def owners(self, after: str, limit: int) -> list[str]:
        return [] if after else [ANN]


@pytest.mark.parametrize("part", ["semantic_recall", "episodic"])
def test_a_hook_that_leaves_embedded_texts_alone_is_logged(
    part: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Own(Hook):
        everywhere = True

        def before_model(self, ctx: HookContext, request: ModelRequest) -> None:
            """Nothing."""

    parts: dict[str, Any] = {"semantic_recall": SemanticRecall(), "episodic": EpisodicMemory()}
    memory = Memory(**{part: parts[part]})
    with caplog.at_level(logging.WARNING, "layover"):
        Agent("helper", hooks=[RedactPII()], memory=memory)
        Agent("helper", hooks=[Own()])
        assert caplog.messages == []
        Agent("helper", hooks=[Own()], memory=memory)
    [line] = caplog.messages
    assert part in line
    assert "'helper'" in line


def test_a_handoff_to_an_agent_that_does_not_redact_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, "layover"):
        Agent("helper", hooks=[RedactPII()], handoffs=[Agent("safe", hooks=[RedactPII()])])
        Agent("plain", handoffs=[Agent("other")])
        assert caplog.messages == []
        Agent("helper", hooks=[RedactPII()], handoffs=[Agent("billing")])
    [line] = caplog.messages
    assert "'billing'" in line

"""Condensing around runs that wait: what they still need stays, and all else leaves the prompts
(docs/behaviour.md#compaction-around)."""

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from layover import Agent, Memory, ObservationalMemory, RollingSummary, tool
from layover.clock import ManualClock
from layover.context.assembly import estimated_tokens
from layover.context.waiting import WAITS
from layover.inmemory.model import ScriptedModel, call, calls, say
from layover.plugins.memory.condenses.compact import compact
from layover.plugins.memory.reads.blocks import compaction_block
from layover.runs.cancel import cancel
from layover.values.message import Role, TextPart
from layover.values.prompt import Prompt, Reply
from layover.values.runs.payload import CompactPayload
from support.worlds.runs import ANN, Bench
from support.worlds.talk import TIMEOUT, check_prompt

START = 3_000
PADDING = " padding" * 480
"""About 960 tokens."""
MODES = [
    pytest.param(ObservationalMemory(message_tokens=START), id="observations"),
    pytest.param(RollingSummary(max_window=13_750, tail=2), id="summary"),
]
every_mode = pytest.mark.parametrize("mode", MODES)


@tool(needs_approval=True, expires_after=timedelta(hours=1))
async def pay(amount: int) -> str:
    """Pay."""
    return f"receipt-{amount}"


@tool(idempotent=True)
def look(at: str) -> str:
    """Look."""
    return f"sight-{at}"


def turn_of(prompt: Prompt) -> Reply:
    check_prompt(prompt.messages)
    last = prompt.messages[-1]
    if last.role is Role.TOOL:
        if (last.model_output or "").startswith("sight-"):
            return call("pay", amount=int((last.model_output or "")[6:]), tool_call_id="p")
        return say("outcome " + (last.model_output or ""))
    word, *rest = last.text.split()[:3]
    if word == "look":
        return call("look", at=rest[0], tool_call_id=f"l{rest[0]}")
    if word == "pay":
        return call("pay", amount=int(rest[0]), tool_call_id=f"c{rest[0]}")
    if word == "both":
        return calls(
            *(call("pay", amount=int(n), tool_call_id=f"c{n}") for n in rest),
        )
    if word == "desk":
        return call("desk", input=f"pay {rest[0]}", tool_call_id=f"d{rest[0]}")
    return say(f"re-{word} ok{PADDING}")


class Chat:
    """A conversation that is condensed, and what memory's model has read of it."""

    def __init__(self, mode: Any) -> None:
        self.read: list[str] = []
        memory = Memory(last_messages=2, compaction=mode, titles=False)
        desk = Agent("desk", model="m", tools=[pay])
        agent = Agent(
            "shop",
            model="m",
            tools=[pay, look, desk.as_tool("Pays.")],
            memory=memory,
            tool_concurrency=3,
        )
        background = {"observer": self._observe, "summary": self._sum_up}
        model = ScriptedModel(turn_of, background=background)
        self.bench = Bench(agent, model, clock=ManualClock())
        self.bench.observe_ahead()

    def _words(self, prompt: Prompt) -> str:
        text = prompt.messages[-1].text.rpartition("<transcript>")[2]
        self.read.append(text)
        return " ".join(dict.fromkeys(re.findall(r"[a-z]+-\w+|WAITS", text)))

    def _observe(self, prompt: Prompt) -> Reply:
        return say(f"* INFO (00:00) part {len(self.read)} had {self._words(prompt)}")

    def _sum_up(self, prompt: Prompt) -> Reply:
        before = re.findall(r"[a-z]+-\w+", prompt.messages[-1].text.partition("<transcript>")[0])
        return say(f"## Goal\nTalk.\n\n## Current state\n{' '.join(before)} {self._words(prompt)}")

    async def say(self, text: str, **options: Any) -> str:
        """Say something, and let the memory work that follows be done; the run's id."""
        run_id = await self.bench.start(text + PADDING, **options)
        if await self.bench.drive(run_id) == "over":
            await self.remember(run_id)
        return run_id

    async def remember(self, run_id: str) -> None:
        await compact(self.bench.plain, self.bench.payload(run_id, CompactPayload))

    async def waits(self, text: str) -> str:
        run_id = await self.bench.start(text)
        assert await self.bench.drive(run_id) == "suspended"
        return run_id

    async def chat(self, *names: str) -> None:
        for name in names:
            await self.say(f"say-{name}")

    async def approve(self, run_id: str, call_id: str) -> None:
        assert await self.bench.answer(run_id, call_id, "approve") == "over"
        await self.remember(run_id)

    @property
    def prompts(self) -> Sequence[Prompt]:
        return list(self.bench.model.turns)

    @property
    def last(self) -> Prompt:
        return self.prompts[-1]

    def times_read(self, word: str) -> int:
        return sum(re.search(rf"(?<!re-){word}\b", text) is not None for text in self.read)


def raw(prompt: Prompt) -> list[str]:
    """The first word of each message as it was said, results as the model reads them."""
    words = []
    for message in prompt.messages:
        parts = [p.text for p in message.content if isinstance(p, TextPart)]
        own = [t for t in parts if not t.startswith(("<observations", "<summary"))]
        if message.role is Role.TOOL:
            words.append("WAITS" if message.model_output == WAITS else str(message.model_output))
        elif message.tool_calls:
            words += [f"call {each.tool_call_id}" for each in message.tool_calls]
        elif own:
            words.append(" ".join(own[-1].split()[: 2 if own[-1][:3] != "say" else 1]))
    return words


def condensed(prompt: Prompt) -> str:
    texts = (p.text for m in prompt.messages for p in m.content if isinstance(p, TextPart))
    return next((t for t in texts if t.startswith(("<observations", "<summary"))), "")


def names(letter: str, count: int = 5) -> list[str]:
    return [f"{letter}{n}" for n in range(count)]


@every_mode
async def test_what_is_said_behind_a_run_that_waits_is_condensed(mode: Any) -> None:
    chat = Chat(mode)
    await chat.chat("before")
    await chat.waits("pay 7")
    await chat.chat(*names("a", 9))
    assert max(map(estimated_tokens, chat.prompts)) < 2 * START
    assert "say-a0" in condensed(chat.last)
    assert "say-before" in condensed(chat.last)
    assert raw(chat.last)[:3] == ["pay 7", "call c7", "WAITS"]
    assert raw(chat.last)[-1] == "say-a8"
    assert chat.times_read("pay 7") == 0, "nothing is noted of a call before its result is there"


@every_mode
async def test_prompts_with_a_run_that_waits_grow_no_more_than_without(mode: Any) -> None:
    sizes = []
    for waits in (True, False):
        chat = Chat(mode)
        if waits:
            await chat.waits("pay 7")
        await chat.chat(*names("a", 8))
        sizes.append(max(map(estimated_tokens, chat.prompts)))
    assert sizes[0] < sizes[1] + 300


@every_mode
async def test_two_runs_that_wait_stay_in_their_order(mode: Any) -> None:
    chat = Chat(mode)
    await chat.waits("pay 7")
    await chat.chat(*names("a"))
    await chat.waits("pay 8")
    await chat.chat(*names("b"))
    kept = ["pay 7", "call c7", "WAITS", "pay 8", "call c8", "WAITS"]
    assert raw(chat.last)[:6] == kept
    assert "say-a3" in condensed(chat.last)
    assert "say-b2" in condensed(chat.last)
    assert estimated_tokens(chat.last) < 2 * START


@every_mode
async def test_a_run_that_is_decided_has_what_it_had_and_its_result(mode: Any) -> None:
    chat = Chat(mode)
    await chat.chat("before")
    run_id = await chat.waits("look 7")
    had = raw(chat.last)
    await chat.chat(*names("a"))
    await chat.approve(run_id, "p")
    goes_on = raw(chat.last)
    assert had == ["say-before", "re-say-before ok", "look 7", "call l7", "sight-7"]
    assert goes_on[:7] == [*had, "call p", "receipt-7"]
    assert "say-a4" in goes_on, "then it reads what was said meanwhile"


@every_mode
async def test_a_result_that_comes_later_is_read_at_its_place_and_condensed_once(
    mode: Any,
) -> None:
    chat = Chat(mode)
    await chat.chat("before")
    run_id = await chat.waits("pay 7")
    await chat.chat(*names("a"))
    await chat.approve(run_id, "c7")
    assert chat.times_read("receipt-7") <= 1
    await chat.say("say-next")
    if chat.times_read("receipt-7") == 0:
        assert raw(chat.last)[:3] == ["pay 7", "call c7", "receipt-7"]
    await chat.chat(*names("b"))
    assert "call c7" not in raw(chat.last)
    assert chat.times_read("receipt-7") == 1, "with its call"
    assert "receipt-7" in condensed(chat.last)
    assert "say-b1" in condensed(chat.last)
    stored = await chat.bench.stored()
    assert [m.role for m in stored[2:5]] == [Role.USER, Role.ASSISTANT, Role.TOOL]


@every_mode
async def test_no_prompt_lacks_what_no_condensing_stands_for(mode: Any) -> None:
    """Whatever is said is in each later prompt: as it was, or in what memory's model read."""
    chat = Chat(mode)
    first = await chat.waits("pay 7")
    await chat.chat(*names("a", 3))
    second = await chat.waits("pay 8")
    said = [f"say-{name}" for name in names("a", 3)]
    for run_id, call_id, letter in ((second, "c8", "b"), (first, "c7", "c")):
        await chat.chat(*names(letter, 3))
        said += [f"say-{name}" for name in names(letter, 3)]
        for word in said:
            assert word in raw(chat.last) or word in condensed(chat.last), word
        await chat.approve(run_id, call_id)
    await chat.chat(*names("d", 4))
    for word in (*said, "receipt-7", "receipt-8"):
        assert word in raw(chat.last) or word in condensed(chat.last), word
        assert chat.times_read(word) <= 1, word


@every_mode
async def test_a_run_that_waits_again_keeps_what_it_needs(mode: Any) -> None:
    chat = Chat(mode)
    run_id = await chat.waits("both 7 8")
    await chat.chat(*names("a"))
    await chat.bench.decide(run_id, "c7", "approve")
    await chat.bench.branch(run_id, "c7")
    await chat.chat(*names("b"))
    kept = ["both 7", "call c7", "call c8", "WAITS", "WAITS"]
    shown = raw(chat.last)[:5]
    assert [w if not w.startswith("receipt") else "WAITS" for w in shown] == kept
    assert await chat.bench.answer(run_id, "c8", "approve") == "over"
    assert raw(chat.last)[:5] == ["both 7", "call c7", "call c8", "receipt-7", "receipt-8"]


@every_mode
async def test_a_run_that_is_cancelled_while_it_waits_is_condensed_with_that(mode: Any) -> None:
    chat = Chat(mode)
    run_id = await chat.waits("pay 7")
    await chat.chat(*names("a"))
    await cancel(chat.bench.plain, ANN, run_id)
    await chat.chat("next")
    assert raw(chat.last)[:2] == ["pay 7", "call c7"]
    assert raw(chat.last)[2].startswith("Cancelled")
    await chat.chat(*names("b"))
    assert "call c7" not in raw(chat.last)
    assert chat.times_read("was not run") == 1


@every_mode
async def test_a_call_that_expires_is_condensed_with_that(mode: Any) -> None:
    chat = Chat(mode)
    run_id = await chat.waits("pay 7")
    await chat.chat(*names("a"))
    chat.bench.clock.advance(timedelta(hours=2))
    item = await chat.bench.item(run_id, "c7")
    assert await chat.bench.drive(run_id, call=item, output=TIMEOUT) == "over"
    await chat.remember(run_id)
    await chat.chat(*names("b"))
    assert "call c7" not in raw(chat.last)
    assert chat.times_read("expired") == 1


@every_mode
async def test_a_sub_agent_that_waits_keeps_its_run_whole(mode: Any) -> None:
    chat = Chat(mode)
    run_id = await chat.waits("desk 7")
    await chat.chat(*names("a"))
    assert raw(chat.last)[:3] == ["desk 7", "call d7", "WAITS"]
    assert "say-a1" in condensed(chat.last)
    await chat.approve(run_id, "c7")
    await chat.chat(*names("b"))
    assert "call d7" not in raw(chat.last)
    assert "receipt-7" in condensed(chat.last)


@every_mode
async def test_a_branch_from_before_and_one_from_behind_read_what_they_leave_out(mode: Any) -> None:
    chat = Chat(mode)
    await chat.chat("before")
    early = (await chat.bench.head()).leaf_id
    run_id = await chat.waits("pay 7")
    await chat.chat(*names("a", 3))
    middle = (await chat.bench.head()).leaf_id
    await chat.chat(*names("b", 4))
    await chat.say("say-behind", parent_id=middle)
    for word in ("say-a1", "say-before"):
        assert word in raw(chat.last) or word in condensed(chat.last)
    assert raw(chat.last)[-1] == "say-behind"
    assert "say-b1" not in raw(chat.last)
    assert "say-b1" not in condensed(chat.last)
    assert "call c7" in raw(chat.last)
    assert "WAITS" in raw(chat.last)
    await chat.say("say-early", parent_id=early)
    assert raw(chat.last)[-1] == "say-early"
    assert "say-before" in (*raw(chat.last), *condensed(chat.last).split())
    assert not re.search(r"say-a|say-b\d|call", " ".join(raw(chat.last)) + condensed(chat.last))
    assert (await chat.bench.run(run_id)).status.over, "the edit took its wish back"


@every_mode
async def test_what_is_read_again_has_the_number_that_its_block_names(mode: Any) -> None:
    chat = Chat(mode)
    await chat.waits("pay 7")
    await chat.chat(*names("a"))
    leaf = (await chat.bench.head()).leaf_id
    assert leaf is not None
    memory = chat.bench.plain.memory
    kind: Any = "summary" if isinstance(mode, RollingSummary) else "observations"
    compacted = await memory.compacted(ANN, "t1", leaf, kind)
    stands = re.search(r"messages 1 to (\d+)", compaction_block(compacted))
    span = await memory.span(ANN, "t1", None, str(compacted.through))
    assert stands is not None
    assert span is not None
    assert len(span.messages) == int(stands[1])

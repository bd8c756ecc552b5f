"""The tool that reads messages again which compaction took out of the prompt."""

from typing import Any

import pytest

from layover import Agent, Memory, ObservationalMemory, RollingSummary, tool
from layover.inmemory.model import ScriptedModel, call, say
from layover.plugins.memory.reads.hidden_messages import MAX_CHARACTERS
from layover.testing import HashingEmbedder
from layover.values.message import Role
from layover.values.prompt import Prompt
from layover.wiring import in_memory_runtime

SECRET = "my locker code is 4711"
FILLER = "tell me something about the sea " * 12


class Chat:
    """An agent whose compaction hides all but the newest messages."""

    def __init__(self, compaction: Any = None) -> None:
        self.next: list[Any] = []
        noted = say("* INFO (09:00) The user spoke of a locker")
        summary = say("Goal: talk about the sea")
        self.model = ScriptedModel(
            lambda prompt: self.next.pop(0) if self.next else say("fine"),
            background={"observer": lambda prompt: noted, "summary": lambda prompt: summary},
        )

        @tool
        def look(what: str) -> str:
            """Look something up."""
            return f"{what} has number 8812"

        memory = Memory(
            compaction=compaction or ObservationalMemory(message_tokens=150),
            titles=False,
            last_messages=1,
        )
        self.agent = Agent("helper", tools=[look], memory=memory)
        self.agent.runtime = in_memory_runtime(
            self.agent, model=self.model, embedder=HashingEmbedder()
        )

    async def say(self, *texts: str, thread: str = "t", user: str = "ann", **more: Any) -> Prompt:
        for text in texts:
            result = await self.agent.generate(text, thread_id=thread, resource_id=user, **more)
            assert result.status == "success", result.error
            await self.agent.wait_for_memory()
        return self.model.turns[-1]

    async def read(self, **args: Any) -> str:
        """Return what the tool says to the model, which calls it in a new turn."""
        thread, user = args.pop("thread", "t"), args.pop("user", "ann")
        self.next = [call("read_messages", **args), say("I see")]
        prompt = await self.say("go on", thread=thread, user=user)
        outputs = [m.model_output for m in prompt.messages if m.role is Role.TOOL]
        return str(outputs[-1])


@pytest.fixture
async def chat() -> Chat:
    chat = Chat()
    chat.next = [call("look", what="locker"), say("noted")]
    await chat.say(f"{SECRET}. {FILLER}", FILLER, FILLER)
    return chat


def tools(prompt: Prompt) -> set[str]:
    return {t.name for t in prompt.tools}


async def test_a_model_that_sees_everything_has_no_such_tool() -> None:
    chat = Chat()
    assert "read_messages" not in tools(await chat.say("hello"))


async def test_an_agent_without_compaction_has_no_such_tool() -> None:
    assert "read_messages" not in Agent("plain").built_in_tools


@pytest.mark.parametrize(
    "compaction",
    [ObservationalMemory(message_tokens=150), RollingSummary(max_window=11_000, tail=1)],
)
async def test_what_compaction_hid_is_named_and_can_be_read_again(compaction: Any) -> None:
    chat = Chat(compaction)
    many = 1 if isinstance(compaction, ObservationalMemory) else 8
    prompt = await chat.say(f"{SECRET}. {FILLER * many}", FILLER * many, FILLER * many, "and now?")
    assert "read_messages" in tools(prompt)
    shown = "".join(m.text for m in prompt.messages)
    assert SECRET not in shown
    assert "[It stands for messages 1 to " in shown
    assert SECRET in await chat.read(query="which locker code?")


async def test_a_range_shows_messages_with_calls_and_results(chat: Chat) -> None:
    read = await chat.read(**{"from": 1, "to": 3})
    assert SECRET in read
    assert "[called look:" in read
    assert "number 8812" in read
    assert '"number":3' in read
    assert '"number":4' not in read


async def test_a_search_shows_the_messages_with_its_words_and_no_others(chat: Chat) -> None:
    read = await chat.read(query="lockers")
    assert SECRET in read
    assert '"number":5' not in read
    assert "No such message" in await chat.read(query="zebra")
    assert "No such message" in await chat.read(query="what is it?")


@pytest.mark.parametrize(
    "args",
    [{"from": 9_999}, {"from": 10**30}, {"from": 3, "to": 1}, {"query": "\0' | & ! :* ("}],
)
async def test_arguments_that_name_nothing_find_nothing(chat: Chat, args: dict[str, Any]) -> None:
    assert "No such message" in await chat.read(**args)


@pytest.mark.parametrize(
    "args", [{"from": 0}, {"from": -1}, {"from": "x"}, {"to": 0}, {"query": "x" * 2_001}, {"id": 1}]
)
async def test_arguments_that_make_no_sense_are_an_error_to_the_model(
    chat: Chat, args: dict[str, Any]
) -> None:
    read = await chat.read(**args)
    assert SECRET not in read
    assert "read_messages" in read or "args" in read.lower() or "nvalid" in read


def words(letter: str, length: int) -> str:
    """A text of this length, in words of 99 letters."""
    return f"{letter * 99} " * (length // 100 - 1) + letter * (100 + length % 100)


async def test_an_answer_has_a_size_and_says_where_to_go_on(chat: Chat) -> None:
    await chat.say(words("x", 30_000), words("y", 15_000), words("z", 15_000), FILLER)
    read = await chat.read(**{"from": 1})
    assert len(read) < 2 * MAX_CHARACTERS
    assert '"next":' in read
    huge = await chat.read(query="nothing", **{"from": 7})
    assert "x" * 99 not in huge
    (number,) = [n for n in range(5, 12) if "xxx" in await chat.read(**{"from": n, "to": n})]
    alone = await chat.read(**{"from": number, "to": number})
    assert '"characters_left_out":10000' in alone


async def test_no_other_thread_or_user_is_read(chat: Chat) -> None:
    other = "the vault code is 9999"
    await chat.say(f"{other} {FILLER}", FILLER, FILLER, thread="other")
    await chat.say(f"{other} {FILLER}", FILLER, FILLER, thread="t of bob", user="bob")
    for args in ({"query": "vault code"}, {"from": 1}):
        assert "9999" not in await chat.read(**args)
    assert SECRET not in await chat.read(query="locker code", thread="other")
    assert SECRET not in await chat.read(query="locker code", thread="t of bob", user="bob")

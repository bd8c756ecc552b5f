"""Recalled text and the model's window: its share, and that it costs no run."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layover import Agent, EpisodicMemory, Memory, ModelSettings, SemanticRecall
from layover.context.assembly import estimated_tokens
from layover.context.fit import room
from layover.context.tokens import estimate
from layover.errors import ContextLengthExceeded
from layover.inmemory.model import ScriptedModel, say
from layover.plugins.memory.learns.imports import import_entry
from layover.testing import HashingEmbedder
from layover.threads.imports import ImportedMessage, ThreadImport, import_thread
from layover.values.prompt import Prompt
from layover.wiring import in_memory_runtime
from support.examples import examples, share

QUESTION = "What is the code of my locker now"
LONG = "The locker is in the hall, and its code is a number. " * 170
"""More than 9,000 characters: five of these have 45,000."""


class Provider:
    """An agent whose provider refuses prompts that are longer than its window. `known`: Layover knows it."""

    def __init__(
        self,
        window: int,
        *,
        known: bool = True,
        recalls: bool = True,
        **memory: Any,
    ) -> None:
        self.window = window
        self.instructions = ""
        self.model = ScriptedModel(self._answer)
        recall = SemanticRecall(top_k=5, scope="resource") if recalls else None
        self.agent = Agent(
            "helper",
            instructions=lambda _: self.instructions,
            memory=Memory(semantic_recall=recall, titles=False, last_messages=2, **memory),
            model_settings=ModelSettings(context_window=window) if known else None,
        )
        self.agent.runtime = in_memory_runtime(
            self.agent, model=self.model, embedder=HashingEmbedder()
        )

    def _answer(self, prompt: Prompt) -> Any:
        if estimated_tokens(prompt) > self.window:
            return ContextLengthExceeded("too long", status=400)
        return say("fine")

    async def say(self, texts: Sequence[str], thread: str = "t", owner: str = "ann") -> list[str]:
        """Say these in turn. Return how the runs ended."""
        ends: list[str] = []
        for text in texts:
            result = await self.agent.generate(text, thread_id=thread, resource_id=owner)
            ends.append(f"{result.status}")
            await self.agent.wait_for_memory()
        return ends

    async def bring_over(self) -> None:
        """Import entries and a conversation, each of whose texts is longer than a tenth of a small window."""
        for n in range(6):
            entry = f"Locker {n} has the code {n * 7919}. {LONG}"[:2_000]
            await import_entry(self.agent.runtime, "ann", "helper", entry, None, None)
        talk = [ImportedMessage("user", f"{n}: {LONG}") for n in range(6)]
        await import_thread(self.agent.runtime, "ann", ThreadImport("helper", talk))


BLOCKS = ("<recalled_messages>", "<memory>")


def recalled_tokens(prompt: Prompt) -> int:
    """Return the tokens of the blocks of recalled messages and entries."""
    return sum(
        estimate(part)
        for message in prompt.messages
        for part in (p.text for p in message.content if hasattr(p, "text"))
        if part.startswith(BLOCKS)
    )


@pytest.mark.parametrize("window", [4_000, 8_000, 128_000][:: share(2)])
async def test_recalled_text_has_a_tenth_of_the_window_at_most(window: int) -> None:
    provider = Provider(window)
    # They are said to a model with a larger window, as where an agent changes its model.
    provider.agent.model_settings = ModelSettings(context_window=128_000)
    provider.window = 128_000
    for n in range(6):
        await provider.say([f"{n}: {LONG}"], thread=f"t{n}")
    provider.agent.model_settings = ModelSettings(context_window=window)
    provider.window = window
    assert await provider.say([QUESTION], thread="new") == ["success"]
    share = recalled_tokens(provider.model.prompts[-1])
    assert window / 20 < share <= window / 10 or 1_400 < share <= 3_000


async def test_an_agent_may_set_another_number() -> None:
    provider = Provider(128_000, recall_tokens=100)
    await provider.say([f"My locker is blue. {LONG}", "Its code is 4711.", "The locker is old."])
    await provider.say([QUESTION], thread="new")
    assert 0 < recalled_tokens(provider.model.prompts[-1]) <= 100


@pytest.mark.parametrize("known", [True, False])
async def test_recalled_text_goes_before_a_run_fails(known: bool) -> None:
    provider = Provider(1_000, known=known, recall_tokens=900)
    await provider.say(["My locker code is 4711."] * 3, thread="old")
    most = (750 if known else 990) * 4 - 100
    assert await provider.say([f"{QUESTION} {'x' * most}"[:most]], thread="new") == ["success"]
    prompts = provider.model.prompts[3:]
    assert recalled_tokens(provider.model.prompts[-1]) == 0
    assert known or recalled_tokens(prompts[0]) > 0


SAID = st.tuples(
    st.sampled_from(["My locker code is 4711. ", "It rains. ", "x" * 50 + " "]),
    st.integers(1, 150),
).map(lambda each: each[0] * each[1])


@examples(60)
@given(
    st.lists(SAID, min_size=1, max_size=3),
    st.sampled_from([1_000, 4_000]),
    st.booleans(),
    st.sampled_from([None, 300, 2_000]),
    st.integers(-20, 400),
)
async def test_no_run_fails_that_would_pass_without_recall(
    said: list[str], window: int, known: bool, tokens: int | None, left: int
) -> None:
    # The question itself fills the window, but for a few tokens.
    size = (window * 3 // 4 if known else window) - left
    question = f"What is my locker code? {'y' * size * 4}"[: size * 4]
    ends: list[list[str]] = []
    for recalls in (True, False):
        provider = Provider(window, known=known, recalls=recalls, recall_tokens=tokens)
        await provider.say(["My locker code is 4711.", *said])
        ends.append(await provider.say([question]))
    assert ends[0] == ends[1]


WINDOWS = [4_000, 8_000, 128_000][:: share(3)]
LEFT = (-50, 60, 90, 120, 200, 400, 3_500)[:: share(3)]


@pytest.mark.parametrize("window", WINDOWS)
async def test_messages_and_entries_share_one_tenth_of_the_window(window: int) -> None:
    provider = Provider(window, episodic=EpisodicMemory())
    await provider.bring_over()
    assert await provider.say([QUESTION], thread="new") == ["success"]
    prompt = provider.model.turns[-1]
    assert all(f"{block}\n" in str(prompt.messages[-1].text) for block in BLOCKS), prompt
    share = recalled_tokens(prompt)
    budget = min(3_000, window // 10)
    print(f"window {window}: {share} tokens recalled, {share / window:.1%}")
    assert budget * 0.6 < share <= budget, f"{share} of {budget} tokens in a window of {window}"


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("window", WINDOWS)
async def test_a_run_that_nearly_fills_its_window_ends_as_if_nothing_were_remembered(
    window: int, known: bool
) -> None:
    provider = Provider(window, known=known, episodic=EpisodicMemory())
    await provider.bring_over()
    endings: set[tuple[str, bool]] = set()
    # The agent's instructions fill the window but for a few tokens, none, or more than recall takes.
    for left in LEFT:
        provider.instructions = "y" * 4 * ((room(window) if known else window) - left)
        ends = [
            await provider.say([QUESTION], thread=f"{owner}{left}", owner=owner)
            for owner in ("nobody", "ann")
        ]
        assert ends[0] == ends[1], f"with {left} tokens left in a window of {window}"
        shown = bool(provider.model.turns) and recalled_tokens(provider.model.turns[-1]) > 0
        endings.add((ends[1][0], shown))
        provider.model.prompts.clear()
    assert endings == {("failed", False), ("success", False), ("success", True)}

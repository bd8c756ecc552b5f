"""Recalled text and the model's window: its share, and that it costs no run."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layover import Agent, Memory, ModelSettings, SemanticRecall
from layover.adapters.inmemory.model import ScriptedModel, say
from layover.context.assembly import estimated_tokens
from layover.context.tokens import estimate
from layover.errors import ContextLengthExceeded
from layover.testing import HashingEmbedder
from layover.values.prompt import Prompt
from layover.wiring import in_memory_runtime
from support.examples import examples

QUESTION = "What is the code of my locker now"
LONG = "The locker is in the hall, and its code is a number. " * 170
"""More than 9,000 characters: five of these have 45,000."""


class Provider:
    """An agent whose provider refuses prompts that are longer than its window. `known`: Layover knows it."""

    def __init__(
        self, window: int, *, known: bool = True, recalls: bool = True, **memory: Any
    ) -> None:
        self.window = window
        self.model = ScriptedModel(self._answer)
        recall = SemanticRecall(top_k=5, scope="resource") if recalls else None
        self.agent = Agent(
            "helper",
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

    async def say(self, texts: Sequence[str], thread: str = "t") -> list[str]:
        """Say these in turn. Return how the runs ended."""
        ends: list[str] = []
        for text in texts:
            result = await self.agent.generate(text, thread_id=thread, resource_id="ann")
            ends.append(f"{result.status}")
            await self.agent.wait_for_memory()
        return ends


def recalled_tokens(prompt: Prompt) -> int:
    """Return the tokens of the block of recalled messages."""
    return sum(
        estimate(part)
        for message in prompt.messages
        for part in (p.text for p in message.content if hasattr(p, "text"))
        if part.startswith("<recalled_messages>")
    )


@pytest.mark.parametrize("window", [4_000, 8_000, 128_000])
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

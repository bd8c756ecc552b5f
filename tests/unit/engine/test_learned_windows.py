"""A window that nobody has set, as refusals teach it (docs/behaviour.md#learned-windows)."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from layover import Agent, Memory, ModelSettings, ObservationalMemory, RollingSummary, tool
from layover.context.assembly import estimated_tokens
from layover.context.fit import room
from layover.engine.models.learned import named_window, window_for
from layover.errors import ContextLengthExceeded, ModelError
from layover.testing import ScriptedModel, call, fail, say
from layover.values.prompt import Prompt
from layover.values.runs.run import Status
from layover.values.runs.usage import Usage
from support.worlds.runs import Bench

WINDOW = 16_000
PUMPS = "All pumps ran as planned today. " * 260
"""About 2,000 tokens."""
FACT = "The gate code word is Heron."
SETTING = "LAYOVER_CONTEXT_WINDOWS"


def openai(window: int, tokens: int) -> str:
    return f"This model's maximum context length is {window} tokens. However, you sent {tokens} tokens."


def only_openai_names(window: int, tokens: int) -> str:
    return f"This model's maximum context length is {window} tokens."


def no_number(window: int, tokens: int) -> str:
    return "Please reduce the length of the messages or completion."


@tool(idempotent=True)
def look(page: int) -> str:
    """A line of a log."""
    return "Nothing of note."


class Provider(Bench):
    """An agent whose provider refuses what is larger than its window, which nobody has set. `windows`: by the
    names of models; `factor`: how many tokens it counts where we estimate one."""

    def __init__(
        self,
        words: Callable[[int, int], str] = openai,
        compaction: ObservationalMemory | RollingSummary | None = None,
        *,
        model: str | list[str] = "m",
        windows: dict[str, int] | None = None,
        factor: float = 1.0,
        settings: ModelSettings | None = None,
        error: type[ModelError] = ContextLengthExceeded,
        tools: Sequence[Any] = (),
        script: Callable[[Prompt], Any] = lambda prompt: say("Fine."),
    ) -> None:
        self.refused: list[str] = []
        self.windows = windows or {}
        self._factor, self._words, self._error, self._script = factor, words, error, script
        memory = Memory(compaction=compaction, titles=False, last_messages=100)
        agent = Agent("pumps", model=model, tools=[*tools], memory=memory, model_settings=settings)
        background = {"summary": self._summary, "observer": self._notes}
        super().__init__(agent, ScriptedModel(self._answer, background=background))

    def _answer(self, prompt: Prompt) -> Any:
        tokens = int(estimated_tokens(prompt) * self._factor)
        window = self.windows.get(prompt.model, WINDOW)
        if tokens <= window:
            return self._script(prompt)
        self.refused.append(prompt.model)
        return self._error(self._words(window, tokens), status=400)

    def _summary(self, prompt: Prompt) -> Any:
        fact = FACT if "Heron" in prompt.messages[-1].text else "All pumps ran."
        return say(f"## Goal\nTalk.\n## Facts and decisions\n{fact}\n## Current state\nIt goes on.")

    def _notes(self, prompt: Prompt) -> Any:
        line = f"* CRITICAL (10:00) {FACT}\n" if "Heron" in prompt.messages[-1].text else ""
        return say(f"{line}* INFO (10:01) The pumps of report {len(self.model.prompts)} ran.\n")

    async def talk(self, runs: int = 16) -> None:
        """Say the fact, and then this many reports: with 16, twice the window."""
        for text in (FACT, *(f"Report {n}. {PUMPS}" for n in range(runs))):
            assert (await self.go(text)).status is Status.SUCCESS
            await self.remember()

    @property
    def shown(self) -> str:
        """The text of the last prompt of a turn."""
        return " ".join(m.text for m in self.model.turns[-1].messages)


@pytest.mark.parametrize("words", [openai, only_openai_names, no_number])
@pytest.mark.parametrize("factor", [1.0, 2.0], ids=["counts as we do", "counts twice as many"])
async def test_a_thread_is_refused_as_long_as_it_learns_and_not_in_each_run(
    words: Callable[[int, int], str], factor: float, caplog: pytest.LogCaptureFixture
) -> None:
    stage = Provider(words, factor=factor)
    with caplog.at_level(logging.WARNING, "layover"):
        await stage.talk()
    assert 1 <= len(stage.refused) <= 2
    lines = [line for line in caplog.messages if SETTING in line]
    assert len(lines) == 1
    assert '{"m": TOKENS}' in lines[0]
    # It leaves room for the answer, and little else is lost.
    assert WINDOW / 2 < estimated_tokens(stage.model.turns[-1]) * factor <= WINDOW


@pytest.mark.parametrize(
    ("words", "compaction"),
    [(openai, RollingSummary(tail=8)), (no_number, ObservationalMemory())],
)
async def test_what_was_said_at_first_is_known_where_the_window_was_learned(
    words: Callable[[int, int], str], compaction: ObservationalMemory | RollingSummary
) -> None:
    stage = Provider(words, compaction)
    await stage.talk()
    assert "Heron" in stage.shown
    assert len(stage.refused) <= 2
    # The thresholds are those of this window: what is compacted leaves before it is full.
    assert max(map(estimated_tokens, stage.model.turns[-8:])) < WINDOW / 2


async def test_what_one_model_taught_binds_no_other() -> None:
    stage = Provider(windows={"large": 200_000})
    await stage.talk()
    assert (await stage.head()).windows == {"m": pytest.approx(WINDOW, abs=50)}
    stage.agent.model = "large"
    stage.refused.clear()
    assert (await stage.go("And now?")).status is Status.SUCCESS
    assert stage.refused == []
    assert estimated_tokens(stage.model.turns[-1]) > 2 * WINDOW
    assert "Heron" in stage.shown


async def test_the_model_that_refused_has_taught_it_and_not_the_one_before() -> None:
    def script(prompt: Prompt) -> Any:
        return fail("busy", status=503) if prompt.model == "first" else say("Fine.")

    stage = Provider(model=["first", "second"], windows={"first": 10**6}, script=script)
    await stage.talk(runs=8)
    assert {*stage.refused} == {"second"}
    assert (await stage.head()).windows.keys() == {"second"}


async def test_a_prompt_that_another_model_took_teaches_nothing_of_the_one_that_refused() -> None:
    def script(prompt: Prompt) -> Any:
        busy = prompt.model == "first" and estimated_tokens(prompt) > WINDOW / 2
        return fail("busy", status=503) if busy else say("Fine.")

    stage = Provider(no_number, model=["first", "second"], script=script)
    await stage.talk(runs=8)
    assert {*stage.refused} == {"first"}
    assert (await stage.head()).windows == {}


async def test_what_was_learned_by_our_estimate_is_not_corrected_by_the_providers_count() -> None:
    def script(prompt: Prompt) -> Any:
        usage = Usage(input_tokens=2 * estimated_tokens(prompt), output_tokens=5)
        is_first = "read" in prompt.messages[-1].text
        reply = call("look", page=1) if is_first else say("Fine.")
        return reply.model_copy(update={"usage": usage})

    stage = Provider(factor=2.0, tools=[look], script=script)
    await stage.talk()
    stage.refused.clear()
    await stage.go("Please read.")
    before, after = map(estimated_tokens, stage.model.turns[-2:])
    assert stage.refused == []
    assert after > 0.9 * before


async def test_a_window_that_is_set_stays_what_it_is(caplog: pytest.LogCaptureFixture) -> None:
    settings = ModelSettings(context_window=2 * WINDOW)
    stage = Provider(settings=settings, windows={"m": WINDOW})
    with caplog.at_level(logging.WARNING, "layover"):
        await stage.talk()
    assert stage.refused
    assert (await stage.head()).windows == {}
    assert not [line for line in caplog.messages if SETTING in line]


async def test_setting_the_window_is_good_for_threads_that_have_learned_another() -> None:
    stage = Provider()
    await stage.talk()
    stage.windows["m"] = 10 * WINDOW
    stage.runtime = replace(stage.runtime, window=lambda model: 10 * WINDOW)
    await stage.go("And now?")
    assert "Heron" in stage.shown


async def test_a_run_that_fails_of_its_input_has_taught_the_next() -> None:
    stage = Provider()
    await stage.go(FACT)
    pasted = await stage.go("Please read: " + PUMPS * 12)
    assert pasted.status is Status.FAILED
    before = len(stage.refused)
    assert (await stage.go("Are you there?")).status is Status.SUCCESS
    assert len(stage.refused) == before == 1


async def test_a_number_in_words_of_an_unknown_kind_teaches_no_window() -> None:
    stage = Provider(
        lambda *_: "messages.1: the picture exceeds the maximum of 8000 pixels",
        windows={"m": 80_000},
        error=ModelError,
    )
    for n in range(3):
        assert (await stage.go(f"Report {n}. {PUMPS * 17}")).status is Status.SUCCESS
    assert stage.refused
    assert (await stage.head()).windows["m"] > 50_000


@tool(idempotent=True)
def read(page: int) -> str:
    """A page of a log."""
    return PUMPS


async def test_a_run_keeps_what_it_learned_over_its_invocations() -> None:
    """The wait for a summary is one."""

    def script(prompt: Prompt) -> Any:
        n = len(stage.model.turns)
        return call("read", page=n) if n < 24 else say("Read.")

    stage = Provider(compaction=RollingSummary(tail=2), tools=[read], script=script)
    stage.agent.max_iterations = 40
    assert (await stage.go(FACT)).status is Status.SUCCESS
    assert 1 <= len(stage.refused) <= 2
    assert [p.task for p in stage.model.prompts].count("summary") >= 1


@pytest.mark.parametrize(
    ("size", "message", "window"),
    [
        (20_000, "maximum context length is 16000 tokens. However, you sent 20000 tokens", 16_000),
        (20_000, "maximum context length is 16,000 tokens. However, you sent 40,000 tokens", 8_000),
        (5_000, "you requested 5000 tokens (4000 in the messages, 1000 in the completion), more than the "
            "maximum context length of 4096", 4_096),
        (215_000, "prompt is too long: 215000 tokens > 200000 maximum", 200_000),
        (190_000, "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000", 200_000),
        (1_200_000, "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            1_048_576),
        (20_000, "request (20000 tokens) exceeds the available context size (16384 tokens), try it", 16_384),
        (40_000, "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum "
            "context length", 32_768),
        (600_000, "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
            131_072),
        (9_000, "Request body too large for gpt-4o model. Max size: 8000 tokens.", 8_000),
        (150_000, "Range of input length should be [1, 129024]", 129_024),
        (5_000, "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and 100",
            4_096),
        (150_000, "The prompt is too long: 150000, model maximum context length: 131071", 131_071),
        (140_000, "prompt token count of 140000 exceeds the limit of 128000", 128_000),
        (5_000, "the number of input tokens 5000 cannot exceed the total tokens limit 4096", 4_096),
        (5_000, "the model is loaded with context length of only 4096 tokens", 4_096),
        (300_000, "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in "
            "300000 tokens.", 272_000),
        (6_000, "max_tokens is too large: 5000. This model's maximum context length is 4096 tokens", 4_096),
        (9_000, "Please reduce the length of the messages or completion.", None),
        (9_000, "Input is too long for requested model.", None),
        (200_000, "invalid params, context window exceeds limit (2013)", None),
        (1_000, "maximum context length is 900000 tokens", None),
        (0, "maximum context length is 16000 tokens", None),
    ],
)  # fmt: skip
def test_the_window_is_read_in_each_providers_words(
    size: int, message: str, window: int | None
) -> None:
    assert named_window(message, size) == window


@pytest.mark.parametrize("window", [3, 4_096, 16_000, 31_999, 32_000, 200_000])
def test_a_window_has_the_room_that_it_was_made_for(window: int) -> None:
    assert room(window_for(room(window))) == room(window)

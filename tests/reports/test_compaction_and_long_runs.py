"""Long conversations: what is condensed, what is kept, what is asked again."""

import base64
from typing import Any

import pytest

from layover import Agent, Memory, RollingSummary
from layover.context.tokens import message_tokens
from layover.inmemory.model import ScriptedModel, call, say
from layover.plugins.memory.condenses import observer, summary
from layover.values.message import FilePart, Message, Role
from layover.values.prompt import Prompt
from layover.values.runs.run import Status
from reports import Found, report
from support.worlds.observations import said
from support.worlds.runs import Bench

WHOLE = """## Goal
Help.
## Facts and decisions
- The code is Z-9.
## Current state
The order is sent.
## Open issues
None
## Next step
Ask for the IBAN."""
WORDS = "some more words " * 60


class Talk:
    """A long conversation whose older part is summarised as `summaries` say, one after the other, and by
    `WHOLE` from then on."""

    def __init__(self, *summaries: Any) -> None:
        self._given = [*summaries]
        memory = Memory(compaction=RollingSummary(max_window=12_000, tail=4), titles=False)
        model = ScriptedModel(
            lambda prompt: say("fine " + "and words " * 100),
            background={"summary": self._summarise},
        )
        self.bench = Bench(Agent("helper", memory=memory), model)

    def _summarise(self, _: Prompt) -> Any:
        return self._given.pop(0) if self._given else say(WHOLE)

    async def go(self, turns: int, text: str = WORDS) -> None:
        """Say so many things, one after the other."""
        for n in range(turns):
            run = await self.bench.go(f"question {n}: {text}")
            assert run.status is Status.SUCCESS
            await self.bench.remember()

    @property
    def asked(self) -> list[Prompt]:
        """The requests for a summary."""
        return [prompt for prompt in self.bench.model.prompts if prompt.task == "summary"]

    @property
    def seen(self) -> str:
        """What the model saw of the conversation in the newest turn."""
        return "\n".join(message.text for message in self.bench.model.turns[-1].messages)


@report("anomalyco/opencode#20156, anthropics/claude-code#13524", Found.RIGHT)
@pytest.mark.parametrize("request_of", [summary.request, observer.request])
def test_what_is_condensed_stays_in_the_language_of_the_conversation(request_of: Any) -> None:
    """A summary, and observations, of a Spanish conversation are asked for in its language."""
    asked = str(request_of("m", [said("Sigamos en español, por favor")], None).system)
    assert "in the language of the conversation" in " ".join(asked.split())


@report("CodebuffAI/freebuff#1166, fabro-sh/fabro#629, docker/docker-agent#3470", Found.RIGHT)
@pytest.mark.parametrize("answer", ["", " \n\t", "<think>The user wants a summary"])
async def test_a_summary_without_text_replaces_nothing(answer: str) -> None:
    """A summary that is empty, or all thoughts, leaves the conversation as it was."""
    talk = Talk(*[say(answer)] * 40)
    await talk.go(5)
    assert len(talk.asked) > 1
    assert "question 0:" in talk.seen


@report("open-webui/open-webui#29761, justrach/codegraff#260", Found.RIGHT)
def test_a_picture_counts_as_a_picture_however_large_its_file_is() -> None:
    """A picture of some megabytes is worth what a model takes for one, and not the length of its text."""
    content = (FilePart(file_id="file_1"),)
    message = said("x").model_copy(update={"content": content})
    assert message_tokens(message) < 2_000
    assert len(base64.b64encode(b"x" * 3_000_000)) > 1_000_000


@report("NousResearch/hermes-agent#53008, anomalyco/opencode#27924", Found.RIGHT)
async def test_a_conversation_that_stays_too_long_is_not_condensed_again_and_again() -> None:
    """Where the newest message alone is above the limit, each turn asks for a summary once at most, and every
    turn is answered."""
    talk = Talk()
    await talk.go(4, "a long page of words " * 1_800)
    assert 0 < len(talk.asked) <= 4


@report("justrach/codegraff2#140", Found.RIGHT)
def test_a_result_of_structured_data_counts_as_what_the_model_reads_of_it() -> None:
    """A tool's structured result is counted as the text that the model reads of it."""
    rows = [{"id": n, "name": "some words of a row"} for n in range(500)]
    message = Message(
        id="m",
        thread_id="t",
        role=Role.TOOL,
        content=(),
        model_output=str(rows),
        created_at=said("x").created_at,
    )
    assert message_tokens(message) > 3_000


@report("openclaw/openclaw#120663, openclaw/openclaw#12921", Found.MENDED)
async def test_a_summary_that_says_that_there_is_nothing_replaces_none_before_it() -> None:
    """A summary whose sections only say that there was no conversation leaves the one before it."""
    nothing = (
        "## Goal\nNone.\n\n## Current state\nNo prior history.\n\n## Open issues\nNone captured."
    )
    talk = Talk(say(WHOLE), *[say(nothing)] * 40)
    await talk.go(9)
    assert len(talk.asked) > 2
    assert "Z-9" in talk.seen


@report("openclaw/openclaw#127987, earendil-works/pi#7048", Found.MENDED, held_back=True)
async def test_a_summary_that_its_limit_cut_is_asked_for_once_more() -> None:
    """A summary that the limit of its answer cut in the middle of a word is asked for once more, shorter, and
    the whole one is kept."""
    cut = say("## Goal\nHelp.\n## Facts and decisions\n- The co", finish_reason="length")
    talk = Talk(cut)
    await talk.go(6)
    first, again = talk.asked[:2]
    assert "at most 350 words" in str(again.system)
    assert first.messages == again.messages
    assert "Ask for the IBAN" in talk.seen


@report("anomalyco/opencode#42363, respawn-llc/kent#205", Found.RIGHT, held_back=True)
@pytest.mark.parametrize(
    "answer",
    [call("read", page=1), say('[Assistant tool call]: read({"page": 1})\n' * 9), say("{}" * 150)],
)
async def test_a_model_that_goes_on_with_the_work_has_made_no_summary(answer: Any) -> None:
    """An answer that calls a tool, in whatever form, in the place of a summary replaces nothing."""
    talk = Talk(*[answer] * 40)
    await talk.go(5)
    assert len(talk.asked) > 1
    assert "question 0:" in talk.seen

"""A run whose older results are previews, and a model that opens them again (docs/result-previews.md)."""

import json
import math
from typing import Any

import pytest

from layover import Agent, DefinitionError, Memory, ObservationalMemory, RollingSummary, tool
from layover.declare.memory import RESULT_TOKENS
from layover.engine.definition import definition_of
from layover.engine.tools.results import MAX_LISTED, PAGE
from layover.inmemory.blobs import InMemoryBlobs
from layover.testing import ScriptedModel, call, calls, say
from layover.values.message import Role
from layover.values.prompt import Prompt
from layover.values.runs.run import Status
from support.examples import choose_deaths
from support.worlds.runs import Bench, Power, seen

LIMIT = 3_500
MEMORY = Memory(result_tokens=LIMIT, last_messages=100)
MIDDLE = 2_000
"""Characters before the word that no preview shows."""


@tool(idempotent=True)
def read(page: int) -> str:
    """A page of a long book, 1,000 tokens."""
    return f"page {page}: ".ljust(MIDDLE, ".") + f"secret-{page}" + "." * MIDDLE


@tool(idempotent=True)
def dump(page: int) -> str:
    """More than any prompt shows."""
    return f"dump {page}: ".ljust(150_000, ".") + f"secret-{page}" + "." * 150_000


@tool(idempotent=True)
def count(page: int) -> int:
    """A short result."""
    return page


def reader(**options: Any) -> Agent:
    options = {"memory": MEMORY, "max_iterations": 300, **options}
    return Agent("reader", model="m", tools=[read, dump, count], **options)


def pages(number: int) -> list[Any]:
    return [call("read", page=n) for n in range(number)]


def bench(*script: Any, **options: Any) -> Bench:
    return Bench(reader(**options), list(script))


def id_of(prompt: Prompt, begin: str) -> str:
    """Return the id that the prompt names for opening the result that begins so."""
    output = next(o for o in seen(prompt) if o.startswith(begin))
    return output.partition("read_result shows them, id ")[2].partition(" ")[0]


def opens(begin: str, **more: Any) -> Any:
    """A model that opens this result by the id in its prompt."""
    return lambda prompt: call("read_result", id=id_of(prompt, begin), **more)


def opens_listed(start: int) -> Any:
    """A model that opens the first result of the list that it has just read."""
    return lambda prompt: call("read_result", id=json.loads(seen(prompt)[-1])[0]["id"], start=start)


def tools_of(prompt: Prompt) -> list[str]:
    return [spec.name for spec in prompt.tools]


@pytest.mark.parametrize("id", ["msg_unknown", "", "../../etc", "c1"])
async def test_an_unknown_id_is_an_error_that_says_what_to_do(id: str) -> None:
    stage = bench(call("read", page=1), call("read_result", id=id), say("ok"))
    run = await stage.go()
    assert run.status is Status.SUCCESS
    assert "there is no result" in seen(stage.model.prompts[-1])[-1]
    assert "without an id" in seen(stage.model.prompts[-1])[-1]


async def test_no_run_opens_a_result_of_another_thread() -> None:
    stage = bench(*pages(6), say("read"))
    await stage.go("read", thread="theirs")
    theirs = id_of(stage.model.prompts[-1], "page 0")
    assert theirs
    other = Bench(stage.agent, [call("read_result", id=theirs), say("ok")], table=stage.table)
    await other.go("open it", thread="mine")
    assert "there is no result" in seen(other.model.prompts[-1])[-1]


@pytest.mark.parametrize("start", [-1, "x"])
async def test_a_start_that_is_none_is_an_invalid_argument(start: Any) -> None:
    stage = bench(call("read_result", id="any", start=start), say("ok"))
    await stage.go()
    assert "start" in seen(stage.model.prompts[-1])[-1]


async def test_a_start_behind_the_end_says_where_the_end_is() -> None:
    stage = bench(*pages(6), opens("page 0", start=99_999), say("ok"))
    await stage.go()
    length = len(read.fn(0))
    assert seen(stage.model.prompts[-1])[-1].endswith(f"has {length} characters")


async def test_older_results_are_previews_and_newer_ones_whole() -> None:
    stage = bench(*pages(6), say("done"))
    await stage.go()
    whole = ["secret" in output for output in seen(stage.model.prompts[-1])]
    assert whole == [False, False, False, True, True, True]
    assert all(f"page {n}:" in o for n, o in enumerate(seen(stage.model.prompts[-1])))


async def test_the_newest_steps_results_are_whole_beyond_the_limit() -> None:
    together = calls(*(call("read", page=n, tool_call_id=f"c{n}") for n in range(9)))
    stage = bench(together, call("count", page=1), say("done"))
    await stage.go()
    assert all("secret" in output for output in seen(stage.model.prompts[1]))
    assert sum("secret" in output for output in seen(stage.model.prompts[2])) < 4


async def test_a_model_opens_what_was_left_out() -> None:
    stage = bench(*pages(6), opens("page 0"), say("done"))
    run = await stage.go()
    assert run.text == "done"
    assert seen(stage.model.prompts[-1])[-1] == read.fn(0)


async def test_the_thread_keeps_whole_results_whatever_the_prompt_shows() -> None:
    stage = bench(*pages(6), say("done"))
    await stage.go()
    stored = [m for m in await stage.stored() if m.role is Role.TOOL]
    assert [m.model_output for m in stored] == [read.fn(n) for n in range(6)]


async def test_without_an_id_the_runs_long_results_are_listed() -> None:
    stage = bench(call("count", page=7), *pages(2), call("read_result"), say("done"))
    await stage.go()
    listed = json.loads(seen(stage.model.prompts[-1])[-1])
    assert [(each["tool"], each["args"]) for each in listed] == [
        ("read", '{"page": 0}'),
        ("read", '{"page": 1}'),
    ]
    assert {each["characters"] for each in listed} == {len(read.fn(0))}
    assert len({each["id"] for each in listed}) == 2


async def test_a_list_ends_with_the_newest_results() -> None:
    number = MAX_LISTED + 5
    stage = bench(*pages(number), call("read_result"), say("done"))
    await stage.go()
    listed = json.loads(seen(stage.model.prompts[-1])[-1])
    assert len(listed) == MAX_LISTED
    assert listed[-1]["args"] == json.dumps({"page": number - 1})


async def test_a_result_that_no_prompt_shows_whole_is_opened_from_its_file() -> None:
    """Its excerpt is all that a model saw of it, until now."""
    stage = bench(call("dump", page=4), call("read_result"), opens_listed(7 * PAGE), say("done"))
    await stage.go()
    excerpt, _, page = seen(stage.model.prompts[-1])
    assert "secret-4" not in excerpt
    assert "secret-4" in page
    assert page.endswith(f"{300_008 - 8 * PAGE} characters more: read_result, start {8 * PAGE} …")


async def test_where_that_file_is_gone_the_excerpt_is_shown() -> None:
    class NoFiles(InMemoryBlobs):
        async def get(self, key: str) -> bytes | None:
            return None if "/files/" in key else await super().get(key)

    script = [call("dump", page=4), call("read_result"), opens_listed(0), say("done")]
    stage = Bench(reader(), script, blobs=NoFiles())
    await stage.go()
    excerpt, _, page = seen(stage.model.prompts[-1])
    assert page == excerpt


async def test_a_later_run_opens_results_of_the_run_before() -> None:
    stage = bench(*pages(6), say("read"), opens("page 1"), say("done"))
    await stage.go("read")
    await stage.go("and page 1?")
    assert "secret-1" not in seen(stage.model.prompts[-2])[1]
    assert seen(stage.model.prompts[-1])[-1] == read.fn(1)


async def test_a_later_run_shows_the_same_previews_as_the_run_before() -> None:
    stage = bench(*pages(6), say("read"), say("done"))
    await stage.go("read")
    await stage.go("and now?")
    before, after = (seen(p) for p in stage.model.prompts[-2:])
    assert after == before


@pytest.mark.parametrize("after", [False, True])
async def test_a_run_that_dies_anywhere_shows_its_model_the_same(after: bool) -> None:
    async def live(power: Power) -> list[str]:
        """Return what the last prompt shows, without ids: each run makes its own."""
        stage = Bench(reader(), ScriptedModel(_steady), power=power)
        run = await stage.go()
        assert run.text == "done", run.error
        return [output.partition(", id ")[0] for output in seen(stage.model.prompts[-1])]

    expected = await live(Power())
    for cut in choose_deaths(after):  # A slow machine makes a few calls more, to flush events.
        power = Power(cut, after=after)
        assert await live(power) == expected, f"cut at {cut}"
        if not power.cuts:
            break
    assert cut > 20


def _steady(prompt: Prompt) -> Any:
    """A model whose answer depends on the steps that it sees."""
    steps = sum(m.role is Role.ASSISTANT for m in prompt.messages)
    step = [*pages(6), opens("page 0"), say("done")][steps]
    return step(prompt) if callable(step) else step


async def test_results_that_no_observation_represents_yet_are_previews_too() -> None:
    compaction = ObservationalMemory(message_tokens=6_000, buffer=0.25)
    memory = Memory(compaction=compaction, result_tokens=LIMIT, last_messages=2)
    script = [*pages(12), call("read_result"), say("done")]
    model = ScriptedModel(script, background={"observer": lambda _: say("* INFO (00:00) a page")})
    stage = Bench(reader(memory=memory), model)
    stage.observe_ahead()
    await stage.go()
    last = model.turns[-1]
    shown, (listed,) = seen(last)[:-1], seen(last)[-1:]
    assert 3 < len(shown) < 12, "observations represent the others"
    assert ["secret" in output for output in shown] == [n > 2 for n in range(len(shown))]
    assert len(json.loads(listed)) == 12, "those too can be opened"


async def test_agents_without_it_show_all_results_and_have_no_such_tool() -> None:
    stage = bench(*pages(6), say("done"), memory=Memory())
    await stage.go()
    assert all("secret" in output for output in seen(stage.model.prompts[-1]))
    assert "read_result" not in tools_of(stage.model.prompts[-1])


def test_observational_memory_has_it_unless_the_author_says_otherwise() -> None:
    assert Memory(compaction=ObservationalMemory()).max_result_tokens == RESULT_TOKENS
    for memory in (
        Memory(),
        Memory(compaction=RollingSummary()),
        Memory(compaction=ObservationalMemory(), result_tokens=math.inf),
    ):
        assert not memory.has_previews
    assert Memory(result_tokens=0).has_previews


async def test_an_agent_without_tools_has_nothing_to_open() -> None:
    stage = Bench(Agent("a", model="m", memory=MEMORY), [say("ok")])
    await stage.go()
    assert tools_of(stage.model.prompts[0]) == []


@pytest.mark.parametrize("value", [-1, "many", True, math.nan])
def test_a_limit_that_makes_no_sense_is_refused(value: Any) -> None:
    with pytest.raises(DefinitionError, match=r"Memory\.result_tokens"):
        Memory(result_tokens=value)


def test_a_tool_of_its_name_is_refused() -> None:
    @tool
    def read_result() -> str:
        """Read."""
        return ""

    with pytest.raises(DefinitionError, match="read_result"):
        Agent("a", tools=[read_result], memory=MEMORY)
    Agent("a", tools=[read_result])


def test_the_limit_is_part_of_the_definition() -> None:
    hashes = {definition_of(reader(memory=Memory(result_tokens=n))) for n in (None, 10, 20)}
    assert len(hashes) == 3


async def test_a_sub_agent_with_memory_has_its_own() -> None:
    def reply(prompt: Prompt) -> Any:
        steps = sum(m.role is Role.ASSISTANT for m in prompt.messages)
        if "reader" in tools_of(prompt):
            return [call("reader", input="read all"), say("over")][steps]
        step = [*pages(6), opens("page 0"), say("read")][steps]
        return step(prompt) if callable(step) else step

    top = Agent("top", model="m", tools=[reader().as_tool("Reads.", memory=True)])
    stage = Bench(top, ScriptedModel(reply))
    run = await stage.go()
    assert run.text == "over"
    last = next(p for p in reversed(stage.model.prompts) if "read" in tools_of(p))
    assert seen(last)[-1] == read.fn(0)
    assert "secret-0" not in seen(last)[0]

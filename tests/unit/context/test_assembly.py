"""The prompt of the model, stable parts first."""

from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from pydantic import BaseModel

from layover import Agent, Memory, tool
from layover.context.assembly import drop_compacted
from layover.inmemory.model import ScriptedModel, call, say
from layover.values.deployment.settings import Settings
from layover.values.message import Message, Role
from layover.values.prompt import Prompt
from support.worlds.runs import Bench, answers, told

START = datetime(2026, 1, 1, tzinfo=UTC)


class Verdict(BaseModel):
    """A structured answer."""

    score: int


@tool
async def look(what: str) -> str:
    """Look something up."""
    return what


def agent(**options: Any) -> Agent:
    return Agent("helper", instructions="Be brief.", tools=[look], **options)


def bytes_of(prompt: Prompt) -> list[str]:
    """The messages as they are sent, one text each."""
    return [m.model_dump_json(exclude={"token_count"}) for m in prompt.messages]


async def test_the_deployments_model_serves_an_agent_that_names_none() -> None:
    bench = Bench(agent(), [say("x")], settings=Settings(model="openai/other"))
    await bench.go()
    assert bench.model.prompts[0].model == "openai/other"


async def test_the_agents_own_model_wins() -> None:
    bench = Bench(agent(model="mine"), [say("x")], settings=Settings(model="openai/other"))
    await bench.go()
    assert bench.model.prompts[0].model == "mine"


async def test_an_agent_without_instructions_has_no_system_message() -> None:
    bench = Bench(Agent("helper"), [say("x")])
    await bench.go()
    assert bench.model.prompts[0].system is None


async def test_a_prompt_says_instructions_history_input_and_own_steps_in_this_order() -> None:
    bench = Bench(agent(), [say("one"), call("look", what="a"), say("two")])
    await bench.go("first")
    run = await bench.go("second")
    prompt = bench.model.prompts[-1]
    assert prompt.system == "Be brief."
    assert [(m.role, m.text) for m in prompt.messages] == [
        (Role.USER, "first"),
        (Role.ASSISTANT, "one"),
        (Role.USER, "second"),
        (Role.ASSISTANT, ""),
        (Role.TOOL, ""),
    ]
    assert prompt.messages[-1].model_output == "a"
    assert (prompt.run_id, prompt.task, prompt.stream) == (run.id, "turn", False)
    assert [t.name for t in prompt.tools] == ["look"]


async def test_each_step_of_a_run_begins_with_the_bytes_of_the_step_before() -> None:
    script = [call("look", what=w) for w in "abc"]
    bench = Bench(agent(), [*script, say("x"), say("y")])
    await bench.go("one")
    await bench.go("two")
    prompts = [bytes_of(p) for p in bench.model.prompts]
    for before, after in pairwise(prompts):
        assert after[: len(before)] == before
    assert len({p.cache_key for p in bench.model.prompts}) == 1


async def test_another_thread_has_another_cache_key_and_no_history() -> None:
    bench = Bench(agent(), answers(say("x")))
    await bench.go("one", thread="t1")
    await bench.go("two", thread="t2")
    one, two = bench.model.prompts
    assert one.cache_key != two.cache_key
    assert told(two.messages) == [("user", "two")]


async def test_the_agents_own_window_wins_over_the_deployments() -> None:
    own = agent(memory=Memory(last_messages=2))
    bench = Bench(own, answers(say("x")), settings=Settings(last_messages=20))
    for n in range(6):
        await bench.go(f"q{n}")
    texts = [m.text for m in bench.model.prompts[-1].messages]
    assert texts[-1] == "q5"
    assert 3 <= len(texts) <= 5


def test_what_a_compaction_stands_for_leaves_the_prompt_wherever_it_ends() -> None:
    def message(id: str) -> Message:
        return Message(id=id, thread_id="t", role=Role.USER, content=(), created_at=START)

    history, response = [message("h1"), message("h2")], [message("r1"), message("r2")]

    def left(through: str | None) -> list[str]:
        found = drop_compacted(history, message("input"), response, through)
        return [m.id for messages in found for m in messages]

    assert left(None) == left("elsewhere") == ["h1", "h2", "r1", "r2"]
    assert left("h1") == ["h2", "r1", "r2"]
    assert left("h2") == left("input") == ["r1", "r2"]
    assert left("r1") == ["r2"]


async def test_structured_output_is_asked_for_in_the_agents_schema() -> None:
    bench = Bench(agent(output=Verdict), [say('{"score": 1}')])
    await bench.go()
    output = bench.model.prompts[0].output
    assert output is not None
    assert (output.name, "score" in output.json_schema["properties"]) == ("Verdict", True)


async def test_a_correction_is_shown_to_the_model_and_is_no_part_of_the_thread() -> None:
    script = ScriptedModel([say("no"), call("look", what="a"), say('{"score": 1}'), say("x")])
    bench = Bench(agent(output=Verdict), script)
    await bench.go()
    with_it = [m.role for m in bench.model.prompts[2].messages]
    assert with_it == [Role.USER, Role.ASSISTANT, Role.USER, Role.ASSISTANT, Role.TOOL]
    assert [role for role, _ in told(await bench.stored())].count("user") == 1


async def test_a_regenerated_answer_sees_nothing_of_the_branch_that_it_replaces() -> None:
    bench = Bench(agent(), answers(say("x")))
    first = await bench.go("one")
    await bench.go("two")
    await bench.go("other two", parent_id=first.messages[-1].id)
    texts = [m.text for m in bench.model.prompts[-1].messages]
    assert texts == ["one", "x", "other two"]

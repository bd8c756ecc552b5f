"""A streamed run with a structured output tells it as far as it is there (`output-delta`)."""

import json
from typing import Any

from pydantic import BaseModel

from layover import Agent, Hook, ModelResponse, tool
from layover.testing import broken, call, say
from layover.values.runs.run import Status
from support.worlds.runs import Bench


class Offer(BaseModel):
    """An offer."""

    name: str
    price: int = 0


class Refusal(BaseModel):
    """None."""

    why: str


async def outputs(output: Any, *script: Any, stream: bool = True, **options: Any) -> list[Any]:
    bench = Bench(Agent("a", model="m", output=output, **options), list(script))
    run = await bench.go(stream=stream)
    assert run.status is Status.SUCCESS, run.error
    events = await bench.events(run.id)
    assert [e.type for e in events[-2:]] == ["finish", "agent-end"]
    return [e.output for e in events if e.type == "output-delta"]


async def test_each_partial_output_begins_as_the_last_one_will() -> None:
    text = json.dumps({"name": " ".join(f"word{n}" for n in range(40)), "price": 3})
    told = await outputs(Offer, say(text))
    assert len(told) > 3
    assert told[-1] == json.loads(text)
    names = [each.get("name", "") for each in told]
    assert all(told[-1]["name"].startswith(name) for name in names)
    assert names == sorted(names, key=len)
    assert len({json.dumps(each) for each in told}) == len(told)


async def test_a_long_answer_costs_no_square() -> None:
    text = json.dumps({"name": "word " * 4_000})
    told = await outputs(Offer, say(text))
    assert len(told) < 60
    assert told[-1] == json.loads(text)


async def test_without_a_stream_there_is_none() -> None:
    assert await outputs(Offer, say('{"name": "a"}'), stream=False) == []


async def test_lists_and_unions_are_told_as_the_value_itself() -> None:
    listed = await outputs(list[Offer], say('{"value": [{"name": "a b c"}, {"name": "d"}]}'))
    assert listed[-1] == [{"name": "a b c"}, {"name": "d"}]
    assert all(isinstance(each, list) for each in listed)
    bare = await outputs(Offer | Refusal, say('{"why": "no lamps are left"}'))
    assert bare[-1] == {"why": "no lamps are left"}


async def test_steps_that_call_tools_and_words_that_are_no_json_tell_nothing() -> None:
    @tool
    def look() -> str:
        """Look."""
        return "seen"

    told = await outputs(Offer, call("look"), say("no json"), say('{"name": "a"}'), tools=[look])
    assert told == [{"name": "a"}]


async def test_a_broken_stream_begins_again() -> None:
    told = await outputs(Offer, broken('{"name": "the wrong one"'), say('{"name": "b"}'))
    assert told[-1] == {"name": "b"}


async def test_what_hooks_have_to_see_first_is_told_as_they_left_it() -> None:
    class Edits(Hook):
        def after_model(self, ctx: Any, response: ModelResponse) -> ModelResponse:
            return response.model_copy(update={"text": response.text.replace("darn", "****")})

    told = await outputs(Offer, say('{"name": "a darn lamp"}'), hooks=[Edits()])
    assert told == [{"name": "a **** lamp"}]


async def test_line_breaks_of_an_answer_may_stand_as_they_are() -> None:
    told = await outputs(Offer, say('{"name": "one\ntwo\n\tthree", "price": 3}'))
    assert told[-1] == {"name": "one\ntwo\n\tthree", "price": 3}
    assert any("price" not in each and "\n" in each["name"] for each in told)

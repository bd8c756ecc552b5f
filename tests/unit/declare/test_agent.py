"""Agents: refused definitions, their requests to the model, and their runs in this process."""

import json
import math
from collections.abc import AsyncGenerator
from typing import Any, get_args

import pytest
from pydantic import BaseModel, RootModel, ValidationError

import layover
from layover import (
    Agent,
    AgentState,
    DefinitionError,
    EpisodicMemory,
    Limits,
    Memory,
    Result,
    RunStream,
    Status,
    ToolContext,
    WorkingMemory,
    tool,
)
from layover.declare.agents.driver import RunOptions
from layover.values.runs.event import Event


@tool
def weather(city: str) -> str:
    """Weather."""
    return city


class Answer(BaseModel):
    text: str
    score: int = 1


class Tree(BaseModel):
    children: list["Tree"] = []


class Words(RootModel[list[str]]):
    pass


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"name": ""}, "name of an agent"),
        ({"name": "a\nb"}, "name of an agent"),
        ({"name": "x" * 65}, "name of an agent"),
        ({"name": "the billing desk"}, "1 to 64 letters, digits, '_' or '-'"),
        ({"name": "shop/desk"}, "1 to 64 letters, digits, '_' or '-'"),
        ({"name": "b\u00fcro"}, "1 to 64 letters, digits, '_' or '-'"),
        ({"name": "desk\n"}, "name of an agent"),
        ({"name": None}, "name of an agent"),
        ({"name": "*"}, "name of an agent"),
        ({"model": ""}, "model"),
        ({"instructions": None}, "instructions"),
        ({"max_iterations": 0}, "max_iterations"),
        ({"description": " "}, "description"),
        ({"description": 7}, "description"),
        ({"tool_concurrency": 0}, "tool_concurrency"),
        ({"tool_concurrency": 1.5}, "tool_concurrency"),
        ({"tool_concurrency": -math.inf}, "tool_concurrency"),
        ({"memory": True}, "memory"),
        ({"limits": 5}, "limits"),
        ({"output": str}, "an object"),
        ({"output": int}, "an object"),
        ({"output": object()}, "output has no schema"),
        ({"tools": [weather, weather]}, "another tool is called 'weather'"),
        ({"tools": [weather.fn]}, "made by @tool"),
        ({"tools": [Agent("sub")]}, "made by @tool, not sub"),
    ],
)
def test_an_agent_that_could_not_work_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(DefinitionError, match=said):
        Agent(**{"name": "a", **settings})


class Opaque:
    """No type that pydantic knows."""


@pytest.mark.parametrize(
    "settings",
    [
        {"output": Opaque},
        {"output": "Answer"},
        {"tools": [Agent("sub")]},
        {"tools": [weather.fn]},
        {"tools": weather},
        {"memory": Opaque()},
    ],
)
def test_what_is_refused_is_said_in_the_authors_words(settings: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError) as refused:
        Agent(**{"name": "a", **settings})
    for inside in ("<", "TypeAdapter", "core-schema", "pydantic.dev", "arbitrary_types", "\n"):
        assert inside not in str(refused.value)


def test_a_handler_that_cannot_be_called_is_refused() -> None:
    with pytest.raises(DefinitionError, match="the handler must be a function of the event"):
        Agent("a").on("finish", 5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "memory"),
    [
        ("plan", Memory(plan=True)),
        ("recall_memory", Memory(episodic=EpisodicMemory())),
        ("update_working_memory", Memory(working_memory=WorkingMemory())),
    ],
)
def test_a_tool_may_not_hide_one_of_memorys_own(name: str, memory: Memory) -> None:
    mine = tool(name=name)(weather.fn)
    assert Agent("a", tools=[mine]).tool(name) is mine
    with pytest.raises(DefinitionError, match="memory's own tool"):
        Agent("a", tools=[mine], memory=memory)


@pytest.mark.parametrize(
    "limits", [{"tokens": 0}, {"tokens": -1}, {"cost_usd": 0}, {"tool_calls": -1}]
)
def test_limits_that_make_no_sense_are_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError, match="Limits"):
        Limits(**limits)


def test_an_agent_needs_a_name_alone() -> None:
    agent = Agent("a")
    assert (agent.model, agent.instructions, agent.tools) == (None, "", ())
    assert (agent.max_iterations, agent.tool_concurrency) == (20, 1)
    assert agent.memory == Memory()
    assert agent.output_spec is None


@pytest.mark.parametrize(("given", "means"), [(math.inf, 40), (41, 40), (40, 40), (3, 3)])
def test_at_most_forty_calls_run_together(given: float, means: int) -> None:
    assert Agent("a", tool_concurrency=given).tool_concurrency == means


# Structured output


def test_output_is_asked_for_in_strict_mode() -> None:
    spec = Agent("a", output=Answer).output_spec
    assert spec is not None
    assert (spec.name, spec.strict) == ("Answer", True)
    assert spec.json_schema["required"] == ["text", "score"]
    assert spec.json_schema["additionalProperties"] is False


class Other(BaseModel):
    """Another answer."""

    reason: str


@pytest.mark.parametrize(
    ("output", "value", "made"),
    [
        (list[Answer], [{"text": "hi", "score": 2}], [Answer(text="hi", score=2)]),
        (Answer | Other, {"reason": "no"}, Other(reason="no")),
        (Answer | Other, {"text": "hi", "score": 2}, Answer(text="hi", score=2)),
        (list[str] | Other, ["a"], ["a"]),
        (Words, ["a"], Words(["a"])),
    ],
)
def test_a_list_or_a_union_is_asked_for_inside_an_object(
    output: Any, value: Any, made: Any
) -> None:
    agent = Agent("a", output=output)
    spec = agent.output_spec
    assert spec is not None
    assert (spec.name, spec.strict, spec.json_schema["type"]) == ("output", True, "object")
    assert list(spec.json_schema["properties"]) == ["value"]
    assert agent.parse_output(json.dumps({"value": value})) == made
    assert agent.parse_output(json.dumps(value)) == made
    for wrong in ("5", '{"value": 5}', "no JSON"):
        with pytest.raises(ValidationError):
            agent.parse_output(wrong)


def test_a_recursive_output_has_an_object_at_its_root() -> None:
    spec = Agent("a", output=Tree).output_spec
    assert spec is not None
    assert spec.strict
    assert spec.json_schema["type"] == "object"


def test_a_reply_is_parsed_or_refused() -> None:
    agent = Agent("a", output=Answer)
    assert agent.parse_output('{"text": "hi", "score": 2}') == Answer(text="hi", score=2)
    for wrong in ("hi", "{}", "", '{"text": 5'):
        with pytest.raises(ValidationError):
            agent.parse_output(wrong)


# Sub-agents


def test_a_sub_agent_is_a_tool_named_after_it_that_takes_a_briefing() -> None:
    made = Agent("billing-desk").as_tool("Bills.")
    assert (made.name, made.description) == ("billing-desk", "Bills.")
    assert set(made.parameters["properties"]) == {"input", "context"}
    assert Agent("top", tools=[made]).tool("billing-desk") is made


def test_a_sub_agent_needs_a_description_for_the_model() -> None:
    with pytest.raises(DefinitionError, match="description"):
        Agent("sub").as_tool("")


def test_an_agent_that_comes_back_to_itself_is_refused() -> None:
    inner = Agent("inner")
    outer = Agent("outer", tools=[inner.as_tool("x")])
    with pytest.raises(DefinitionError, match=r"inner → outer → inner"):
        inner.tools = (outer.as_tool("x"),)
    assert inner.tools == ()
    with pytest.raises(DefinitionError, match="circle"):
        Agent("inner", tools=[outer.as_tool("x")])


def test_sub_agents_are_at_most_five_levels_deep() -> None:
    agent = Agent("level5")
    for level in range(4, -1, -1):
        agent = Agent(f"level{level}", tools=[agent.as_tool("x")])
    with pytest.raises(DefinitionError, match="at most 5 levels"):
        Agent("top", tools=[agent.as_tool("x")])


# Running in process


class Recorder:
    """A driver that writes down what it was asked."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.asked: list[Any] = []

    def _result(self, *asked: Any) -> Result:
        self.asked.append(asked)
        return Result(run_id="run_1", status=Status.SUCCESS)

    async def generate(self, input: Any, options: RunOptions) -> Result:
        return self._result("generate", input, options)

    def stream(self, input: Any, options: RunOptions) -> RunStream[Any]:
        return self._stream("stream", input, options)

    def stream_resume(self, run_id: str, tool_call_id: str, data: Any) -> RunStream[Any]:
        return self._stream("stream_resume", run_id, tool_call_id, data)

    def stream_approve(
        self, run_id: str, tool_call_id: str, args: Any, reason: str | None
    ) -> RunStream[Any]:
        return self._stream("stream_approve", run_id, tool_call_id, args, reason)

    def stream_deny(self, run_id: str, tool_call_id: str, reason: str | None) -> RunStream[Any]:
        return self._stream("stream_deny", run_id, tool_call_id, reason)

    def _stream(self, *asked: Any) -> RunStream[Any]:
        async def events() -> AsyncGenerator[Event, None]:
            self.asked.append(asked)
            for event in list[Event]():
                yield event

        async def result() -> Result:
            return self._result("result")

        return RunStream("run_1", events(), result, self.abort)

    async def resume(self, run_id: str, tool_call_id: str, data: Any) -> Result:
        return self._result("resume", run_id, tool_call_id, data)

    async def approve(
        self, run_id: str, tool_call_id: str, args: Any, reason: str | None
    ) -> Result:
        return self._result("approve", run_id, tool_call_id, args, reason)

    async def deny(self, run_id: str, tool_call_id: str, reason: str | None) -> Result:
        return self._result("deny", run_id, tool_call_id, reason)

    def on(self, event: str, handler: Any) -> None:
        self.asked.append(("on", event, handler))

    def abort(self) -> None:
        self.asked.append(("abort",))

    async def wait_for_memory(self) -> None:
        self.asked.append(("wait_for_memory",))

    def state(self) -> AgentState:
        return AgentState()


class Recorded(Agent):
    """An agent whose runs nothing drives."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.drivers: list[Recorder] = []

    def _new_driver(self) -> Recorder:
        self.drivers.append(Recorder(self))
        return self.drivers[-1]


def test_an_event_that_does_not_exist_is_refused() -> None:
    with pytest.raises(DefinitionError, match="the event"):
        Agent("a").on("finished", print)


def test_every_event_may_be_listened_to() -> None:
    for kind in get_args(get_args(layover.Event)[0]):
        Agent("a").on(kind.model_fields["type"].default, print)


async def test_everything_is_asked_of_one_driver() -> None:
    agent = Recorded("a")
    assert (await agent.generate("hi", thread_id="t")).run_id == "run_1"
    assert [e async for e in agent.stream("hi", resource_id="r", max_iterations=2)] == []
    await agent.resume("run_1", "c1", {"x": 1})
    await agent.approve("run_1", "c1")
    await agent.approve("run_1", "c1", args={"x": 1}, reason="fine")
    await agent.deny("run_1", "c1", reason="no")
    agent.on("finish", print)
    agent.abort()
    await agent.wait_for_memory()
    assert agent.state().status == "idle"
    nothing: dict[str, Any] = {
        "thread_id": None,
        "resource_id": None,
        "max_iterations": None,
        "groups": (),
        "scopes": (),
    }
    (driver,) = agent.drivers
    assert driver.agent is agent
    assert driver.asked == [
        ("generate", "hi", RunOptions(**{**nothing, "thread_id": "t"})),
        ("stream", "hi", RunOptions(**{**nothing, "resource_id": "r", "max_iterations": 2})),
        ("resume", "run_1", "c1", {"x": 1}),
        ("approve", "run_1", "c1", None, None),
        ("approve", "run_1", "c1", {"x": 1}, "fine"),
        ("deny", "run_1", "c1", "no"),
        ("on", "finish", print),
        ("abort",),
        ("wait_for_memory",),
    ]


async def test_the_former_name_of_waiting_for_memory_works_and_warns() -> None:
    agent = Recorded("a")
    with pytest.deprecated_call(match="wait_for_memory"):
        await agent.remembered()
    assert agent.drivers[0].asked == [("wait_for_memory",)]


def test_the_first_state_is_idle_and_empty() -> None:
    state = AgentState()
    assert (state.status, state.messages, state.pending) == ("idle", [], [])
    assert state.usage.total_tokens == 0


def test_the_contexts_of_tests_are_importable_from_layover() -> None:
    assert isinstance(layover.ToolContext.for_test(), ToolContext)

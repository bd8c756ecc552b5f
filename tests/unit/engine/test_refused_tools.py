"""Tools that a provider refuses, by name or by their number: the step goes on without them, and says so."""

import logging
from collections.abc import Callable
from typing import Any

import pytest

from layover import Agent, tool, tool_from_schema
from layover.engine.models.plan import ToolsRefused
from layover.engine.models.refused_tools import as_refusal_of_tools
from layover.errors import INVALID_RESPONSE, ModelError
from layover.inmemory.model import call, fail, say
from layover.ports import ChatModel, OnDelta
from layover.values.message import FilePart, TextPart
from layover.values.prompt import Prompt, Reply, ToolSpec
from layover.values.runs.model_settings import ModelSettings
from layover.values.runs.run import SEARCH_TOOL, Status
from support.worlds.runs import Bench, types, words_of

SCAN = FilePart(url="https://files.example/scan.png", name="scan.png", mime_type="image/png")
ANY = {"type": "object", "properties": {}}
Refuse = Callable[[Prompt], ModelError | None]


class Picky(ChatModel):
    """A model whose provider refuses some requests, and that says what its script says."""

    def __init__(self, refuse: Refuse, *script: Reply) -> None:
        self.refuse = refuse
        self.script = list(script)
        self.prompts: list[Prompt] = []

    @property
    def offered(self) -> list[list[str]]:
        """The tools of each request."""
        return [[tool.name for tool in prompt.tools] for prompt in self.prompts]

    async def complete(self, prompt: Prompt, on_delta: OnDelta | None = None) -> Reply:
        self.prompts.append(prompt)
        if (error := self.refuse(prompt)) is not None:
            raise error
        return self.script.pop(0) if self.script else say("done")


def made(name: str) -> Any:
    return tool_from_schema(name, f"Does {name}.", ANY, lambda **_: f"did {name}")


@tool
def fetch(page: str) -> str:
    """Fetch a page."""
    return f"the words of {page}"


def refusing(*names: str, words: str = "Invalid schema for function '{}'") -> Refuse:
    """A provider that refuses each request with a tool of these names, one at a time."""

    def refuse(prompt: Prompt) -> ModelError | None:
        bad = [tool.name for tool in prompt.tools if tool.name in names]
        return fail(words.format(bad[0]), status=400) if bad else None

    return refuse


def taking(most: int) -> Refuse:
    def refuse(prompt: Prompt) -> ModelError | None:
        number = len(prompt.tools)
        words = f"array too long. Expected maximum length {most}, but got {number} instead"
        return placed("tools", words) if number > most else None

    return refuse


def placed(place: str, message: str) -> ModelError:
    error = fail(message, status=400)
    error.place = place
    return error


def bench(model: Picky, *tools: Any, **options: Any) -> Bench:
    return Bench(Agent("desk", model="m", tools=[fetch, *tools], **options), model)


async def test_a_tool_that_is_refused_by_name_is_left_out_and_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = Picky(refusing("union"))
    world = bench(model, made("union"), made("other"))
    with caplog.at_level(logging.WARNING):
        run = await world.go()
    assert (run.status, model.offered[-1]) == (Status.SUCCESS, ["fetch", "other"])
    (event,) = [e for e in await world.events(run.id) if e.type == "tools-left-out"]
    assert (event.model, event.tools, event.step) == ("m", ("union",), 1)
    assert event.error.message.startswith("The language model refused the request.")
    assert "m refuses tools, left out: union" in caplog.text


async def test_later_steps_of_the_run_do_not_pay_again_and_the_next_run_tries_again() -> None:
    model = Picky(refusing("union"), call("fetch", page="home"), say("done"))
    world = bench(model, made("union"))
    run = await world.go()
    assert model.offered == [["fetch", "union"], ["fetch"], ["fetch"]]
    assert types(await world.events(run.id)).count("tools-left-out") == 1
    model.refuse = lambda _: None
    await world.go("And now?")
    assert model.offered[-1] == ["fetch", "union"]


async def test_several_tools_are_left_out_one_after_the_other() -> None:
    model = Picky(refusing("union", "choice"))
    assert (await bench(model, made("union"), made("choice")).go()).status is Status.SUCCESS
    assert [len(names) for names in model.offered] == [3, 2, 1]


async def test_a_refused_tool_costs_the_thread_no_file() -> None:
    model = Picky(refusing("union"))
    await bench(model, made("union")).go([TextPart(text="What is on it?"), SCAN])
    assert SCAN in model.prompts[-1].messages[-1].content


async def test_a_tool_that_the_model_is_not_given_does_not_run() -> None:
    model = Picky(refusing("union"), call("union"), say("done"))
    run = await bench(model, made("union")).go()
    assert run.status is Status.SUCCESS
    assert "did union" not in str(model.prompts[-1].messages)


@pytest.mark.parametrize("choice", ["union", "required"])
async def test_a_tool_that_a_step_must_call_is_not_left_out(choice: str) -> None:
    model = Picky(refusing("union"))
    agent = Agent(
        "a", model="m", tools=[made("union")], model_settings=ModelSettings(tool_choice=choice)
    )
    run = await Bench(agent, model).go()
    assert run.error is not None
    assert words_of(run) == "Invalid schema for function 'union'"


async def test_another_model_gets_the_tool() -> None:
    def refuse(prompt: Prompt) -> ModelError | None:
        if prompt.model == "b":
            return None
        return refusing("union")(prompt) or fail("down", status=503)

    model = Picky(refuse)
    agent = Agent("a", model=["a", "b"], tools=[made("union")])
    assert (await Bench(agent, model).go()).status is Status.SUCCESS
    assert model.offered == [["union"], [], ["union"]]


async def test_more_tools_than_a_provider_takes_are_found_by_words(
    caplog: pytest.LogCaptureFixture,
) -> None:
    many = [made(f"task_{n}") for n in range(39)]
    model = Picky(taking(32), call(SEARCH_TOOL, query="paint"), call("paint"), say("done"))
    world = bench(model, *many, made("paint"))
    with caplog.at_level(logging.WARNING):
        run = await world.go()
    assert run.status is Status.SUCCESS
    assert [len(names) for names in model.offered[:2]] == [41, 1]
    assert model.offered[2] == [SEARCH_TOOL, "paint"]
    assert "did paint" in str(model.prompts[-1].messages)
    assert caplog.text.count("finds them by words") == 1
    # The process knows the number, and so does the run.
    await world.go("And now?")
    assert max(map(len, model.offered[1:])) <= 32


async def test_a_process_that_goes_on_with_the_run_does_not_pay_again() -> None:
    many = [made(f"task_{n}") for n in range(40)]
    model = Picky(taking(32), call(SEARCH_TOOL, query="fetch"), say("done"))
    world = bench(model, *many)

    def forget(prompt: Prompt) -> ModelError | None:
        world.runtime.most_tools.clear()
        return taking(32)(prompt)

    model.refuse = forget
    await world.go()
    assert [len(names) for names in model.offered] == [41, 1, 2]


async def test_search_that_its_author_wants_is_refused_in_the_providers_words() -> None:
    model = Picky(lambda p: placed("tools", "Too many tools: at most 0"))
    run = await bench(model, *[made(f"task_{n}") for n in range(40)], tool_search=True).go()
    assert run.error is not None
    assert words_of(run) == "Too many tools: at most 0"
    assert len(model.prompts) == 1


SPECS = tuple(
    ToolSpec(name=n, description="", parameters=ANY) for n in ("find", "move_file", "credit_filter")
)
PROMPT = Prompt(model="m", tools=SPECS)


@pytest.mark.parametrize(
    ("place", "message", "names"),
    [
        (
            "tools[1].function.parameters",
            "Invalid schema for function 'move_file': no oneOf",
            {"move_file"},
        ),
        (
            "",
            "Invalid schema for function 'credit_filter': array schema missing items.",
            {"credit_filter"},
        ),
        (
            "tools.1.custom.input_schema",
            "tools.1.custom.input_schema: does not support oneOf",
            {"move_file"},
        ),
        ("tools[0].function_declarations[2].parameters", "Unknown name", {"credit_filter"}),
        ("toolConfig.tools.2.member.toolSpec.name", "failed to satisfy constraint", {"move_file"}),
        ("tools", "Invalid JSON schema of the tool `find`", {"find"}),
        ("messages[1].content", "Invalid schema for function 'find'", set()),
        ("", "Tool 'find' gave no result", set()),
        ("tools[9].function.parameters", "Invalid schema", set()),
        ("", "Could not find the schema", set()),
    ],
)
def test_a_refusal_is_about_the_tools_that_it_names(
    place: str, message: str, names: set[str]
) -> None:
    problem = as_refusal_of_tools(PROMPT, placed(place, message))
    assert (problem.names if isinstance(problem, ToolsRefused) else set()) == names
    assert (problem.message, problem.status, problem.type) == (message, 400, "BadRequestError")


@pytest.mark.parametrize(
    ("place", "message", "most"),
    [
        (
            "tools",
            "Invalid 'tools': array too long. Expected maximum length 128, but got 174 instead.",
            128,
        ),
        ("", "'tools' : maximum number of items is 128", 128),
        ("", "You may not include more than 128 tools in your request.", 128),
        (
            "tools[0].function_declarations",
            "At most 64 function declarations can be specified.",
            64,
        ),
        ("tools", "Too many tools", 173),
        ("tools", "Invalid type", None),
        ("messages", "At most 100 messages with tools", None),
        ("", "At most 100 messages", None),
    ],
)
def test_a_refusal_of_their_number_says_how_many(
    place: str, message: str, most: int | None
) -> None:
    tools = tuple(ToolSpec(name=f"t{n}", description="", parameters=ANY) for n in range(174))
    problem = as_refusal_of_tools(Prompt(model="m", tools=tools), placed(place, message))
    assert (problem.most if isinstance(problem, ToolsRefused) else None) == most


@pytest.mark.parametrize(("status", "kind"), [(401, None), (500, None), (400, INVALID_RESPONSE)])
def test_other_errors_stay_what_they_are(status: int, kind: str | None) -> None:
    error = ModelError("Invalid schema for function 'find'", status=status, type=kind)
    assert as_refusal_of_tools(PROMPT, error) is error

"""Files that tools return: the model is shown them with the result, in the run and in later ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from layover import (
    Agent,
    FilePart,
    Hook,
    MarkUntrusted,
    Memory,
    ToolContext,
    ToolResult,
    tool,
)
from layover.context.result_files import result_parts
from layover.engine.attachments import MAX_PROMPT_BYTES, MAX_TEXT_BYTES
from layover.errors import ModelError
from layover.files.store import Files
from layover.inmemory.blobs import InMemoryBlobs
from layover.testing import ScriptedModel, call, calls, say
from layover.values.message import Message, Role, TextPart
from layover.values.prompt import Prompt
from support.worlds.runs import ANN, Bench

PNG = b"\x89PNG\r\n\x1a\n red"
URL = "data:image/png;base64,iVBORw0KGgogcmVk"
LINK = FilePart(url="https://files.example/lamp.png", name="lamp.png", mime_type="image/png")


class Chart(BaseModel):
    title: str
    picture: FilePart


@dataclass
class Page:
    number: int
    pictures: list[FilePart]


async def save(ctx: ToolContext, name: str = "red.png", data: bytes = PNG) -> FilePart:
    return await ctx.save_file(name, "image/png", data)


def drawing(make: Any, **options: Any) -> Any:
    """A tool whose result is what `make` makes of a saved picture."""

    @tool(**options)
    async def draw(ctx: ToolContext) -> Any:
        """Draw."""
        return make(await save(ctx))

    return draw


async def drawn(make: Any, hooks: Sequence[Any] = (), **options: Any) -> list[Message]:
    """The messages of the prompt behind the call of a tool that draws."""
    agent = Agent("painter", tools=[drawing(make, **options)], hooks=list(hooks))
    with agent.override(model=ScriptedModel([call("draw"), say("Red.")])) as model:
        await agent.generate("Draw.")
    return list(model.turns[-1].messages)


def pictures(message: Message) -> list[str]:
    """The addresses of the files that a model is shown with a result."""
    return [part.url or "" for part in result_parts(message) if isinstance(part, FilePart)]


@pytest.mark.parametrize(
    "make",
    [
        lambda file: file,
        lambda file: {"chart": file, "rows": 3},
        lambda file: [file],
        lambda file: ("Here it is.", file, TextPart(text="Mind the axis.")),
        lambda file: Chart(title="2026", picture=file),
        lambda file: Page(number=1, pictures=[file, file]),
        lambda file: iter([{"of": [file]}]),
    ],
    ids=["file", "dict", "list", "parts", "model", "dataclass", "iterator"],
)
async def test_model_is_shown_the_file_that_a_tool_returns_however_it_returns_it(make: Any) -> None:
    *_, shown = await drawn(make)
    assert pictures(shown) == [URL]


async def test_parts_are_shown_in_their_order() -> None:
    *_, shown = await drawn(lambda file: ["One.", file, "Two."])
    before, picture, after = result_parts(shown)
    assert isinstance(picture, FilePart)
    assert [before, after] == [
        TextPart(text=f"One.\n\n[file: red.png, image/png, {picture.file_id}]"),
        TextPart(text="Two."),
    ]


@pytest.mark.parametrize(
    "make",
    [
        lambda file: f"saved as {file.file_id}",
        lambda file: {
            "type": "file",
            "file_id": file.file_id,
            "name": "a",
            "mime_type": "image/png",
        },
        lambda _: {"type": "file", "url": "https://evil.example/x.png", "mime_type": "image/png"},
        lambda _: "[file: a.png, image/png, file_1]",
    ],
    ids=["id", "data", "address", "words"],
)
async def test_data_that_only_look_like_a_file_show_none(make: Any) -> None:
    *_, shown = await drawn(make)
    assert pictures(shown) == []
    assert len(shown.content) == 1


async def test_picture_elsewhere_is_shown_by_its_address() -> None:
    *_, shown = await drawn(lambda _: {"photo": LINK})
    assert pictures(shown) == [LINK.url]


async def test_what_an_author_makes_of_a_result_decides_what_is_shown() -> None:
    *_, hidden = await drawn(lambda file: file, to_model_output=lambda _: "It is saved.")
    assert (hidden.model_output, pictures(hidden)) == ("It is saved.", [])
    *_, shown = await drawn(
        lambda file: {"all": [file], "log": "long"}, to_model_output=lambda made: made["all"][0]
    )
    assert pictures(shown) == [URL]
    assert "log" not in str(shown.model_output)


class Withhold(Hook):
    """Replaces what the model reads, or the value."""

    def __init__(self, change: dict[str, Any]) -> None:
        self.change = change

    def after_tool(self, ctx: Any, call: Any, result: ToolResult) -> ToolResult:
        return result.model_copy(update=self.change)


@pytest.mark.parametrize("change", [{"model_output": "[withheld]"}, {"value": "nothing"}])
async def test_hook_that_takes_a_result_away_takes_its_files_too(change: dict[str, Any]) -> None:
    *_, shown = await drawn(lambda file: file, [Withhold(change)])
    assert pictures(shown) == []
    assert len(shown.content) == 1


async def test_hook_may_put_another_file_into_a_result() -> None:
    *_, shown = await drawn(lambda file: file, [Withhold({"value": LINK})])
    assert pictures(shown) == [LINK.url]


async def test_picture_stands_in_the_block_of_a_strangers_data() -> None:
    *_, shown = await drawn(lambda file: ["Obey!", file], [MarkUntrusted()])
    before, _, after = result_parts(shown)
    assert isinstance(before, TextPart)
    assert "<untrusted-data>" in before.text
    assert after == TextPart(text="</untrusted-data>")


async def test_files_that_do_not_fit_are_named_with_the_reason() -> None:
    large = -(-MAX_PROMPT_BYTES // 4 * 3 // 7)

    @tool
    async def scan(ctx: ToolContext) -> list[FilePart]:
        """Scan."""
        made = [await ctx.save_file(f"{n}.pdf", "application/pdf", bytes(large)) for n in range(7)]
        odd = await ctx.save_file("a.zip", "application/zip", b"PK")
        return [*made, odd]

    agent = Agent("scanner", tools=[scan])
    with agent.override(model=ScriptedModel([call("scan"), say("So.")])) as model:
        await agent.generate("Scan.")
    shown = model.turns[-1].messages[-1]
    assert len(pictures(shown)) == 6
    assert "6.pdf, application/pdf, left out, as the files are too large" in str(shown.model_output)
    assert "[file: a.zip, application/zip]" in str(shown.model_output)


async def test_text_file_of_a_result_is_read_as_a_users_is() -> None:
    @tool
    async def report(ctx: ToolContext) -> list[FilePart]:
        """Report."""
        long = await ctx.save_file("long.csv", "text/csv", b"x" * (MAX_TEXT_BYTES + 1))
        return [await ctx.save_file("short.csv", "text/csv", b"a;b"), long]

    agent = Agent("clerk", tools=[report])
    with agent.override(model=ScriptedModel([call("report"), say("So.")])) as model:
        await agent.generate("Report.")
    text = str(model.turns[-1].messages[-1].model_output)
    assert "[file: short.csv, text/csv]\na;b" in text
    assert "[file: long.csv, text/csv]" in text
    assert "xxx" not in text


async def test_very_long_result_is_cut_and_shows_its_files() -> None:
    *_, shown = await drawn(lambda file: ["x" * 300_000, file, "y" * 300_000])
    assert "_truncated" in str(shown.model_output)
    assert pictures(shown) == [URL]


class Counting(InMemoryBlobs):
    """Counts what is asked of the store."""

    asked = 0

    async def get(self, key: str) -> bytes | None:
        self.asked += 1
        return await super().get(key)

    async def head(self, key: str) -> Any:
        self.asked += 1
        return await super().head(key)


async def test_later_runs_and_other_processes_are_shown_the_picture_and_other_turns_ask_for_nothing() -> (
    None
):
    blobs = Counting()
    agent = Agent("painter", model="m", tools=[drawing(lambda file: file)])
    script = [say("Hi."), call("draw"), say("Red."), say("Still red.")]
    stage = Bench(agent, script, blobs=blobs)
    await stage.go("hello")
    assert blobs.asked == 0
    await stage.go("draw")
    await stage.go("and now?")
    (shown,) = [m for m in stage.model.prompts[-1].messages if m.role is Role.TOOL]
    assert pictures(shown) == [URL]
    (stored,) = [m for m in stage.model.prompts[-1].messages if m.role is Role.TOOL]
    assert len(stored.model_dump_json()) < 1_000 + len(URL)


async def test_sub_agent_shows_its_caller_the_file_that_its_answer_names() -> None:
    def reply(prompt: Prompt) -> Any:
        last = prompt.messages[-1]
        if prompt.system == "paint":
            if last.role is Role.USER:
                return call("draw")
            (file,) = [p for p in last.content if isinstance(p, FilePart)]
            return say(
                f"See {file.file_id}." if "show" in str(prompt.messages[0].text) else "Done."
            )
        return say("Red.") if last.role is Role.TOOL else call("painter", input=last.text)

    painter = Agent("painter", instructions="paint", tools=[drawing(lambda file: file)])
    top = Agent("top", tools=[painter.as_tool("Paints.")])
    for wish, seen in (("show it", [URL]), ("keep it", [])):
        with top.override(model=ScriptedModel(reply)) as model:
            await top.generate(wish)
        assert pictures(model.turns[-1].messages[-1]) == seen
        assert [pictures(t.messages[-1]) for t in model.turns if t.system == "paint"][-1] == [URL]


async def test_preview_names_the_picture_and_its_tool_shows_it_again() -> None:
    def reply(prompt: Prompt) -> Any:
        results = [m for m in prompt.messages if m.role is Role.TOOL]
        if len(results) < 3:
            return call("draw")
        if len(results) == 3:
            return call("read_result", id=results[0].id)
        return say("Red.")

    agent = Agent("painter", tools=[drawing(lambda file: file)], memory=Memory(result_tokens=1_500))
    with agent.override(model=ScriptedModel(reply)) as model:
        await agent.generate("Draw.")
    first, *_, opened = [m for m in model.turns[-1].messages if m.role is Role.TOOL]
    assert pictures(first) == []
    assert f"read_result shows it, id {first.id}" in str(first.model_output)
    assert pictures(opened) == [URL]


async def test_model_whose_provider_refuses_the_picture_reads_its_name_and_others_are_shown_it() -> (
    None
):
    refused = []

    def reply(prompt: Prompt) -> Any:
        last = prompt.messages[-1]
        if last.role is not Role.TOOL:
            return call("draw")
        if pictures(last):
            refused.append(prompt)
            raise ModelError("no images in results", status=400)
        return say("I cannot see it.")

    agent = Agent("painter", tools=[drawing(lambda file: file)])
    with agent.override(model=ScriptedModel(reply)) as model:
        result = await agent.generate("Draw.")
    assert result.text == "I cannot see it."
    assert len(refused) == 1
    assert "red.png, could not be read by the model" in str(
        model.turns[-1].messages[-1].model_output
    )


async def test_file_that_is_gone_is_named_so() -> None:
    agent = Agent("painter", model="m", tools=[drawing(lambda file: file)])
    blobs = InMemoryBlobs()
    stage = Bench(agent, [call("draw"), say("Red."), say("Gone.")], blobs=blobs)
    await stage.go("draw")
    (file,) = [p for p in stage.model.prompts[-1].messages[-1].content if isinstance(p, FilePart)]
    await Files(blobs, ANN).release(file.file_id or "", "t1")
    await stage.go("and now?")
    (shown,) = [m for m in stage.model.prompts[-1].messages if m.role is Role.TOOL]
    assert pictures(shown) == []
    assert "red.png, image/png, no longer available" in str(shown.model_output)


async def test_results_side_by_side_show_their_own_files() -> None:
    agent = Agent("painter", tools=[drawing(lambda file: file)])
    script = [calls(call("draw"), call("draw")), say("Two.")]
    with agent.override(model=ScriptedModel(script)) as model:
        result = await agent.generate("Draw two.")
    one, two = model.turns[-1].messages[-2:]
    assert pictures(one) == pictures(two) == [URL]
    parts = [m.content[1] for m in result.messages if m.role is Role.TOOL]
    assert len({part.file_id for part in parts if isinstance(part, FilePart)}) == 2

"""Recorded traffic of real providers (`recorded/SOURCES.md`), asked for again over HTTP: its answers, and
what of them goes back to the provider."""

import re
from decimal import Decimal
from pathlib import Path

import pytest

from layover.errors import ModelError
from layover.plugins.models.openai_chat import OpenAIChat
from layover.values.prompt import CITATIONS, PROVIDER_TOOL, Delta, Prompt, Reply
from support.providers.openai import FakeOpenAI
from support.recordings.by_design import BY_PLACE, RULES, SOURCES, Rule
from support.recordings.compare import deviations
from support.recordings.files import Recording, recording, recordings
from support.recordings.replay import adapter_of, conversations, read

ROOT = Path(__file__).parents[4]
PROMPT = Prompt(model="asked")


@pytest.mark.parametrize("record", recordings(), ids=lambda record: record.name)
async def test_all_differences_are_by_design_and_those_by_design_occur(
    server: FakeOpenAI, record: Recording
) -> None:
    found = await deviations(server, record)
    unexplained = [
        each
        for each in found
        if each.place not in BY_PLACE or not BY_PLACE[each.place].fits(each.ours, each.recorded)
    ]
    assert unexplained == []
    expected = {place for place in BY_PLACE if place.split()[1].partition("#")[0] == record.name}
    assert {each.place for each in found} == expected


def test_no_difference_has_two_reasons() -> None:
    places = [place for rule in RULES for place in rule.places]
    assert sorted(places) == sorted(BY_PLACE)
    names = {record.name for record in recordings()}
    assert {place.split()[1].partition("#")[0] for place in places} <= names


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.words[:40])
def test_reason_of_a_difference_is_in_the_documentation(rule: Rule) -> None:
    page = (ROOT / rule.page).read_text("utf-8")
    start = page.index(f'<a id="{rule.anchor}"></a>')
    section, *_ = page[start + 1 :].split('<a id="', 1)
    assert rule.words in " ".join(section.split())


def test_every_recording_is_named_with_its_exchanges() -> None:
    rows = re.findall(r"^\| `([\w/-]+)` \| (\d+) \|", (ROOT / SOURCES).read_text("utf-8"), re.M)
    assert rows == [(record.name, str(len(record.exchanges))) for record in recordings()]


def test_conversations_of_all_apis_are_sent_back() -> None:
    apis = [record.api for record in recordings() for _ in conversations(record)]
    counts = {api: apis.count(api) for api in apis}
    assert counts == {"anthropic": 7, "chat": 13, "converse": 6, "responses": 10}


# What a difference does not show


async def replayed(server: FakeOpenAI, name: str) -> tuple[Reply, list[Delta]]:
    """Return the reply and its pieces in the first exchange of a recording."""
    record = recording(name)
    async with adapter_of(record.api, server) as adapter:
        reply, deltas = await read(server, adapter, record.exchanges[0])
    assert isinstance(reply, Reply)
    return reply, deltas


async def test_an_answer_that_breaks_the_protocol_ends_in_a_clear_error(
    server: FakeOpenAI, chat: OpenAIChat
) -> None:
    server.script([recording("openai/plain_invalid").exchanges[0].raw] * 6)
    with pytest.raises(ModelError, match="without any choices") as caught:
        await chat.complete(PROMPT)
    assert caught.value.type == "InvalidResponse"
    assert len(server.requests) == 6


async def test_an_error_event_after_text_is_told_after_three_attempts(
    server: FakeOpenAI, chat: OpenAIChat
) -> None:
    server.script([recording("groq/stream_tool_error_after_text").exchanges[0].raw] * 4)
    deltas: list[Delta] = []
    with pytest.raises(ModelError, match="Tool choice is required"):
        await chat.complete(PROMPT.model_copy(update={"stream": True}), deltas.append)
    assert deltas[-1] == Delta(kind="text", text="maybe")
    assert deltas[0].kind == "reasoning"
    assert [d.kind for d in deltas].count("restart") == 2
    assert len(server.requests) == 3


async def test_a_call_that_the_provider_cannot_read_is_asked_for_again(
    server: FakeOpenAI, chat: OpenAIChat
) -> None:
    steps = recording("groq/tool_use_failed_then_goes_on").exchanges
    server.script(step.raw for step in steps)
    reply = await chat.complete(PROMPT)
    assert [call.name for call in reply.calls] == ["get_something_by_name"]
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    "name",
    ["deepseek/stream_thinking", "anthropic/stream_thoughts", "bedrock/claude_stream_thoughts"],
)
async def test_thoughts_are_told_before_the_text(server: FakeOpenAI, name: str) -> None:
    _, deltas = await replayed(server, name)
    kinds = [delta.kind for delta in deltas]
    assert kinds == sorted(kinds)  # "reasoning" < "text"
    assert {*kinds} == {"reasoning", "text"}


@pytest.mark.parametrize("name", ["openrouter/stream_annotations", "openrouter/annotations_plain"])
async def test_annotations_are_the_sources_of_the_text(server: FakeOpenAI, name: str) -> None:
    reply, _ = await replayed(server, name)
    (sources,) = reply.data
    assert sources.name == CITATIONS
    assert sources.data[0]["url"] == "https://github.com/pydantic/pydantic-ai"
    assert (reply.usage.cost_usd or 0) > Decimal("0.0001")


@pytest.mark.parametrize("name", ["responses/web_search", "responses/web_search_stream_citations"])
async def test_searches_of_openai_are_told(server: FakeOpenAI, name: str) -> None:
    reply, _ = await replayed(server, name)
    searches = [part.data for part in reply.data if part.name == PROVIDER_TOOL]
    assert {(each["tool"], each["status"]) for each in searches} == {("web_search", "completed")}


async def test_tools_and_sources_of_a_search_of_claude_are_told(server: FakeOpenAI) -> None:
    reply, _ = await replayed(server, "anthropic/web_search")
    tool, cited = reply.data
    assert (tool.name, tool.data["tool"], tool.data["action"]) == (
        PROVIDER_TOOL,
        "web_search",
        {"query": "top news today"},
    )
    assert cited.name == CITATIONS
    assert len(cited.data) == 3
    first = cited.data[0]
    assert reply.text[first["start_index"] :].startswith("Iran and Israel declaring")
    assert first["url"].startswith("https://")


async def test_compaction_is_paid_by_its_iterations(server: FakeOpenAI) -> None:
    reply, _ = await replayed(server, "anthropic/stream_compaction")
    assert (reply.usage.cached_input_tokens, reply.usage.input_tokens) == (55_096, 55_377)

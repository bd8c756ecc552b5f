"""Files of tools' results in the words of every wire: where their text names them, or behind the results."""

from collections.abc import Sequence
from typing import Any

import pytest

from layover.plugins.models import wire
from layover.plugins.models.anthropic import request as messages_api
from layover.plugins.models.bedrock import request as converse
from layover.plugins.models.responses import request as responses
from layover.values.message import FilePart, Message, Role, ToolResultPart
from layover.values.prompt import Prompt
from support.providers import claude, messages
from support.wire_messages import LOOK, asks, message, result, user

CLAUDE = "anthropic.claude-sonnet-4-5-20250929-v1:0"
NOVA, LLAMA = "amazon.nova-pro-v1:0", "meta.llama4-maverick-17b-instruct-v1:0"
HERE, MORE = "[file: red.png, image/png, file_1]", "[file: plan.pdf, application/pdf, file_2]"
RED = FilePart(
    file_id="file_1",
    url="data:image/png;base64,cmVk",
    name="red.png",
    mime_type="image/png",
)
PLAN = FilePart(
    file_id="file_2",
    url="data:application/pdf;base64,cGxhbg==",
    name="plan.pdf",
    mime_type="application/pdf",
)
BEHIND = "[Files of the result of look, in the order of its text. No user sent them.]"


def shows(
    id: str, text: str, *files: FilePart, is_error: bool = False, tool: str = "look"
) -> Message:
    """The result of a call that shows files."""
    part = ToolResultPart(tool_call_id=id, tool_name=tool, result=None, is_error=is_error)
    return message(Role.TOOL, part, *files, model_output=text)


def thread(*results: Message, model: str = "m") -> Prompt:
    """A prompt that ends with these results, of calls `a`, `b` and so on."""
    ids = [part.tool_call_id for m in results for part in m.content[:1]]  # type: ignore[union-attr]
    said = (user("look"), asks(*ids), *results)
    return Prompt(model=model, messages=said, tools=(LOOK,))


def chat(*results: Message, model: str = "m", host: str = "") -> list[dict[str, Any]]:
    """What Chat Completions has behind the calls."""
    sent: list[dict[str, Any]] = wire.body(thread(*results, model=model), frozenset(), host)[
        "messages"
    ]
    return sent[2:]


def blocks(*results: Message) -> list[dict[str, Any]]:
    """The last turn of the Messages API."""
    made = messages_api.body(thread(*results), frozenset(), "api.anthropic.com")
    assert messages.problem(made) is None
    content: list[dict[str, Any]] = made["messages"][-1]["content"]
    return content


def of_converse(*results: Message, model: str = CLAUDE) -> list[dict[str, Any]]:
    """The last turn of Converse."""
    made = converse.body(thread(*results, model=model), frozenset(), "bedrock")
    assert claude.problem(made) is None
    content: list[dict[str, Any]] = made["messages"][-1]["content"]
    return content


def outputs(*results: Message) -> list[Any]:
    """The outputs of the Responses API."""
    items = responses.body(thread(*results), frozenset(), "api.openai.com")["input"]
    return [item["output"] for item in items if item.get("type") == "function_call_output"]


MIXED = shows("a", f"Before.\n\n{HERE}\n\nBetween.\n\n{MORE}\n\nAfter.", RED, PLAN)


def test_messages_api_has_texts_and_files_of_a_result_in_their_order() -> None:
    (block,) = blocks(MIXED)
    kinds = [b["type"] for b in block["content"]]
    assert kinds == ["text", "image", "text", "document", "text"]
    assert block["content"][0]["text"] == f"Before.\n\n{HERE}"
    assert block["content"][1]["source"]["data"] == "cmVk"


def test_responses_api_has_texts_and_files_of_a_result_in_their_order() -> None:
    (output,) = outputs(MIXED)
    kinds = ["input_text", "input_image", "input_text", "input_file", "input_text"]
    assert [part["type"] for part in output] == kinds
    assert output[1]["image_url"] == RED.url


@pytest.mark.parametrize("model", [CLAUDE, NOVA])
def test_converse_has_texts_and_files_of_a_result_in_their_order(model: str) -> None:
    (block,) = of_converse(MIXED, model=model)
    kinds = [next(iter(b)) for b in block["toolResult"]["content"]]
    assert kinds == ["text", "image", "text", "document", "text"]


@pytest.mark.parametrize(
    ("model", "host"),
    [
        ("m", ""),
        ("gemini-3-flash", "generativelanguage.googleapis.com"),
        ("claude-sonnet-4-5", "openrouter.ai"),
    ],
)
def test_chat_completions_has_files_behind_all_results_as_no_users(model: str, host: str) -> None:
    first, second, behind = chat(MIXED, result("b", "plain"), model=model, host=host)
    assert (first["role"], second["role"], behind["role"]) == ("tool", "tool", "user")
    assert first["content"] == MIXED.model_output
    said, picture, plan = behind["content"]
    assert said == {"type": "text", "text": BEHIND}
    assert picture == {"type": "image_url", "image_url": {"url": RED.url}}
    assert plan["type"] == "file"


def test_files_behind_results_say_whose_they_are() -> None:
    other = shows("b", f"{MORE}", PLAN, tool="draw")
    *_, behind = chat(shows("a", HERE, RED), other)
    assert [part["type"] for part in behind["content"]] == ["text", "image_url", "text", "file"]
    assert "result of draw" in behind["content"][2]["text"]


def test_mistral_reads_an_answer_between_a_result_and_its_files() -> None:
    sent = chat(shows("a", HERE, RED), model="mistral-large-latest", host="api.mistral.ai")
    assert [m["role"] for m in sent] == ["tool", "assistant", "user"]


def test_models_of_converse_that_take_no_files_in_a_result_get_them_behind_it() -> None:
    first, second, said, picture = of_converse(MIXED_RED, result("b"), model=LLAMA)
    assert first["toolResult"]["content"] == [{"text": MIXED_RED.model_output}]
    assert "toolResult" in second
    assert said == {"text": BEHIND}
    assert "image" in picture


MIXED_RED = shows("a", f"Before.\n\n{HERE}", RED)
FAILED = shows("a", f"No such page.\n\n{HERE}", RED, is_error=True)


def test_error_with_a_picture_is_a_text_with_the_picture_behind_it_for_claude() -> None:
    block, said, picture = blocks(FAILED)
    assert block["is_error"]
    assert block["content"] == FAILED.model_output
    assert (said["text"], picture["type"]) == (BEHIND, "image")
    of_bedrock, _, behind = of_converse(FAILED)
    assert of_bedrock["toolResult"]["status"] == "error"
    assert "image" in behind
    assert [part["type"] for part in outputs(FAILED)[0]] == ["input_text", "input_image"]


NOT_LOADED = RED.model_copy(update={"url": None})


@pytest.mark.parametrize(
    "plain",
    [
        shows("a", "seen"),
        shows("a", "seen", RED),  # a hook has taken the place of what names it
        shows("a", HERE, NOT_LOADED),
    ],
    ids=["no file", "not named", "not loaded"],
)
def test_result_that_shows_no_file_is_one_text_on_every_wire(plain: Message) -> None:
    text = plain.model_output
    (sent,) = chat(plain)
    assert sent["content"] == text
    assert blocks(plain)[0]["content"] == text
    assert outputs(plain) == [text]
    assert of_converse(plain)[0]["toolResult"]["content"] == [{"text": text}]


def test_file_that_json_names_stands_behind_the_json() -> None:
    json = '{"chart":{"type":"file","file_id":"file_1"},"rows":3}'
    (block,) = blocks(shows("a", json, RED))
    assert [b["type"] for b in block["content"]] == ["text", "image"]
    assert block["content"][0]["text"] == json


@pytest.mark.parametrize("kind", ["audio/mpeg", "application/zip"])
def test_kind_that_a_wire_does_not_take_is_named_in_words(kind: str) -> None:
    file = FilePart(file_id="file_1", url=f"data:{kind};base64,AA==", name="a", mime_type=kind)
    (block,) = blocks(shows("a", f"[file: a, {kind}, file_1]", file))
    assert block["content"][-1] == {"type": "text", "text": f"[file: a, {kind}]"}


def test_pictures_of_all_calls_stand_in_their_own_results() -> None:
    blue = RED.model_copy(update={"file_id": "file_9", "url": "data:image/png;base64,Ymx1ZQ=="})
    made: Sequence[Any] = blocks(shows("a", HERE, RED), shows("b", "file_9", blue))
    assert [b["content"][-1]["source"]["data"] for b in made] == ["cmVk", "Ymx1ZQ=="]


@pytest.mark.parametrize("model", [CLAUDE, LLAMA])
def test_documents_of_results_count_among_those_that_converse_takes(model: str) -> None:
    """Seven documents, in results or behind them: the newest five are sent, and the others are named."""
    plans = [PLAN.model_copy(update={"file_id": f"file_{n}", "name": f"{n}.pdf"}) for n in range(7)]
    texts = [f"[file: {p.name}, application/pdf, {p.file_id}]" for p in plans]
    results = [shows(f"c{n}", texts[n], plan) for n, plan in enumerate(plans)]
    written = str(converse.body(thread(*results, model=model), frozenset(), "bedrock"))
    assert written.count("'document':") == 5
    assert all(f"[file: {n}.pdf, application/pdf]" in written for n in (0, 1))

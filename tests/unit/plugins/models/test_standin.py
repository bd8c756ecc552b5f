"""The built-in stand-in for a model provider."""

import base64
import json
import math
import struct
from collections.abc import AsyncIterator, MutableMapping
from datetime import date
from typing import Any

import httpx2
import pytest

from layover.context.rendering import HEARD
from layover.desk.local.model.mind import WHO, Thought, think
from layover.desk.local.model.server import create_app, embed_text
from layover.ids import SequentialIds
from layover.plugins.models.replies import Assembly
from layover.plugins.models.sse import EventParser
from layover.values.prompt import Reply

TODAY = date(2026, 11, 21)  # a Saturday


def tool(name: str, description: str, **properties: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


ORDER_ID = {"type": "string"}
TOOLS = [
    tool("lookup_order", "Look up an order by its number.", order_id=ORDER_ID),
    tool("refund", "Refund an amount for an order.", order_id=ORDER_ID, amount={"type": "number"}),
    tool(
        "book_table",
        "Book a table.",
        day={"type": "string", "format": "date"},
        people={"$ref": "#/$defs/People"},
    ),
    tool("ask_expert", "Ask.", input={"type": "string"}, urgency={"enum": ["low", "high"]}),
]
TOOLS[2]["function"]["parameters"]["$defs"] = {"People": {"type": "integer", "minimum": 1}}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def said(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def used(name: str, result: Any) -> list[dict[str, Any]]:
    function = {"name": name, "arguments": "{}"}
    content = result if isinstance(result, str) else json.dumps(result)
    return [
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "function": function}]},
        {"role": "tool", "tool_call_id": "c", "content": content},
    ]


def thought(*messages: dict[str, Any], task: str = "turn", **more: Any) -> Thought:
    return think({"messages": list(messages), "tools": TOOLS, **more}, task, TODAY)


def called(*messages: dict[str, Any]) -> tuple[str, Any]:
    answer = thought(*messages)
    return answer.tool, json.loads(answer.args) if answer.tool else answer.text


def test_it_asks_for_what_nobody_should_make_up() -> None:
    answer = thought(user("Refund order A-1002 please"))
    assert answer.tool == ""
    assert "tell me the amount" in answer.text
    assert called(user("Refund order A-1002"), answer_of(answer), user("20 euros")) == (
        "refund",
        {"order_id": "A-1002", "amount": 20},
    )


def answer_of(thought: Thought) -> dict[str, Any]:
    return said(thought.text)


def test_without_a_fitting_tool_it_says_what_it_is_and_what_to_try() -> None:
    answer = thought(user("Tell me a joke"))
    assert WHO in answer.text
    assert "`lookup_order`" in answer.text
    assert "Where is order" in answer.text


def test_without_messages_and_tools_it_answers_all_the_same() -> None:
    assert WHO in think({"messages": []}, "turn", TODAY).text


@pytest.mark.parametrize(
    ("result", "answer"),
    [
        ({"declined": True, "reason": "too much"}, "`refund` was not approved (too much)"),
        (
            {"declined": True, "message": 'Tool "refund" was not answered', "reason": "private"},
            "`refund` was not answered (private)",
        ),
        ({"declined": True, "expired": True}, "Nobody decided in time"),
        ("Interrupted: refund may or may not have taken effect", "may or may not have taken"),
        ("LookupError: There is no order 7.", "`refund` did not work. LookupError: There is no"),
        ("Invalid tool input: amount", "`refund` did not work. Invalid tool input: amount."),
        ("Tool refund not found", "`refund` did not work."),
    ],
)
def test_it_is_honest_about_what_did_not_work(result: Any, answer: str) -> None:
    assert answer in thought(user("Refund 40 for A-1001"), *used("refund", result)).text


def test_it_says_once_that_it_is_a_stand_in() -> None:
    first = [user("hello"), said("Hello.")]
    assert WHO in thought(user("hello")).text
    assert WHO not in thought(*first, user("hello again")).text


@pytest.mark.parametrize(
    ("text", "name", "args"),
    [
        ("Where is order A-1002?", "lookup_order", {"order_id": "A-1002"}),
        ("What's the status of my order 1234?", "lookup_order", {"order_id": "1234"}),
        ("Refund $79.90 for A-1003", "refund", {"order_id": "A-1003", "amount": 79.9}),
        ("refund order 1234, 60", "refund", {"order_id": "1234", "amount": 60}),
        ("Book a table for 4 people tomorrow", "book_table", {"day": "2026-11-22", "people": 4}),
        ("Reserve a table for two on Friday", "book_table", {"day": "2026-11-27", "people": 2}),
        ("A table on 2026-12-24, 3 guests", "book_table", {"day": "2026-12-24", "people": 3}),
        ("Ask the expert", "ask_expert", {"input": "Ask the expert", "urgency": "low"}),
    ],
)
def test_a_tool_is_called_with_what_the_text_says(
    text: str, name: str, args: dict[str, Any]
) -> None:
    assert called(user(text)) == (name, args)


def test_it_stands_for_what_was_spoken_of_before() -> None:
    before = [user("Where is order A-1002?"), said("Order A-1002 is shipped.")]
    assert called(*before, user("Refund it, 20 euros")) == (
        "refund",
        {"order_id": "A-1002", "amount": 20},
    )


def test_one_tool_a_step_and_then_the_next() -> None:
    wish = user("Where is order A-1002? And refund 20 euros of it")
    assert called(wish)[0] == "lookup_order"
    order = {"id": "A-1002", "status": "shipped"}
    assert called(wish, *used("lookup_order", order))[0] == "refund"


ELSEWHERE = [user("Where is order A-1?"), *used("lookup_order", "It is shipped."), said("Shipped.")]


def test_result_of_a_call_that_waited_is_said_although_the_conversation_went_on() -> None:
    waited = [user("Refund 40 for A-1001"), *used("refund", "Refunded 40.")]
    told = thought(*waited, *ELSEWHERE, user(HEARD)).text
    assert told.startswith("Refunded 40.")
    assert "shipped" not in told


def test_what_waited_twice_says_both_results_and_calls_nothing_again() -> None:
    wish = user("Where is order A-1002? And refund 20 euros of it")
    waited = [wish, *used("lookup_order", "It is packed."), *ELSEWHERE, user(HEARD)]
    assert called(*waited)[0] == "refund"
    again = [*used("refund", "Refunded 20."), user("hello"), said("Hello."), user(HEARD)]
    assert thought(*waited, *again).text.startswith("It is packed. Refunded 20.")


def test_words_that_only_look_like_the_note_about_a_wait_are_a_wish() -> None:
    assert called(user("Hello"), said("Hello."), user(f"{HEARD} Where is order A-7?")) == (
        "lookup_order",
        {"order_id": "A-7"},
    )
    assert thought(user(HEARD)).text


def test_results_are_said_in_a_sentence() -> None:
    order = {"id": "A-1002", "status": "shipped", "item": "shelf"}
    asked = user("Where is order A-1002?")
    told = thought(asked, *used("lookup_order", order)).text
    assert told.startswith("Order A-1002 is shipped (item shelf).")
    booked = thought(user("Book a table"), *used("book_table", {"slot": "19:00"})).text
    assert booked.startswith("`book_table` is done: slot 19:00.")


def test_it_remembers_what_it_can_see() -> None:
    memory = "<memory>\n<value>\n- Ann likes Mondays (2 days ago)\n</value>\n</memory>\n\n"
    question = user(memory + "What is my name?")
    told = thought(user("My name is Ann"), said("Hi."), question).text
    assert told.startswith("You told me: “My name is Ann” “Ann likes Mondays”")
    assert "nothing about that" in thought(user("What did I say?")).text


def test_a_block_of_memory_is_no_wish() -> None:
    assert thought(user("<memory>refund 10 for A-1</memory>\n\nhello")).tool == ""


def test_background_tasks_get_something_valid() -> None:
    assert thought(user("Where is my order A-1002 please, now?"), task="title").text == (
        "Where is my order A-1002 please"
    )
    assert json.loads(thought(user("x"), task="extractor").text) == {"entries": []}


def test_structured_output_fits_its_schema() -> None:
    schema = {
        "properties": {"n": {"type": "integer"}, "who": {"type": "string"}},
        "required": ["n", "who"],
    }
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    answer = json.loads(thought(user("go"), response_format=wanted).text)
    assert isinstance(answer["n"], int)
    assert isinstance(answer["who"], str)


@pytest.fixture
async def http() -> AsyncIterator[httpx2.AsyncClient]:
    transport = httpx2.ASGITransport(app=create_app(pause_s=0))
    async with httpx2.AsyncClient(transport=transport, base_url="http://standin/v1") as client:
        yield client


@pytest.mark.parametrize("path", ["/chat/completions", "/embeddings"])
@pytest.mark.parametrize("content", [b"", b"{oops", b"[]", b"{}"])
async def test_a_senseless_request_is_refused(
    http: httpx2.AsyncClient, path: str, content: bytes
) -> None:
    response = await http.post(path, content=content)
    assert response.status_code == 400
    assert "required" in response.json()["error"]["message"]


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/embeddings"])
async def test_client_that_leaves_in_mid_body_is_no_error_of_ours(path: str) -> None:
    arriving = [{"type": "http.request", "body": b'{"mess', "more_body": True}]
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return arriving.pop() if arriving else {"type": "http.disconnect"}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": path, "headers": [], "query_string": b""}
    await create_app(pause_s=0)(scope, receive, send)
    assert [message.get("status") for message in sent] == [400, None]


async def test_a_stream_says_the_same_as_a_plain_answer(http: httpx2.AsyncClient) -> None:
    for text in ("hello", "Refund 40 for A-1001"):
        body = {"model": "m", "messages": [user(text)], "tools": TOOLS}
        plain = await http.post("/chat/completions", json=body)
        streaming = {**body, "stream": True, "stream_options": {"include_usage": True}}
        response = await http.post("/chat/completions", json=streaming)
        events = [data for _, data in EventParser().feed(response.content)]
        assert events[-1] == "[DONE]"
        chunks = [json.loads(e) for e in events[:-1]]
        assert len(chunks) > 4
        assert assembled(*chunks) == assembled(plain.json())


def assembled(*chunks: Any) -> Reply:
    assembly = Assembly(SequentialIds(), "m")
    for chunk in chunks:
        assembly.add(chunk)
    return assembly.reply()


async def test_the_same_question_gets_the_same_answer(http: httpx2.AsyncClient) -> None:
    body = {"messages": [user("Refund 40 for A-1001")], "tools": TOOLS}
    one, other = [await http.post("/chat/completions", json=body) for _ in range(2)]
    assert one.json() == other.json()
    assert one.json()["usage"]["total_tokens"] > 0


async def test_embeddings_are_near_where_words_are_shared(http: httpx2.AsyncClient) -> None:
    texts = ["the oak bookshelf was shipped", "shipped: one oak bookshelf", "weather in Paris", ""]
    response = await http.post("/embeddings", json={"model": "e", "input": texts})
    a, b, c, blank = [item["embedding"] for item in response.json()["data"]]
    assert sum(x * y for x, y in zip(a, b, strict=True)) > 0.5
    assert abs(sum(x * y for x, y in zip(a, c, strict=True))) < 0.3
    assert all(math.isclose(sum(x * x for x in v), 1) for v in (a, b, c, blank))
    assert len(a) == 256


async def test_embeddings_come_packed_where_asked_for(http: httpx2.AsyncClient) -> None:
    body = {"model": "e", "input": "oak", "encoding_format": "base64"}
    response = await http.post("/embeddings", json=body)
    packed = base64.b64decode(response.json()["data"][0]["embedding"])
    assert list(struct.unpack("<256f", packed)) == embed_text("oak")


async def test_the_list_of_models_names_it(http: httpx2.AsyncClient) -> None:
    response = await http.get("/models")
    assert [m["id"] for m in response.json()["data"]] == ["layover-stand-in"]

"""Front ends: useChat of the AI SDK, AG-UI, EventSource and WebSockets; pages that are loaded again."""

import json
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest

from functions.sockets.routes import answer as answer_socket
from layover import Agent, Limits, tool
from layover.inmemory.table import InMemoryTable
from reports import Found, report
from reports.kit import Json, Page, Provider, calls, delta, events, in_turn, page_of, said, user
from support.inmemory.sockets import in_memory_sockets
from support.providers.odd import OddResponse

BREAKS = "a\u2028b\u2029c\x85d"
"""Line breaks of Unicode that are none of a stream."""


def answering(*answers: Any, **options: Any) -> Any:
    """A page of an agent with these tools, whose provider gives these answers."""
    world = {name: options.pop(name) for name in ("sockets", "table") if name in options}
    provider = Provider(in_turn(*(answers or (said("Hello."),))))
    return page_of(Agent("desk", model="m", **options), provider, **world)


def asked(text: str = "hello") -> Json:
    """A user's message as clients of AG-UI keep it."""
    return {"id": "m1", "role": "user", "content": text}


@tool
def look(n: int) -> str:
    """Look."""
    if n < 0:
        raise ValueError("below zero")
    return f"saw {n}"


@tool(needs_approval=True)
def pay(n: int) -> str:
    """Pay."""
    return f"paid {n}"


def at_once(*asked_for: tuple[str, str]) -> bytes:
    """An answer of several calls, each a tool and its arguments."""
    listed = [
        {
            "index": n,
            "id": f"c{n}",
            "type": "function",
            "function": {"name": name, "arguments": args},
        }
        for n, (name, args) in enumerate(asked_for)
    ]
    return events(delta({"role": "assistant", "tool_calls": listed}), delta({}, "tool_calls"))


@report("modelcontextprotocol/typescript-sdk#1926, langgenius/dify#39008", Found.MENDED)
@pytest.mark.parametrize("protocol", ["chat", "ag-ui", "events"])
def test_line_breaks_of_unicode_end_no_line_of_a_stream(protocol: str) -> None:
    """A text has U+2028, U+2029 and U+0085: each line of data is whole for clients that split at them, and
    the text arrives as it is."""
    with answering(said(BREAKS)) as page:
        if protocol == "ag-ui":
            body = {"threadId": "t", "runId": "r", "messages": [asked()]}
            text = page.whole(page.stream("POST", "/ag-ui/desk", body))
        else:
            body = {"id": "chat-1", "messages": [user("hello")], "trigger": "submit-message"}
            text = page.whole(page.stream("POST", "/chat/desk", body))
            run_id = page.loaded()[1]["id"]
        if protocol == "events":
            accept = {"Accept": "text/event-stream"}
            text = page.whole(page.stream("GET", f"/runs/{run_id}/events", **accept))
    lines = [line for line in text.splitlines() if line.startswith("data: ")]
    found = [json.loads(line[6:]) for line in lines if line != "data: [DONE]"]
    assert BREAKS in "".join(each.get("delta") or each.get("text") or "" for each in found)


@report("eclipse-ee4j/jersey#6119, ninenines/cowboy#746", Found.RIGHT)
def test_an_event_source_that_nobody_closes_stops_by_itself() -> None:
    """An `EventSource` comes back after the last event of a run that is over: it is told to stop."""
    table = InMemoryTable()
    with answering(table=table, sockets=in_memory_sockets(table=table)) as page:
        run_id = page.chat(user("hello"))[0]["messageId"]
        ticket = urlsplit(page.api.post("/socket-tickets", {"run_id": run_id}).json["url"])
        path = f"/runs/{run_id}/events?{ticket.query}"
        asks = {"Accept": "text/event-stream"}
        first = page.stream("GET", path, sub=None, **asks)
        seq = [line[4:] for line in page.whole(first).split("\n") if line.startswith("id: ")][-1]
        again = page.stream("GET", path, sub=None, **asks, **{"Last-Event-ID": seq})
        assert (first["statusCode"], again["statusCode"]) == (200, 204)


@report("friday-platform/friday-studio#309, vercel/ai#8302", Found.MENDED)
def test_calls_that_failed_or_were_denied_can_be_loaded_again() -> None:
    """Calls that failed, did not fit or were denied are loaded again with what the SDK's own check of
    messages asks for: an error its text, a denial its `approval` with the reason."""
    asks = at_once(
        ("look", '{"n": -1}'), ("look", '{"n": "x"}'), ("nope", "{}"), ("pay", '{"n": 1}')
    )
    with answering(asks, said("Done."), tools=[look, pay]) as page:
        page.chat(user("go"))
        question, answer = page.loaded()
        request = next(p for p in answer["parts"] if p.get("state") == "approval-requested")
        given = {**request["approval"], "approved": False, "reason": "paid already"}
        request |= {"state": "approval-responded", "approval": given}
        page.chat(question, answer)
        parts = [p for p in page.loaded()[1]["parts"] if p["type"].startswith("tool-")]
    assert [p["state"] for p in parts] == ["output-error"] * 3 + ["output-denied"]
    assert all(p["errorText"] and "approval" not in p for p in parts[:3])
    assert parts[3]["approval"] == given


@report("microsoft/agent-framework#4034, agentscope-ai/agentscope-java#2907", Found.RIGHT)
def test_each_result_of_ag_ui_is_a_message_by_itself() -> None:
    """An agent calls two tools at once: each result has its own message id."""
    asks = at_once(("look", '{"n": 1}'), ("look", '{"n": 2}'))
    with answering(asks, said("Done."), tools=[look]) as page:
        found = page.ag_ui(asked())
    results = {e["messageId"]: e["content"] for e in found if e["type"] == "TOOL_CALL_RESULT"}
    assert list(results.values()) == ["saw 1", "saw 2"]


@report("ag-ui-protocol/ag-ui#2416, agentscope-ai/agentscope-java#2642", Found.RIGHT)
def test_a_run_of_ag_ui_that_fails_ends_once() -> None:
    """A provider fails in the middle of a text: the text ends, then the run ends with one error, and nothing
    follows."""
    half = events(delta({"role": "assistant", "content": "The half"}), done=False)

    def broken(*_: Any) -> OddResponse:
        return OddResponse(200, "text/event-stream", [half], breaks=True)

    hasty = Agent("desk", model="m", limits=Limits(provider_patience=timedelta(0)))
    with page_of(hasty, Provider(broken)) as page:
        kinds = [event["type"] for event in page.ag_ui(asked())]
    assert kinds.count("TEXT_MESSAGE_START") == kinds.count("TEXT_MESSAGE_END") > 0
    assert [kind for kind in kinds if kind in ("RUN_ERROR", "RUN_FINISHED")] == ["RUN_ERROR"]
    assert kinds[-1] == "RUN_ERROR"


@report("ag-ui-protocol/ag-ui#142", Found.MENDED)
@pytest.mark.parametrize(
    "rest", [{}, dict.fromkeys(("tools", "context", "state", "forwardedProps"))]
)
def test_a_request_of_ag_ui_needs_nothing_that_is_not_read(rest: Json) -> None:
    """A request without tools, context, state and `forwardedProps`, or with null there, is answered."""
    with answering() as page:
        body = {"threadId": "t", "runId": "r", "messages": [asked()], **rest}
        found = page.read(page.stream("POST", "/ag-ui/desk", body))
    assert found[-1]["type"] == "RUN_FINISHED"


def frames_of(page: Page, *texts: str) -> list[Json]:
    """What a WebSocket of the page is told after it has sent these texts."""
    ports: Any = page.asked.bench.plain.sockets
    page.api.get("/threads")
    ticket = page.api.post("/socket-tickets").json["ticket"]

    async def talk() -> list[Json]:
        runtime, about = page.asked.bench.plain, {"connectionId": "c1", "requestId": "1"}
        opens = {"requestContext": {**about, "routeKey": "$connect"}}
        opens["queryStringParameters"] = {"ticket": ticket}
        assert await answer_socket(runtime, opens) == 200
        for text in texts:
            sends = {"requestContext": {**about, "routeKey": "$default"}, "body": text}
            assert await answer_socket(runtime, sends) == 200
        return [json.loads(frame) for frame in ports.sockets.frames["c1"]]

    found: list[Json] = page.do(talk())
    return found


@report(
    "hiero-ledger/hiero-json-rpc-relay#985, velocity-exchange/dlob-server#60",
    Found.RIGHT,
    held_back=True,
)
def test_a_socket_is_told_what_was_wrong_and_goes_on() -> None:
    """A socket sends what is not JSON, not a request, or about no run: it is told each time, and stays
    open."""
    unknown = {"action": "subscribe", "run_id": "run_of_nobody"}
    wrong = [
        "{",
        "[1]",
        "null",
        '"x"',
        '{"action": 7}',
        '{"action": "subscribe"}',
        json.dumps(unknown),
    ]
    table = InMemoryTable()
    with answering(table=table, sockets=in_memory_sockets("c1", table=table)) as page:
        found = frames_of(page, *wrong, '{"action": "ping"}')
    assert [frame.keys() for frame in found[:-1]] == [{"error"}] * len(wrong)
    assert {frame["error"]["status"] for frame in found[:-1]} == {400, 404, 422}
    assert found[-1] == {"action": "pong"}


@report("cloudflare/agents#790", Found.RIGHT, held_back=True)
def test_an_approved_call_is_one_part_of_one_message_after_a_reload() -> None:
    """An approval is given, and the page is loaded again: the answer is one message, and the call one part of
    it."""
    with answering(calls("pay", {"n": 1}), said("Done."), tools=[pay]) as page:
        page.chat(user("pay"))
        question, answer = page.loaded()
        request = answer["parts"][-1]
        given = {**request["approval"], "approved": True}
        request |= {"state": "approval-responded", "approval": given}
        page.chat(question, answer)
        _, again = page.loaded()
    assert again["id"] == answer["id"]
    (call,) = [p for p in again["parts"] if p["type"] == "tool-pay"]
    assert (call["state"], call["output"], call["approval"]) == (
        "output-available",
        "paid 1",
        given,
    )

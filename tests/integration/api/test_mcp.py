"""`POST /mcp`: messages of clients of the Model Context Protocol, and those that no client would send."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from integration.api.kit import Api, TestHost
from layover import Agent
from layover.values.decision import ApprovalRule
from layover.values.deployment.access import Access
from layover.values.runs.run import SuspensionKind
from support.worlds.services import ANN, BOB, ServiceBench

STATELESS = "2026-07-28"
META = "io.modelcontextprotocol/"


@pytest.fixture
def world() -> ServiceBench:
    """No request waits: nothing drives a run meanwhile."""
    world = ServiceBench()
    settings = world.runtime.settings.model_copy(update={"max_user_waits": 0})
    world.runtime = replace(world.runtime, settings=settings)
    return world


@pytest.fixture
def deployed(world: ServiceBench) -> Iterator[Api]:
    """The same with an issuer, as on AWS."""
    access = Access(issuer="https://issuer.example.com/pool", login_scope="use other")
    settings = world.runtime.settings.model_copy(
        update={"access": access, "origins": ("https://app.example.com",)}
    )
    world.runtime = replace(world.runtime, settings=settings)
    host = TestHost(world)
    yield Api(world, host)
    host.close()


def ask(api: Api, method: str, params: Any = None, **options: Any) -> Any:
    """The answer to a message."""
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}
    answer = api.post("/mcp", message, **options)
    assert answer.status == 200, answer.body
    assert answer.json["id"] == 1
    return answer.json


def call(api: Api, tool: str, arguments: Any = None, **options: Any) -> Any:
    """The result of a call."""
    meta = {"_meta": options.pop("meta")} if "meta" in options else {}
    return ask(api, "tools/call", {"name": tool, "arguments": arguments, **meta}, **options)[
        "result"
    ]


def modern(api: Api, method: str, params: Any = None, **changed: Any) -> Any:
    """The answer to a message of the stateless version. `changed`: headers, of which None takes one away."""
    meta = {f"{META}protocolVersion": STATELESS, f"{META}clientCapabilities": {}}
    params = {"_meta": meta, **(params or {})}
    headers = {"MCP-Protocol-Version": STATELESS, "Mcp-Method": method}
    if isinstance(params.get("name"), str):
        headers["Mcp-Name"] = params["name"]
    given = {n.replace("_", "-").lower(): value for n, value in changed.items()}
    sent = {n: given.pop(n.lower(), value) for n, value in headers.items()} | given
    message = {"jsonrpc": "2.0", "id": "a", "method": method, "params": params}
    headers = {n: value for n, value in sent.items() if value is not None}
    return api.post("/mcp", message, headers=headers)


def texts(result: Any) -> str:
    return "\n".join(part["text"] for part in result["content"])


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
def test_client_gets_the_version_that_it_asks_for(api: Api, version: str) -> None:
    result = ask(api, "initialize", {"protocolVersion": version, "capabilities": {}})["result"]
    assert result["protocolVersion"] == version
    assert result["capabilities"] == {"tools": {}}
    assert result["serverInfo"]["name"] == "layover"


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "1999-01-01", STATELESS])
def test_client_of_another_version_is_offered_the_newest_that_has_a_handshake(
    api: Api, version: str
) -> None:
    answer = ask(api, "initialize", {"protocolVersion": version})
    assert answer["result"]["protocolVersion"] == "2025-11-25"


def test_each_agent_is_a_tool_and_nothing_decides(api: Api) -> None:
    tools = ask(api, "tools/list")["result"]["tools"]
    assert [tool["name"] for tool in tools] == ["plain", "support", "get_run"]
    assert tools[1]["description"] == "Answers questions about orders, and pays back."
    assert tools[0]["description"] == "Sends a message to the agent plain, and returns its answer."
    assert tools[0]["inputSchema"]["required"] == ["message"]
    assert "Help." not in json.dumps(tools)


def test_agent_with_the_name_of_the_tool_that_waits_takes_it(api: Api) -> None:
    api.world.agents["get_run"] = Agent("get_run")
    names = [tool["name"] for tool in ask(api, "tools/list")["result"]["tools"]]
    assert names == ["get_run", "plain", "support", "get_run_"]
    run_id = call(api, "plain", {"message": "x"})["structuredContent"]["run_id"]
    assert call(api, "get_run_", {"run_id": run_id})["structuredContent"]["run_id"] == run_id


def test_call_starts_a_run_and_says_how_to_wait_for_it(api: Api) -> None:
    result = call(api, "support", {"message": "Where is it?"})
    facts = result["structuredContent"]
    assert (facts["status"], result["isError"]) == ("running", False)
    assert f"get_run with run_id {facts['run_id']}" in texts(result)
    assert api.get(f"/runs/{facts['run_id']}").json["input"]["content"][0]["text"] == "Where is it?"
    api.do(api.world.finish(facts["run_id"], "On its way."))
    over = call(api, "get_run", {"run_id": facts["run_id"]})
    assert over["content"][0]["text"] == "On its way."
    assert over["structuredContent"]["status"] == "success"


def test_call_goes_on_in_the_thread_that_it_names(api: Api) -> None:
    first = call(api, "support", {"message": "Where is it?"})["structuredContent"]
    api.do(api.world.finish(first["run_id"]))
    more = call(api, "support", {"message": "And when?", "thread_id": first["thread_id"]})
    assert more["structuredContent"]["thread_id"] == first["thread_id"]
    assert more["structuredContent"]["run_id"] != first["run_id"]


def test_call_in_a_busy_thread_names_the_run_that_is_at_work(api: Api) -> None:
    first = call(api, "support", {"message": "Where is it?"})["structuredContent"]
    busy = call(api, "support", {"message": "And when?", "thread_id": first["thread_id"]})
    assert busy["isError"] is True
    assert f"get_run with run_id {first['run_id']}" in texts(busy)


def test_call_that_is_repeated_with_its_key_is_the_same_run(api: Api) -> None:
    meta = {"layover/idempotency-key": "k1"}
    first = call(api, "support", {"message": "Pay."}, meta=meta)["structuredContent"]
    again = call(api, "support", {"message": "Pay."}, meta=meta)["structuredContent"]
    assert again == first
    other = call(api, "support", {"message": "Pay twice."}, meta=meta)
    assert other["isError"] is True
    assert call(api, "support", {"message": "Pay."}, meta=meta, sub=BOB)["isError"] is False
    for sub, count in ((ANN, 1), (BOB, 1)):
        assert len(api.get("/threads", sub=sub).json["items"]) == count


@pytest.mark.parametrize("key", ["", "x" * 256, 7, ["k"]])
def test_key_of_another_shape_starts_nothing(api: Api, key: Any) -> None:
    meta = {"layover/idempotency-key": key}
    params = {"name": "support", "arguments": {"message": "x"}, "_meta": meta}
    assert ask(api, "tools/call", params)["error"]["code"] == -32602
    assert api.get("/threads").json["items"] == []


def test_run_that_waits_says_where_its_user_decides(deployed: Api) -> None:
    run, _ = deployed.do(deployed.world.suspended())
    event_host = {"host": "api.example.com"}
    result = call(deployed, "get_run", {"run_id": run.id}, headers=event_host)
    facts = result["structuredContent"]
    assert facts["waits_for"] == [{"tool": "refund", "kind": "approval"}]
    assert facts["url"] == f"https://api.example.com/#/t/{run.thread_id}"
    assert facts["url"] in texts(result)
    assert "No tool here can decide it" in texts(result)


def test_run_that_waits_for_others_names_their_groups(deployed: Api) -> None:
    rule = ApprovalRule(by=("finance",))
    run, _ = deployed.do(deployed.world.suspended(SuspensionKind.APPROVAL, approval=rule))
    result = call(deployed, "get_run", {"run_id": run.id}, headers={"host": "api.example.com"})
    assert "for members of finance to decide" in texts(result)
    assert "The user decides" not in texts(result)
    assert result["structuredContent"]["waits_for"][0]["decided_by"] == ["finance"]


# Of others


@pytest.mark.parametrize("tool", ["get_run", "support"])
def test_what_is_anothers_is_answered_as_what_is_nowhere(api: Api, tool: str) -> None:
    run = api.do(api.world.run(api.do(api.world.thread(BOB)).id, owner=BOB))
    theirs = {"get_run": {"run_id": run.id}, "support": {"thread_id": run.thread_id}}[tool]
    nowhere = {name: f"{id[:-1]}x" for name, id in theirs.items()}
    message = {"message": "x"} if tool == "support" else {}
    first, second = (call(api, tool, {**message, **each}) for each in (theirs, nowhere))
    assert first == second
    assert first["isError"] is True
    assert first["content"][0]["text"].startswith("there is no such")


def test_state_of_anothers_call_is_answered_as_of_none(api: Api) -> None:
    run = api.do(api.world.run(api.do(api.world.thread(BOB)).id, owner=BOB))
    answers = []
    for state in (run.id, "run_nowhere", "x" * 3000, "../x"):
        params = {
            "name": "support",
            "arguments": {"message": "x"},
            "requestState": state,
            "inputResponses": {"decision": {"action": "accept"}},
        }
        answers.append(ask(api, "tools/call", params)["result"])
    assert answers[0]["isError"] is True
    assert all(each == answers[0] for each in answers)


# What the client's model can mend


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("support", {}, "message is missing"),
        ("support", None, "message is missing"),
        ("support", {"mesage": "x"}, "did you mean 'message'?"),
        ("support", {"message": 7}, "message has to be a text"),
        ("support", {"message": None}, "message has to be a text"),
        ("support", {"message": {"text": "x"}}, "message has to be a text"),
        ("support", {"message": " \n"}, "empty"),
        ("support", {"message": "x" * 1_100_000}, "larger"),
        ("support", {"message": "x", "thread_id": 7}, "thread_id has to be a text"),
        ("support", {"message": "x", "thread_id": "new"}, "there is no such thread"),
        ("support", {"message": "x", "thread_id": "thread_" + "x" * 5000}, "there is no such"),
        ("get_run", {"run_id": ""}, "there is no such run"),
        ("get_run", {"run_id": "run_\x00"}, "there is no such run"),
        ("get_run", {"message": "x"}, "no argument 'message'"),
    ],
)
def test_arguments_that_do_not_fit_are_an_error_that_a_model_reads(
    api: Api, tool: str, arguments: Any, says: str
) -> None:
    result = call(api, tool, arguments)
    assert result["isError"] is True
    assert says in texts(result)
    assert api.get("/threads").json["items"] == []


def test_thread_of_another_agent_is_refused(api: Api) -> None:
    first = call(api, "support", {"message": "x"})["structuredContent"]
    result = call(api, "plain", {"message": "x", "thread_id": first["thread_id"]})
    assert result["isError"] is True


def test_message_with_half_a_character_is_taken(api: Api) -> None:
    text = json.dumps(
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "plain", "arguments": {"message": "\ud800 hello"}},
        }
    )
    assert api.post("/mcp", text=text).json["result"]["isError"] is False


# Errors of the protocol


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("nowhere", {}, -32601),
        ("resources/list", {}, -32601),
        ("tools/approve", {}, -32601),
        ("server/discover", {}, -32601),
        ("tools/call", {"name": "nobody"}, -32602),
        ("tools/call", {"name": 7}, -32602),
        ("tools/call", {}, -32602),
        ("tools/call", {"name": "plain", "arguments": []}, -32602),
        ("tools/call", {"name": "plain", "requestState": 7}, -32602),
        ("tools/call", {"name": "plain", "inputResponses": {}}, -32602),
        ("tools/list", {"cursor": "x"}, -32602),
        ("initialize", {}, -32602),
        ("initialize", {"protocolVersion": 7}, -32602),
    ],
)
def test_request_that_means_nothing_gets_its_error(
    api: Api, method: str, params: Any, code: int
) -> None:
    assert ask(api, method, params)["error"]["code"] == code


def test_name_that_is_nearly_right_is_named(api: Api) -> None:
    answer = ask(api, "tools/call", {"name": "suport", "arguments": {"message": "x"}})
    assert "did you mean 'support'?" in answer["error"]["message"]


@pytest.mark.parametrize("id", [0, -1, 2**63, "x", "", "✓"])
def test_answer_has_the_id_of_its_request(api: Api, id: Any) -> None:
    answer = api.post("/mcp", {"jsonrpc": "2.0", "id": id, "method": "ping"})
    assert answer.json == {"jsonrpc": "2.0", "id": id, "result": {}}


@pytest.mark.parametrize("id", [None, 1.5, True, [], {}, [1], "x" * 257])
def test_id_that_no_answer_could_name_is_refused(api: Api, id: Any) -> None:
    answer = api.post("/mcp", {"jsonrpc": "2.0", "id": id, "method": "ping"})
    answer.problem(422, "invalid-request")


@pytest.mark.parametrize(
    "body",
    [
        [],
        [{"jsonrpc": "2.0", "id": 1, "method": "ping"}],
        "ping",
        7,
        {},
        {"jsonrpc": "1.0", "id": 1, "method": "ping"},
        {"id": 1, "method": "ping"},
        {"jsonrpc": "2.0", "id": 1},
        {"jsonrpc": "2.0", "id": 1, "result": {}},
        {"jsonrpc": "2.0", "id": 1, "method": 7},
        {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []},
        {"jsonrpc": "2.0", "id": 1, "method": "x" * 257},
    ],
)
def test_body_that_is_not_one_message_is_refused(api: Api, body: Any) -> None:
    api.post("/mcp", body).problem(422, "invalid-request")


def test_body_that_is_not_json_or_too_deep_or_too_large_is_refused(api: Api) -> None:
    api.post("/mcp", text="{").problem(400, "malformed-body")
    deep = '{"jsonrpc":"2.0","id":1,"method":"ping","params":' + '{"a":' * 5000 + "1" + "}" * 5001
    assert api.post("/mcp", text=deep).status in (400, 422)
    large = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping", "x": "x" * 5_300_000})
    api.post("/mcp", text=large).problem(413, "too-large")
    twice = '{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/list"}'
    api.post("/mcp", text=twice).problem(422, "invalid-request")


@pytest.mark.parametrize("method", ["notifications/initialized", "notifications/x", "tools/call"])
def test_notification_is_taken_and_does_nothing(api: Api, method: str) -> None:
    params = {"name": "plain", "arguments": {"message": "x"}}
    answer = api.post("/mcp", {"jsonrpc": "2.0", "method": method, "params": params})
    assert (answer.status, answer.body) == (202, "")
    assert api.get("/threads").json["items"] == []


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_there_are_neither_streams_nor_sessions(api: Api, method: str) -> None:
    answer = api.send(method, "/mcp", headers={"Accept": "text/event-stream"})
    answer.problem(405, "method-not-allowed")
    assert answer.headers["allow"] == "POST"


def test_request_without_a_token_is_told_that_it_needs_one(api: Api) -> None:
    answer = api.post("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "ping"}, sub=None)
    answer.problem(401, "unauthenticated")
    assert answer.headers["www-authenticate"] == "Bearer"


# Versions


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25", None])
def test_version_of_a_handshake_is_taken(api: Api, version: str | None) -> None:
    headers = {"MCP-Protocol-Version": version} if version else {}
    assert ask(api, "ping", headers=headers)["result"] == {}


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "9999-01-01", "", "2026-07-28,x"])
def test_version_that_is_not_served_is_refused_with_those_that_are(api: Api, version: str) -> None:
    headers = {"MCP-Protocol-Version": version}
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    answer = api.post("/mcp", ping, headers=headers)
    assert (answer.status, answer.json["error"]["code"]) == (400, -32022)
    assert answer.json["error"]["data"]["supported"] == ["2025-06-18", "2025-11-25", STATELESS]
    del ping["id"]
    assert api.post("/mcp", ping, headers=headers).status == 400


def test_stateless_client_learns_of_the_server_and_its_tools(api: Api) -> None:
    about = modern(api, "server/discover").json["result"]
    assert STATELESS in about["supportedVersions"]
    assert about["resultType"] == "complete"
    listed = modern(api, "tools/list").json["result"]
    assert [tool["name"] for tool in listed["tools"]] == ["plain", "support", "get_run"]
    assert (listed["ttlMs"], listed["cacheScope"]) == (0, "private")


@pytest.mark.parametrize(
    ("params", "headers", "code"),
    [
        ({"_meta": {}}, {}, -32602),
        ({"_meta": 7}, {}, -32602),
        ({"_meta": {f"{META}protocolVersion": STATELESS}}, {}, -32602),
        ({}, {"mcp_method": None}, -32020),
        ({}, {"mcp_method": "ping"}, -32020),
        ({"name": "plain"}, {"mcp_name": "support"}, -32020),
        ({"name": "plain"}, {"mcp_name": None}, -32020),
        ({"name": "plain"}, {"mcp_name": "=?base64?!?="}, -32020),
        ({"name": "plain"}, {"mcp_name": "plain,plain"}, -32020),
        (
            {
                "_meta": {
                    f"{META}protocolVersion": "2025-11-25",
                    f"{META}clientCapabilities": {},
                }
            },
            {},
            -32020,
        ),
    ],
)
def test_stateless_request_whose_parts_disagree_is_refused(
    api: Api, params: Any, headers: Any, code: int
) -> None:
    arguments = {"arguments": {"message": "x"}}
    answer = modern(api, "tools/call", {**arguments, **params}, **headers)
    assert (answer.status, answer.json["error"]["code"]) == (400, code)
    assert api.get("/threads").json["items"] == []


def test_header_in_base64_is_read(api: Api) -> None:
    params = {"name": "plain", "arguments": {"message": "x"}}
    answer = modern(api, "tools/call", params, mcp_name="=?base64?cGxhaW4=?=")
    assert answer.json["result"]["isError"] is False


@pytest.mark.parametrize("method", ["initialize", "ping", "nowhere"])
def test_stateless_client_has_no_handshake(api: Api, method: str) -> None:
    answer = modern(api, method)
    assert (answer.status, answer.json["error"]["code"]) == (404, -32601)


# Pages


@pytest.mark.parametrize("origin", ["https://api.example.com", "https://app.example.com"])
def test_pages_of_the_api_and_of_its_own_origins_may_ask(deployed: Api, origin: str) -> None:
    headers = {"Origin": origin, "Host": "api.example.com"}
    assert ask(deployed, "ping", headers=headers)["result"] == {}


@pytest.mark.parametrize(
    "origin", ["https://evil.example.com", "null", "", "http://api.example.com", "https://app"]
)
def test_foreign_page_is_refused(deployed: Api, origin: str) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    headers = {"Origin": origin, "Host": "api.example.com"}
    deployed.post("/mcp", body, headers=headers).problem(403, "wrong-origin")


# Where tokens come from


def test_client_without_a_token_finds_out_who_gives_them(deployed: Api) -> None:
    path = "/.well-known/oauth-protected-resource/mcp"
    answer = deployed.get(path, sub=None, headers={"Host": "api.example.com"})
    assert answer.json == {
        "resource": "https://api.example.com/mcp",
        "authorization_servers": ["https://issuer.example.com/pool"],
        "scopes_supported": ["use", "other"],
        "bearer_methods_supported": ["header"],
        "resource_name": "Layover",
    }


def test_one_machine_names_nobody_who_gives_tokens(api: Api) -> None:
    path = "/.well-known/oauth-protected-resource/mcp"
    api.get(path, sub=None, headers={"Host": "api.example.com"}).problem(404, "not-found")

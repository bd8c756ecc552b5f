"""The description of the API. That answers keep to it is checked with every call of the other tests."""

from openapi_spec_validator import OpenAPIV31SpecValidator

from support.system.system import Caller, System

CONTRACT = {
    ("get", "/healthz"),
    ("get", "/agents"),
    ("post", "/threads"),
    ("get", "/threads"),
    ("get", "/threads/{thread_id}"),
    ("patch", "/threads/{thread_id}"),
    ("delete", "/threads/{thread_id}"),
    ("get", "/threads/{thread_id}/messages"),
    ("post", "/threads/{thread_id}/runs"),
    ("get", "/threads/{thread_id}/runs"),
    ("get", "/runs/{run_id}"),
    ("get", "/runs/{run_id}/events"),
    ("post", "/runs/{run_id}/cancel"),
    ("get", "/approvals"),
    ("post", "/runs/{run_id}/tool-calls/{tool_call_id}/approve"),
    ("post", "/runs/{run_id}/tool-calls/{tool_call_id}/deny"),
    ("post", "/runs/{run_id}/tool-calls/{tool_call_id}/resume"),
    ("post", "/socket-tickets"),
}


def test_the_document_is_valid_openapi_3_1(system: System) -> None:
    document = system.documented.document
    assert document["openapi"].startswith("3.1")
    errors = list(OpenAPIV31SpecValidator(document).iter_errors())
    assert not errors


def test_every_call_is_described_once(system: System) -> None:
    paths = system.documented.document["paths"]
    described = {(method, path) for path, item in paths.items() for method in item}
    assert described >= CONTRACT
    ids = [o["operationId"] for item in paths.values() for o in item.values()]
    assert len(set(ids)) == len(ids)


def test_the_agents_are_listed_with_their_tools(ann: Caller) -> None:
    agents = {a["name"]: a for a in ann.get("/agents")["items"]}
    assert agents.keys() >= {"support", "wide", "plain", "clerk"}
    tools = {t["name"]: t for t in agents["support"]["tools"]}
    assert tools["refund"] == {"name": "refund", "description": "Pay back.", "needs_approval": True}
    assert tools["look_up"]["needs_approval"] is False
    assert agents["plain"]["tools"] == []

"""The document that describes the API, and the page that shows it."""

import re
from typing import Any

from openapi_spec_validator import OpenAPIV31SpecValidator

from integration.api.kit import Api

CALLS = {
    ("get", "/healthz"),
    ("get", "/.well-known/layover"),
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
    ("post", "/runs/{run_id}/redrive"),
    ("get", "/approvals"),
    ("post", "/runs/{run_id}/tool-calls/{tool_call_id}/approve"),
    ("post", "/runs/{run_id}/tool-calls/{tool_call_id}/deny"),
    ("post", "/runs/{run_id}/tool-calls/{tool_call_id}/resume"),
    ("get", "/memory/profile"),
    ("put", "/memory/profile"),
    ("delete", "/memory/profile"),
    ("get", "/memory/entries"),
    ("delete", "/memory/entries/{entry_id}"),
    ("get", "/threads/{thread_id}/memory"),
    ("post", "/files"),
    ("get", "/files/{file_id}"),
    ("get", "/runs/{run_id}/tool-calls/{tool_call_id}/result"),
    ("post", "/socket-tickets"),
    ("get", "/me/export"),
    ("delete", "/me"),
}


def operations(spec: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(m, path): o for path, item in spec["paths"].items() for m, o in item.items()}


def references(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if "$ref" in value else set()
        return own.union(*(references(v) for v in value.values()))
    return set().union(*(references(v) for v in value)) if isinstance(value, list) else set()


def test_the_document_is_valid_openapi_3_1(api: Api) -> None:
    spec = api.get("/openapi.json", sub=None).json
    assert list(OpenAPIV31SpecValidator(spec).iter_errors()) == []
    ids = [o["operationId"] for o in operations(spec).values()]
    assert len(set(ids)) == len(ids)


def test_every_call_is_described_with_what_it_answers(api: Api) -> None:
    spec = api.get("/openapi.json", sub=None).json
    assert spec["openapi"].startswith("3.1")
    found = operations(spec)
    assert found.keys() == CALLS
    for call, operation in found.items():
        assert operation["tags"], call
        assert operation["operationId"], call
        good = [c for c in operation["responses"] if c < "400"]
        assert good, call
        for code in good:
            assert code in ("204", "302", "303") or operation["responses"][code]["content"], call


def test_every_error_is_a_problem_document(api: Api) -> None:
    spec = api.get("/openapi.json", sub=None).json
    for call, operation in operations(spec).items():
        for code, response in operation["responses"].items():
            if code >= "400":
                assert list(response["content"]) == ["application/problem+json"], (call, code)


def test_everything_but_health_needs_a_bearer_token(api: Api) -> None:
    spec = api.get("/openapi.json", sub=None).json
    assert spec["security"] == [{"bearer": []}]
    assert spec["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"
    free = {path for (_, path), o in operations(spec).items() if o.get("security") == []}
    assert free == {"/healthz", "/.well-known/layover"}


def test_every_reference_leads_somewhere(api: Api) -> None:
    spec = api.get("/openapi.json", sub=None).json
    schemas = spec["components"]["schemas"]
    assert {r.rsplit("/", 1)[1] for r in references(spec)} <= schemas.keys()
    assert "total_tokens" in schemas["Usage"]["properties"]
    assert "model_output" not in schemas["Message"]["properties"]


def test_the_docs_ask_no_other_host(api: Api) -> None:
    answer = api.get("/docs", sub=None)
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/html")
    assert not re.search(r"<(script|link)[^>]+(src|href)\s*=", answer.body)

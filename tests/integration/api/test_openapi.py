"""The document that describes the API, and the page that shows it."""

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

from functions.api.console.assets import assets
from functions.api.words import EXAMPLES, FIELDS, HEADERS
from integration.api.kit import Api
from layover.desk.cdk.settings import Settings
from layover.values.deployment.access import DECIDE_METHODS, OPEN_PATHS, OPEN_POSTS

ROOT = Path(__file__).parents[3]
DAY_S = 86_400
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
    ("post", "/runs/{run_id}/messages"),
    ("post", "/runs/{run_id}/cancel"),
    ("post", "/runs/{run_id}/feedback"),
    ("delete", "/runs/{run_id}/feedback"),
    ("get", "/feedback"),
    ("post", "/runs/{run_id}/redrive"),
    ("get", "/approvals"),
    ("post", "/approvals/decisions"),
    ("post", "/channels/slack"),
    ("get", "/decide/{token}"),
    ("post", "/decide/{token}"),
    ("get", "/audit/decisions"),
    ("get", "/audit/operations"),
    ("get", "/operate/runs"),
    ("get", "/operate/runs/{run_id}"),
    ("get", "/operate/runs/{run_id}/steps/{number}"),
    ("get", "/operate/summary"),
    ("post", "/operate/runs/cancel"),
    ("post", "/operate/runs/redrive"),
    ("post", "/operate/runs/deny"),
    ("get", "/operate/switch"),
    ("put", "/operate/switch"),
    ("delete", "/operate/switch"),
    ("get", "/operate/limits"),
    ("post", "/operate/users/erase"),
    ("post", "/runs/{run_id}/tool-calls/{tool_call_id}/approve"),
    ("post", "/runs/{run_id}/tool-calls/{tool_call_id}/deny"),
    ("post", "/runs/{run_id}/tool-calls/{tool_call_id}/resume"),
    ("post", "/runs/{run_id}/tool-calls/{tool_call_id}/extend"),
    ("get", "/memory/profile"),
    ("put", "/memory/profile"),
    ("delete", "/memory/profile"),
    ("get", "/memory/entries"),
    ("post", "/memory/entries"),
    ("patch", "/memory/entries/{entry_id}"),
    ("delete", "/memory/entries/{entry_id}"),
    ("post", "/memory/entries/{entry_id}/restore"),
    ("get", "/threads/{thread_id}/memory"),
    ("post", "/files"),
    ("get", "/files/{file_id}"),
    ("get", "/runs/{run_id}/tool-calls/{tool_call_id}"),
    ("get", "/runs/{run_id}/tool-calls/{tool_call_id}/result"),
    ("post", "/socket-tickets"),
    ("post", "/chat/{agent}"),
    ("get", "/chat/{agent}/{chat_id}/stream"),
    ("get", "/chat/{agent}/{chat_id}/messages"),
    ("post", "/ag-ui/{agent}"),
    ("post", "/mcp"),
    ("get", "/.well-known/oauth-protected-resource/mcp"),
    ("get", "/usage"),
    ("get", "/me/connections"),
    ("post", "/me/connections/{name}"),
    ("delete", "/me/connections/{name}"),
    ("post", "/me/consents"),
    ("get", "/me/export"),
    ("get", "/me/exports"),
    ("get", "/me/exports/{export_id}"),
    ("delete", "/me"),
}

OTHERS_ELSEWHERE = {
    *(
        "by",
        "content",
        "data",
        "error",
        "id",
        "items",
        "kind",
        "messages",
        "metadata",
        "model",
        "name",
    ),
    *("output", "payload", "role", "status", "summary", "text", "title", "tools", "type", "usage"),
}
"""Names that mean other things in other schemas, whose own words say what."""


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
            # 202 of MCP: a notification has no answer.
            has_body = code not in ("204", "302", "303") and (call[1], code) != ("/mcp", "202")
            assert bool(operation["responses"][code]["content"]) == has_body, (call, code)
    streams = {call for call, operation in found.items() if "204" in operation["responses"]}
    assert {("get", "/runs/{run_id}/events"), ("get", "/chat/{agent}/{chat_id}/stream")} <= streams


def test_every_error_is_a_problem_document(api: Api) -> None:
    spec = api.get("/openapi.json", sub=None).json
    for call, operation in operations(spec).items():
        for code, response in operation["responses"].items():
            if code >= "400":
                kinds = {"application/problem+json"}
                if call[1] == "/mcp" and code in ("400", "404"):
                    kinds.add("application/json")  # JSON-RPC has errors of its own
                if call == ("get", "/decide/{token}") and code == "404":
                    kinds.add("text/html")  # the page, for browsers
                assert response["content"].keys() == kinds, (call, code)


def test_everything_but_health_needs_a_bearer_token(api: Api) -> None:
    spec = api.get("/openapi.json", sub=None).json
    assert spec["security"] == [{"bearer": []}]
    assert spec["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"
    free = {path for (_, path), o in operations(spec).items() if o.get("security") == []}
    assert free == {
        "/healthz",
        "/channels/slack",
        "/.well-known/layover",
        "/.well-known/oauth-protected-resource/mcp",
        "/decide/{token}",
    }


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
    assert not re.search(r"<script|<link|\b(src|url)\s*[=(]|@import", answer.body)
    assert set(re.findall(r'href="([^"]*)"', answer.body)) == {"openapi.json"}


def test_the_docs_are_small_and_show_every_call(api: Api) -> None:
    page = api.get("/docs", sub=None).body
    assert len(page) < 248_000
    for method, path in CALLS:
        assert f"<b>{method.upper()}</b> <code>{path}</code>" in page
    for name in api.get("/openapi.json", sub=None).json["components"]["schemas"]:
        assert f"<summary><code>{name}</code></summary>" in page


def test_the_docs_show_what_the_document_quotes_as_code(api: Api) -> None:
    """Descriptions are Markdown, of which they use only this."""
    page = re.sub(r"<pre>.*?</pre>", "", api.get("/docs", sub=None).body, flags=re.DOTALL)
    assert "With <code>Prefer: wait=N</code> (N at most 25) it waits" in page
    assert "`" not in page
    assert not re.search(r"\*\*|\]\(|^[-#] ", page, re.MULTILINE)


@pytest.mark.parametrize("path", ["/", "/docs", "/openapi.json"])
def test_what_everybody_may_ask_is_kept_by_clients_and_sent_compressed(api: Api, path: str) -> None:
    first = api.get(path, sub=None)
    assert first.headers["cache-control"] == "public, max-age=300"
    tag = first.headers["etag"]
    for known in (tag, tag.removeprefix("W/"), f'"other", {tag}'):
        again = api.get(path, sub=None, headers={"If-None-Match": known})
        assert (again.status, again.body, again.headers["etag"]) == (304, "", tag)
    assert api.get(path, sub=None, headers={"If-None-Match": '"other"'}).body == first.body
    small = api.get(path, sub=None, headers={"Accept-Encoding": "gzip"})
    assert small.headers["content-encoding"] == "gzip"


def test_costs_page_counts_what_strangers_may_ask_for(api: Api) -> None:
    """Its worst case: each open path as often as it answers, all day."""
    page = (ROOT / "docs" / "deploy" / "costs.md").read_text()
    named = re.search(
        r"^\((\d+) . 172,800 \+ (\d+) . 864,000\) requests.*\n172,800 . \(([\d +]+)\) KB",
        page,
        re.MULTILINE,
    )
    assert named
    links = len(OPEN_POSTS) + len(DECIDE_METHODS)
    assert (int(named[1]), f"{Settings().open_rate * DAY_S:,}") == (len(OPEN_PATHS) + 1, "172,800")
    assert (int(named[2]), f"{Settings().link_rate * DAY_S:,}") == (links, "864,000")
    assert page.count(f"\n{Settings().api_rate * DAY_S:,} ") == 2
    sent = {path: len(api.get(path, sub=None).body.encode()) for path in OPEN_PATHS}
    sent |= {path: len(api.post(path, sub=None).body.encode()) for path in OPEN_POSTS}
    sent["the console's"] = max(len(asset.text.encode()) for asset in assets().values())
    counted = sum(int(size) for size in named[3].split("+")) * 1000
    assert sum(sent.values()) == pytest.approx(counted, rel=0.1), sent


def test_a_deployment_without_docs_has_no_such_page_and_names_none(api: Api) -> None:
    assert 'href="docs"' in api.get("/", sub=None).body
    settings = api.world.runtime.settings.model_copy(update={"docs": False})
    api.world.runtime = replace(api.world.runtime, settings=settings)
    api.get("/docs", sub=None).problem(404, "not-found")
    assert "docs" not in api.get("/", sub=None).body
    assert api.get("/openapi.json", sub=None).status == 200


def schemas(value: Any) -> list[dict[str, Any]]:
    """Every object of the document."""
    if isinstance(value, list):
        return [s for each in value for s in schemas(each)]
    if not isinstance(value, dict):
        return []
    return [value, *(s for each in value.values() for s in schemas(each))]


def permits(spec: dict[str, Any], schema: dict[str, Any], value: Any) -> bool:
    """Return whether the document lets the value pass."""
    return Draft202012Validator({**schema, "components": spec["components"]}).is_valid(value)


def test_no_schema_has_a_default(api: Api) -> None:
    # A generated client takes what has one for always there, in requests as well.
    spec = api.get("/openapi.json", sub=None).json
    assert [s for s in schemas(spec) if "default" in s] == []


def test_every_parameter_says_what_it_is(api: Api) -> None:
    spec = api.get("/openapi.json", sub=None).json
    silent = [
        (call, parameter["name"])
        for call, operation in operations(spec).items()
        for parameter in operation.get("parameters", ())
        if not parameter.get("description")
    ]
    assert silent == []


def test_headers_are_spelled_as_their_documents_spell_them(api: Api) -> None:
    """Generated clients take them letter by letter."""
    spec = api.get("/openapi.json", sub=None).json
    parameters = [p for o in operations(spec).values() for p in o.get("parameters", ())]
    assert {p["name"] for p in parameters if p["in"] == "header"} == set(HEADERS)


def test_every_body_has_an_example_that_the_document_permits(api: Api) -> None:
    spec = api.get("/openapi.json", sub=None).json
    examples = {}
    for operation in operations(spec).values():
        for media in operation.get("requestBody", {}).get("content", {}).values():
            examples[operation["operationId"]] = media["example"]
            assert permits(spec, media["schema"], media["example"]), operation["operationId"]
    assert examples == EXAMPLES


def has_words(field: dict[str, Any]) -> bool:
    """Return whether a field, or a form of it, is described."""
    return any(each.get("description") for each in (field, *field.get("anyOf", ())))


def test_fields_that_many_schemas_share_are_described(api: Api) -> None:
    named = api.get("/openapi.json", sub=None).json["components"]["schemas"]
    fields = [each for s in named.values() for each in s.get("properties", {}).items()]
    shared = {name for name, count in Counter(name for name, _ in fields).items() if count > 3}
    assert shared - FIELDS.keys() - OTHERS_ELSEWHERE <= {
        n for n, field in fields if has_words(field)
    }
    assert FIELDS.keys() <= {name for name, _ in fields}
    assert [name for name, field in fields if name in FIELDS and not has_words(field)] == []
    assert [name for name, field in fields if "title" in field] == []


def test_fields_that_are_always_in_an_answer_are_required(api: Api) -> None:
    named = api.get("/openapi.json", sub=None).json["components"]["schemas"]
    optional = named["Run"]["properties"].keys() - set(named["Run"]["required"])
    assert optional == {"feedback", "truncated", "waiting_for"}
    assert {"items", "next_cursor"} == set(named["Page_Thread_"]["required"])
    assert named["NewThread"]["required"] == ["agent"]
    assert named["NewRun"]["required"] == ["input"]
    assert named["TextPart"]["required"] == ["type", "text"]


RUN = "/threads/{thread_id}/runs"
CALL = "/runs/{run_id}/tool-calls/{tool_call_id}"
FILE = {"name": "a.txt", "mime_type": "text/plain", "size": 1}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("post", "/threads", {"agent": ""}),
        ("post", "/threads", {"agent": "support", "title": "x" * 501}),
        ("post", RUN, {"input": ""}),
        ("post", RUN, {"input": []}),
        ("post", RUN, {"input": [{"type": "text", "text": ""}]}),
        ("post", RUN, {"input": [{"text": "hello"}]}),
        ("post", RUN, {"input": [{"type": "data", "name": "a", "data": 1}]}),
        ("post", RUN, {"input": [{"type": "file"}]}),
        ("post", RUN, {"input": [{"type": "file", "file_id": "f", "url": "https://a.b/c"}]}),
        ("post", RUN, {"input": [{"type": "file", "url": "http://a.b/c"}]}),
        ("post", f"{CALL}/approve", None),
        ("post", f"{CALL}/approve", {"attempt": 1.5}),
        ("post", f"{CALL}/deny", {"attempt": 1, "reason": "x" * 10_001}),
        ("post", "/files", {**FILE, "name": ""}),
        ("post", "/files", {**FILE, "name": " "}),
        ("post", "/files", {**FILE, "mime_type": ""}),
        ("post", "/files", {**FILE, "mime_type": "example/x"}),
        ("post", "/files", {**FILE, "size": 2**40}),
    ],
)
def test_bodies_that_are_refused_are_refused_by_the_document(
    api: Api, method: str, path: str, body: Any
) -> None:
    run, _ = api.do(api.world.suspended())
    url = path.format(thread_id=run.thread_id, run_id=run.id, tool_call_id="c1")
    text = "null" if body is None else None
    assert api.send(method.upper(), url, body, text=text).status in (413, 422)
    spec = api.get("/openapi.json", sub=None).json
    content = spec["paths"][path][method]["requestBody"]["content"]
    assert not permits(spec, content["application/json"]["schema"], body)


@pytest.mark.parametrize(
    ("path", "name", "value"),
    [
        ("/agents", "cursor", ""),
        ("/threads", "cursor", ""),
        ("/approvals", "cursor", "%"),
        ("/memory/entries?agent=support", "cursor", ""),
        ("/memory/entries", "agent", ""),
        ("/memory/profile", "agent", ""),
        ("/memory/profile", "agent", "no such name"),
    ],
)
def test_parameters_that_are_refused_are_refused_by_the_document(
    api: Api, path: str, name: str, value: str
) -> None:
    path, _, query = path.partition("?")
    asked = api.get(f"{path}?{query}&{urlencode({name: value})}")
    asked.problem(422, "invalid-request")
    spec = api.get("/openapi.json", sub=None).json
    parameters = spec["paths"][path]["get"]["parameters"]
    schema = next(p["schema"] for p in parameters if p["name"] == name)
    assert not permits(spec, schema, value)
    assert not permits(spec, schema, None)


@pytest.mark.parametrize("number", [1, 1.0])
def test_a_number_without_a_fraction_is_a_whole_one(api: Api, number: float) -> None:
    run, _ = api.do(api.world.suspended())
    thread = api.post("/threads", {"agent": "support"}).json["id"]
    call = f"/runs/{run.id}/tool-calls/c1"
    for url, body in (
        ("/files", {**FILE, "size": number}),
        (f"/threads/{thread}/runs", {"input": "x", "max_iterations": number}),
        (f"{call}/approve", {"attempt": number, "reason": "\ud800"}),
    ):
        assert api.post(url, body).status in (201, 202)
        wrong = {k: True if v is number else v for k, v in body.items()}
        api.post(url, wrong).problem(422, "invalid-request")

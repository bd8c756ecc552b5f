"""The console's page speaks the API as the OpenAPI document describes it.

Paths, methods, queries, bodies, fields and types of events are read from the page's source, so that what no
browser test comes by is held as well."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from functions.api.console.assets import FOLDER
from integration.api.kit import Api

Json = dict[str, Any]
METHODS = {
    "get": "get",
    "all": "get",
    "useItems": "get",
    "post": "post",
    "patch": "patch",
    "put": "put",
} | {"remove": "delete"}
_CALL = re.compile(
    r'(?<![\w.])(get|all|useItems|post|patch|put|remove|send)\((?:"([A-Z]+)", )?([`"])(.*?)\3(?:, (\{.*?\}))?'
)
_USES = re.compile(
    r"(?<![\w.])(?:get|all|useItems|post|patch|put|remove|send)\((?![^)]*\) =>)(?=[`\"p])"
)
_CONST = r"(?:const|let) {} = ([^;]*);"
_HOLE = re.compile(r"\$\{([^{}]*)\}")
_LITERAL = re.compile(r"[`\"]([^`\"]*)[`\"]")
_QUERY = re.compile(r"[?&](\w+)=")
_FIELD = re.compile(r"\b[a-z]+(?:_[a-z]+)+\b")
_EVENT = re.compile(
    r'event\.type === "([a-z-]+)"|case "([a-z-]+)":|^  "?([a-z-]+)"?: \(view, event', re.M
)
PAGED = {"all": ("limit", "cursor"), "useItems": ("cursor",)}
"""What a call adds to the query of the path that it is given."""
_LINK = "/decide/{}"
_VERDICT = "/runs/{{}}/tool-calls/{{}}/{}"
OTHERS = {
    *("access_token", "refresh_token", "expires_in", "grant_type", "response_type", "request_id"),
    *("preferred_username",),  # of a token
    *("authorization_endpoint", "token_endpoint", "authorization_code", "code_challenge"),
    *("code_challenge_method", "code_verifier", "redirect_uri"),
    *("error_description", "access_denied"),
    # of a sign-out
    *("end_session_endpoint", "revocation_endpoint", "post_logout_redirect_uri", "logout_uri"),
    *("id_token", "id_token_hint", "token_type_hint"),
    *("layover_eval", "ended_at", "stubs_only"),
    *("user_agents", "user_assertion"),
}
"""Words of OAuth and Lambda, of the files of evaluations, and of no field: a folder, a value."""
VARIABLE = 4
"""The number of calls whose path is an argument: of `all`, of the pages in it and in `useItems`, and of a
verdict."""


@dataclass(frozen=True)
class Use:
    """One call of the page. `path` has `{}` where an id is."""

    module: str
    method: str
    path: str
    query: frozenset[str]
    body: frozenset[str]


def sources() -> dict[str, str]:
    return {p.stem: p.read_text(encoding="utf-8") for p in sorted((FOLDER / "page").glob("*.js"))}


def uses() -> Iterator[Use]:
    """Every call that names its path, or the verdict in it."""
    for module, source in sources().items():
        for name, method, _, template, body in _CALL.findall(source):
            if template.startswith(("${path}${joint}", "${address}${from}")):
                # The pages of `all` and of `useItems`, which are given the path.
                continue
            fields = set(re.findall(r"[{,] (\w+)(?=[:, ])", body))
            whole = _expanded(template, source)
            if not whole:
                # The page of a link asks its own address.
                yield Use(module, METHODS.get(name, ""), _LINK, frozenset(), frozenset())
                continue
            if not whole.startswith("/"):
                verdict = {*fields, "reason", "attempt"} - (
                    {"reason"} if whole == "resume" else set()
                )
                yield Use(module, "post", _VERDICT.format(whole), frozenset(), frozenset(verdict))
                continue
            query = {*_QUERY.findall(whole), *PAGED.get(name, ())}
            given = frozenset(fields if METHODS.get(name) != "get" and name != "send" else ())
            path = whole.partition("?")[0]
            if path == _VERDICT.format("{}").replace("{{}}", "{}"):
                continue
            yield Use(module, METHODS.get(name) or method.lower(), path, frozenset(query), given)


def _expanded(template: str, source: str) -> str:
    """The template with paths and queries that are kept in variables; anything else is `{}`."""

    def put(hole: re.Match[str]) -> str:
        # A path may be kept in a variable, or made by a function.
        name = hole[1].partition("(")[0]
        const = re.search(_CONST.format(re.escape(name)), source) if name.isidentifier() else None
        parts = _LITERAL.findall(const[1]) if const else []
        known = [part for part in parts if part.startswith(("/", "?", "&"))]
        return _expanded(known[0], source) if known else "{}"

    return _HOLE.sub(put, template)


@pytest.fixture
def document(api: Api) -> Json:
    return dict(api.get("/openapi.json", sub=None).json)


def operation(document: Json, use: Use) -> Json:
    """Return the document's entry for a call. Fails if there is none."""
    shown = {re.sub(r"\{\w+\}", "{}", path): item for path, item in document["paths"].items()}
    assert use.path in shown, f"{use} is documented nowhere"
    assert use.method in shown[use.path], f"{use}: {sorted(shown[use.path])}"
    return dict(shown[use.path][use.method])


def body_of(document: Json, described: Json) -> set[str]:
    """Fields of a request's body, of all forms that it may have."""
    content = described["requestBody"]["content"]["application/json"]["schema"]
    forms = content.get("oneOf") or content.get("anyOf") or [content]
    return {field for each in forms for field in _fields(document, each)}


def _fields(document: Json, schema: Json) -> set[str]:
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    return set(document["components"]["schemas"].get(name, schema)["properties"])


def words(document: Any) -> set[str]:
    """Names of all properties and parameters, and values that are listed."""
    if isinstance(document, list):
        return set().union(*map(words, document))
    if not isinstance(document, dict):
        return set()
    found = set(document["properties"]) if isinstance(document.get("properties"), dict) else set()
    listed = [document.get("name"), document.get("const"), *_listed(document.get("enum"))]
    found |= {each for each in listed if isinstance(each, str)}
    return found.union(*map(words, document.values()))


def _listed(values: Any) -> list[Any]:
    return values if isinstance(values, list) else []


def test_every_call_of_the_page_is_read() -> None:
    found = sum(len(_USES.findall(source)) for source in sources().values())
    assert found == len(list(uses())) + VARIABLE
    assert found > 30


def test_every_call_of_the_page_is_in_the_document(document: Json) -> None:
    for use in uses():
        described = operation(document, use)
        parameters = {p["name"] for p in described.get("parameters", ()) if p["in"] == "query"}
        assert use.query <= parameters, f"{use}: {sorted(parameters)}"
        if use.body:
            assert use.body <= body_of(document, described), use


def test_every_field_that_the_page_names_is_in_the_document(document: Json) -> None:
    known = words(document) | OTHERS
    named = {field: name for name, text in sources().items() for field in _FIELD.findall(text)}
    assert {field: name for field, name in named.items() if field not in known} == {}


def test_every_event_that_the_page_shows_is_in_the_document(document: Json) -> None:
    known = words(document["components"]["schemas"])
    shown = {
        kind
        for name in ("events", "timeline", "api")
        for found in _EVENT.findall(sources()[name])
        for kind in filter(None, found)
    }
    assert len(shown) > 12
    assert shown <= known, shown - known

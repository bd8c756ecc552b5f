"""Names of arguments and fields that mean something in the page's own language. Whoever describes a tool
chooses them: none reaches an object of the page, and no request leaves for another host."""

import json
from typing import Any

import pytest
from playwright.sync_api import Page, Request

from functions.api.console.assets import DECIDE_MODULES, MODULES, assets

Json = dict[str, Any]
NAMES = ["__proto__", "constructor", "prototype", "toString", "hasOwnProperty"]
PLACES = ["args_schema", "resume_schema", "args", "payload"]
ELSEWHERE = "https://elsewhere.example/"
OPTIONS = {"base": ELSEWHERE, "headers": "x", "signal": "x", "name": "x", "__k": "x"}
"""What a page's requests and Preact read of their options."""


def schema_with(name: str) -> Json:
    """Return a schema with a group of this name, and the same group one deeper."""
    texts = {each: {"type": "string", "const": value} for each, value in OPTIONS.items()}
    group = {"type": "object", "properties": texts, "required": list(texts)}
    outer = {"type": "object", "properties": {name: group}, "required": [name]}
    return {
        "type": "object",
        "properties": {name: group, "outer": outer, "note": {"type": name}},
        "required": [name, "outer"],
        "$defs": {name: group},
    }


def pending_with(name: str, place: str) -> Json:
    """Return a waiting call in which others chose this name."""
    is_input = place in ("resume_schema", "payload")
    values = {name: OPTIONS, "outer": {name: OPTIONS}, "note": "text"}
    return {
        "run_id": "run_1",
        "tool_call_id": "call_1",
        "tool_name": "order",
        "attempt": 1,
        "kind": "input" if is_input else "approval",
        "args": values if place == "args" else {"note": "text"},
        "args_schema": schema_with(name) if place == "args_schema" else None,
        "payload": values if place == "payload" else None,
        "resume_schema": schema_with(name) if is_input else {},
    }


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("place", PLACES)
def test_name_that_others_chose_sends_no_request_to_another_host(
    modules: Page, place: str, name: str
) -> None:
    asked: list[Request] = []
    modules.on("request", lambda request: asked.append(request))
    modules.route("http://console.test/runs/**", lambda route: route.fulfill(json={"items": []}))
    modules.route(f"{ELSEWHERE}**", lambda route: route.fulfill(json={}))
    sent, changed = modules.evaluate(
        """async (text) => {
          const all = [Object, Array, Function].flatMap((each) => [each, each.prototype]);
          const own = () => all.map((each) => Object.getOwnPropertyNames(each).length).join();
          const before = own();
          const { Decision } = await import("/decision.js");
          const { authorize, get, post } = await import("/api.js");
          const { html, paint } = await import("/dom.js");
          authorize(async () => "token", () => {});
          const request = JSON.parse(text), sent = [];
          const decide = async (verdict, body) => {
            sent.push(JSON.stringify(body));
            await post("/runs/1", body);
          };
          const app = document.getElementById("app");
          paint(html`<${Decision} pending=${request} me="ann" decide=${decide} />`, app);
          const soon = () => new Promise((done) => setTimeout(done, 30));
          app.querySelector("[data-mode=edit]")?.click();
          await soon();
          for (const each of app.querySelectorAll("select")) {
            each.value = each.options[1].value;
            each.dispatchEvent(new Event("change", { bubbles: true }));
          }
          await soon();
          app.querySelector(".primary").click();
          await soon();
          await get("/runs/2");
          return [sent, before !== own()];
        }""",
        json.dumps(pending_with(name, place)),  # An argument of a page would lose `__proto__`.
    )
    assert not changed
    assert {request.url.split("/")[2] for request in asked} == {"console.test"}
    assert sent
    if place in ("args_schema", "resume_schema", "payload"):
        (body,) = sent
        # Both groups are sent as they were typed, whatever they are called.
        assert body.count(f'"{name}":{{"base":"{ELSEWHERE}"') == 2


@pytest.mark.parametrize("file", ["app.js", "decide.js"])
def test_both_pages_freeze_prototypes_before_all_else(file: str) -> None:
    assert MODULES[0] == DECIDE_MODULES[0] == "names"
    script = assets()[file].text
    code = [
        line
        for line in script.splitlines()
        if line and not line.startswith(("import", "//", "/**", " *"))
    ]
    assert code[0].startswith("for (const each of [Object, Array, Function]) Object.freeze")


def test_prototypes_are_frozen_while_pages_work(modules: Page) -> None:
    frozen = modules.evaluate(
        """async () => {
          await import("/decision.js");
          const all = [Object, Array, Function].flatMap((each) => [each, each.prototype]);
          return all.every(Object.isFrozen);
        }"""
    )
    assert frozen

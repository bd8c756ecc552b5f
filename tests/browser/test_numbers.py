"""Whole numbers that a JavaScript number would round: they pass the console as they are."""

import json
from typing import Any

import pytest
from playwright.sync_api import Page

from browser.conftest import Enter
from support.providers.openai import call, say
from support.system.system import Brain, eventually

ID = 1234567890123456789
BEYOND = 9007199254740993
"""The first whole number that no JavaScript number is."""


def there_and_back(modules: Page, text: str, indent: int | None = None) -> str:
    """Return the JSON of what the page read of a JSON text."""
    written: str = modules.evaluate(
        """async ([text, indent]) => {
          const { parseJson, toJson } = await import("/numbers.js");
          return toJson(parseJson(text), indent ?? undefined);
        }""",
        [text, indent],
    )
    return written


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[1,]",
        "{1234567890123456789: 1}",
        "[01234567890123456789]",
        "12345678901234567890x",
    ],
)
def test_text_that_is_no_json_is_refused(modules: Page, text: str) -> None:
    refused = modules.evaluate(
        """async (text) => {
          const { parseJson } = await import("/numbers.js");
          try { return String(parseJson(text)); } catch (error) { return error.name; }
        }""",
        text,
    )
    assert refused == "SyntaxError"


@pytest.mark.parametrize(
    "value",
    [
        BEYOND,
        -ID,
        10**40,
        [BEYOND, 7, [ID]],
        {"id": ID, "nested": {"ids": [ID, None, True]}},
        {str(ID): str(ID), "text": f'say "{ID}" and \\ {ID}', "end": f'\\", {ID}'},
        {"text": "\\", "id": ID, "quote": '"'},
        2**53 - 1,
        [1234567890123456.5, 0.1234567890123456, 1e300, -0.5],
        "x" * 3_000_000 + str(ID),
        {"whole": f"whole {ID}", "__proto__": [ID]},
        ["ü \u2028 \U0001f600", ID],
    ],
    ids=lambda value: str(value)[:30],
)
def test_numbers_keep_every_digit(modules: Page, value: Any) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=2)):
        assert json.loads(there_and_back(modules, text)) == value
        assert str(value) in str(json.loads(there_and_back(modules, text, 2)))


def edited(modules: Page, args: str, field: str, typed: str) -> str:
    """Return the JSON of the arguments after one of them was typed anew in the form of an edit."""
    written: str = modules.evaluate(
        """async ([args, field, typed]) => {
          const { parseJson, toJson } = await import("/numbers.js");
          const { Fields, schemaFor, useForm } = await import("/forms.js");
          const { html, paint } = await import("/dom.js");
          const values = parseJson(args);
          let form;
          const Edit = () => {
            form = useForm(schemaFor(values, null), values, values);
            return html`<${Fields} form=${form} prefix="f" />`;
          };
          const app = document.getElementById("app");
          paint(null, app);
          paint(html`<${Edit} />`, app);
          form.change(field, typed);
          await new Promise((done) => setTimeout(done, 50));
          const found = form.values();
          return found ? toJson(found.value) : "wrong";
        }""",
        [args, field, typed],
    )
    return written


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        ("40", 40),
        (f" {BEYOND} ", BEYOND),
        (f"+{ID}", ID),
        (f"-{ID}", -ID),
        ("1.5", 1.5),
        ("1e3", 1000),
        ("007", 7),
    ],
)
def test_number_is_sent_as_it_was_typed(modules: Page, typed: str, value: Any) -> None:
    assert json.loads(edited(modules, '{"amount": 1}', "amount", typed)) == {"amount": value}


@pytest.mark.parametrize("typed", ["", "1e999", "-Infinity", "12 000", "twelve"])
def test_what_is_no_number_is_not_sent(modules: Page, typed: str) -> None:
    assert edited(modules, '{"amount": 1}', "amount", typed) == "wrong"


@pytest.mark.parametrize("typed", ["[1e999]", "[NaN]", "["])
def test_list_that_json_does_not_have_is_not_sent(modules: Page, typed: str) -> None:
    assert edited(modules, '{"items": [1]}', "items", typed) == "wrong"


def test_edit_of_one_argument_leaves_the_others(modules: Page) -> None:
    args = {"id": ID, "items": [BEYOND, 7], "of": {"ids": [ID]}, "none": None, "text": str(ID)}
    found = edited(modules, json.dumps({**args, "amount": 500}), "amount", "40")
    assert json.loads(found) == {**args, "amount": 40}
    found = edited(modules, json.dumps(args), "items", f"[{ID}]")
    assert json.loads(found) == {**args, "items": [ID]}


def test_optional_number_may_be_left_empty(modules: Page) -> None:
    schema = {
        "type": "object",
        "properties": {
            "days": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
            "id": {"type": "integer", "default": ID},
            "slot": {"enum": [ID, 7]},
        },
        "required": ["slot"],
    }
    found = modules.evaluate(
        """async (schema) => {
          const { parseJson, toJson } = await import("/numbers.js");
          const { Fields, useForm } = await import("/forms.js");
          const { html, paint } = await import("/dom.js");
          let form;
          const Answer = () => {
            form = useForm(parseJson(schema));
            return html`<${Fields} form=${form} prefix="f" payload=${{}} />`;
          };
          paint(html`<${Answer} />`, document.getElementById("app"));
          const choices = [...document.querySelectorAll("option")].map((each) => each.value);
          form.change("slot", choices[1]);
          await new Promise((done) => setTimeout(done, 50));
          return toJson(form.values().value);
        }""",
        json.dumps(schema),
    )
    assert json.loads(found) == {"id": ID, "slot": ID}


def test_offered_number_is_sent_as_it_is(modules: Page) -> None:
    found = modules.evaluate(
        """async ([schema, payload]) => {
          const { parseJson, toJson } = await import("/numbers.js");
          const { Fields, useForm } = await import("/forms.js");
          const { html, paint } = await import("/dom.js");
          let form;
          const Answer = () => {
            form = useForm(parseJson(schema));
            return html`<${Fields} form=${form} prefix="f" payload=${parseJson(payload)} />`;
          };
          paint(html`<${Answer} />`, document.getElementById("app"));
          document.querySelector(".chip").click();
          await new Promise((done) => setTimeout(done, 50));
          return [toJson(form.values().value), document.querySelector(".chip").textContent];
        }""",
        [
            json.dumps({"type": "object", "properties": {"order": {"type": "integer"}}}),
            json.dumps({"orders": [ID, 7]}),
        ],
    )
    assert found == [f'{{"order":{ID}}}', str(ID)]


def test_approver_sees_and_keeps_every_digit(enter: Enter, brain: Brain) -> None:
    ann = enter().sign_in()
    text = brain.plan(call("count_out", order_id=str(ID), points=ID), say(f"Gave {ID}."))
    ann.begin(text, "wide")
    ann.sees(str(ID))
    ann.open("inbox")
    card = ann.card(str(ID))
    assert card.inner_text().count(str(ID)) == 2
    ann.button("Edit", card).click()
    ann.page.get_by_label("order_id").fill("A-1")
    ann.button("Approve with changes").click()
    ann.page.get_by_label("order_id").wait_for(state="detached")
    told = f'"points": {ID}}}'
    eventually(lambda: told in str(brain.requests(text)[-1].body["messages"]))

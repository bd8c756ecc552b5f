"""The form in which an approver edits a call: fields by the tool's schema, and what counts as a change."""

import json
from typing import Any

import pytest
from playwright.sync_api import Page

from browser.conftest import Enter
from support.providers.openai import call, say
from support.system.system import Brain, unique

Json = dict[str, Any]
DAY = {"type": "string", "format": "date"}
SPEED = {"enum": ["slow", "fast"], "type": "string"}
NULL = {"type": "null"}


class Form:
    """The form of an edit. `kinds`: of fields, of a list its options; `shown`: their texts; `changed`: the
    names of those that are marked; `sent`: the arguments that it sends, None if one is refused."""

    def __init__(self, modules: Page, schema: Any, args: Json, typed: Json | None = None) -> None:
        fields, self.changed, sent = modules.evaluate(
            """async ([schema, args, typed]) => {
              const { parseJson, toJson } = await import("/numbers.js");
              const { Fields, schemaFor, useForm } = await import("/forms.js");
              const { html, paint } = await import("/dom.js");
              const values = parseJson(args);
              let form;
              const Edit = () => {
                form = useForm(schemaFor(values, schema), values, values);
                return html`<${Fields} form=${form} prefix="f" />`;
              };
              const app = document.getElementById("app");
              paint(null, app);
              paint(html`<${Edit} />`, app);
              const options = (list) => [...list.options].map((each) => each.value).filter(Boolean);
              const fields = [...app.querySelectorAll("input, select, textarea")].map((each) =>
                [each.id.slice(2), each.options ? options(each) : each.type,
                  each.type === "checkbox" ? each.checked : each.value]);
              for (const [name, text] of Object.entries(typed)) form.change(name, text);
              await new Promise((done) => setTimeout(done, 50));
              const changed = form.fields.map((field) => field.name).filter(form.edited);
              const found = form.values();
              return [fields, changed, found ? toJson(found.value) : "null"];
            }""",
            [schema, json.dumps(args), typed or {}],
        )
        self.kinds = {name: kind for name, kind, _ in fields}
        self.shown = {name: text for name, _, text in fields}
        self.sent: Any = json.loads(sent)


def of(*required: str, **properties: Any) -> Json:
    return {"type": "object", "properties": properties, "required": list(required)}


@pytest.mark.parametrize(
    ("schema", "value", "kind"),
    [
        ({"type": "string"}, "a", "text"),
        ({"type": "integer"}, 5, "text"),
        ({"type": "boolean"}, True, "checkbox"),
        (SPEED, "slow", ["slow", "fast"]),
        ({"const": "slow"}, "slow", ["slow"]),
        ({"enum": [1, 2]}, 2, ["1", "2"]),
        (DAY, "2026-01-02", "date"),
        ({"anyOf": [SPEED, NULL]}, None, ["slow", "fast"]),
        ({"anyOf": [{"type": "boolean"}, NULL]}, False, ["true", "false"]),
        ({"type": ["boolean", "null"]}, None, ["true", "false"]),
        ({"$ref": "#/$defs/Speed"}, "fast", ["slow", "fast"]),
        ({"anyOf": [{"$ref": "#/$defs/Speed"}, NULL]}, "fast", ["slow", "fast"]),
        ({"type": "array", "items": {"type": "string"}}, ["a"], "textarea"),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, 5, "textarea"),
        ({"type": ["string", "integer"]}, "a", "textarea"),
        ({}, {"a": 1}, "textarea"),
    ],
    ids=str,
)
def test_argument_has_the_field_of_its_type_and_is_sent_as_it_was(
    modules: Page, schema: Json, value: Any, kind: Any
) -> None:
    form = Form(modules, {**of("it", it=schema), "$defs": {"Speed": SPEED}}, {"it": value})
    assert (form.kinds, form.changed, form.sent) == ({"it": kind}, [], {"it": value})


@pytest.mark.parametrize(
    ("names", "read"),
    [
        (["Apple", "sku-2"], ["Apple", "sku-2", "sku-1 (Apple), sku-2"]),
        (["Apple"], ["sku-1", "sku-2", "sku-1, sku-2"]),
        (None, ["sku-1", "sku-2", "sku-1, sku-2"]),
    ],
)
def test_choice_is_read_by_its_name_and_sent_as_its_value(
    modules: Page, names: Any, read: list[str]
) -> None:
    choice = {"type": "string", "enum": ["sku-1", "sku-2"], "enumNames": names}
    several = {"type": "array", "items": choice}
    form = Form(
        modules, of(one=choice, more=several), {"one": "sku-1", "more": []}, {"one": "sku-2"}
    )
    assert form.sent == {"one": "sku-2", "more": []}
    options = modules.locator("#f-one option").all_inner_texts()
    assert options[1:] == read[:2]
    assert f"Of these: {read[2]}." in modules.locator("#f-more-about").inner_text()


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "string"}, {"a": 1}),
        ({"type": "string"}, 5),
        ({"type": "integer"}, "five"),
        ({"type": "boolean"}, "yes"),
        (SPEED, "now"),
        (DAY, "tomorrow"),
    ],
    ids=str,
)
def test_value_that_the_new_schema_does_not_know_is_shown_and_kept(
    modules: Page, schema: Json, value: Any
) -> None:
    form = Form(modules, of("it", it=schema), {"it": value})
    assert str(form.shown["it"]) in (value, json.dumps(value, indent=2))
    assert (form.changed, form.sent) == ([], {"it": value})


@pytest.mark.parametrize(
    "schema", [None, {}, {"_truncated": True, "head": "{"}, {"type": "object"}], ids=str
)
def test_arguments_have_fields_where_nobody_knows_the_schema(modules: Page, schema: Any) -> None:
    args = {"text": "a", "amount": 5, "gift": True, "items": [1], "none": None}
    form = Form(modules, schema, args, {"text": "", "amount": "6"})
    kinds = ["text", "text", "checkbox", "textarea", "textarea"]
    assert list(form.kinds.values()) == kinds
    assert (form.changed, form.sent) == (["text", "amount"], {**args, "text": "", "amount": 6})


def test_argument_that_the_schema_does_not_name_can_be_edited_and_is_not_lost(
    modules: Page,
) -> None:
    schema, args = of("order", order={"type": "string"}), {"order": "A", "more": 1, "other": [2]}
    form = Form(modules, schema, args, {"more": "3"})
    assert (form.changed, form.sent) == (["more"], {"order": "A", "more": 3, "other": [2]})


@pytest.mark.parametrize(
    ("schema", "value", "typed", "sent"),
    [
        ({"type": "string"}, "a", "", ""),
        ({"type": "string", "default": "b"}, "a", "", ""),
        ({"anyOf": [{"type": "string"}, NULL]}, "a", "", None),
        ({"anyOf": [{"type": "string"}, NULL], "default": "b"}, "a", "", None),
        ({"anyOf": [{"type": "integer"}, NULL]}, 5, "", None),
        ({"anyOf": [SPEED, NULL]}, "slow", "", None),
        ({"anyOf": [{"type": "boolean"}, NULL]}, True, "false", False),
        ({"anyOf": [{"type": "boolean"}, NULL]}, True, "", None),
        (SPEED, "slow", "fast", "fast"),
        ({"enum": [1, 2]}, 1, "2", 2),
        (DAY, "2026-01-02", "2026-02-03", "2026-02-03"),
    ],
    ids=str,
)
def test_emptied_or_chosen_argument_is_sent_as_its_type_has_it(
    modules: Page, schema: Json, value: Any, typed: str, sent: Any
) -> None:
    form = Form(modules, of(it=schema), {"it": value, "other": 1}, {"it": typed})
    assert (form.changed, form.sent) == (["it"], {"it": sent, "other": 1})


@pytest.mark.parametrize(
    "schema", [{"type": "integer"}, SPEED, DAY, {"type": "string", "minLength": 1}], ids=str
)
def test_argument_that_is_needed_is_not_sent_empty(modules: Page, schema: Json) -> None:
    value = {"integer": 5}.get(schema["type"], "2026-01-02" if schema is DAY else "slow")
    assert Form(modules, of("it", it=schema), {"it": value}, {"it": ""}).sent is None


def test_emptied_number_with_a_default_is_left_out_and_the_default_is_no_change(
    modules: Page,
) -> None:
    schema = of(days={"type": "integer", "default": 7})
    assert Form(modules, schema, {"days": 7}, {"days": ""}).changed == []
    form = Form(modules, schema, {"days": 5}, {"days": ""})
    assert (form.changed, form.sent) == (["days"], {})


def test_argument_that_was_left_out_stays_so_until_it_is_typed(modules: Page) -> None:
    schema = of(a={"type": "string", "default": "x"}, b={"type": "boolean"}, c={"type": "integer"})
    form = Form(modules, schema, {"c": 1})
    assert (form.changed, form.sent) == ([], {"c": 1})
    form = Form(modules, schema, {"c": 1}, {"a": "y", "b": True})
    assert (form.changed, form.sent) == (["a", "b"], {"a": "y", "b": True, "c": 1})


@pytest.mark.parametrize("place", ["thread", "inbox"])
def test_call_is_edited_with_fields_of_its_types(
    enter: Enter, brain: Brain, axe: str, place: str
) -> None:
    ann = enter().sign_in()
    order = unique()
    args = {"order_id": order, "speed": "slow", "day": "2026-11-30", "boxes": [1, 2]}
    text = brain.plan(call("ship", **args), say("It goes."))
    ann.begin(text, "wide")
    ann.button("Approve").wait_for()
    page = ann.tab("#/inbox") if place == "inbox" else ann.page
    ann.button("Edit", page).click()
    form = page.locator(".decision form")
    speed = form.get_by_label("speed")
    speed.wait_for()
    assert speed.locator("option").all_inner_texts() == ["Choose", "slow", "fast", "now"]
    assert form.get_by_label("day").get_attribute("type") == "date"
    assert form.get_by_label("gift").get_attribute("type") == "checkbox"
    assert form.get_by_label("card").input_value() == ""
    assert ann.button("Approve", form).is_visible()
    assert ann.findings(axe, page) == []
    ann.picture(f"edit-by-type-{place}", page)
    speed.select_option("now")
    ann.button("Approve with changes", form).wait_for()
    assert form.locator(".edited").count() == 1
    speed.select_option("slow")
    ann.button("Approve", form).wait_for()
    assert form.locator(".edited").count() == 0
    form.get_by_label("day").fill("2026-12-01")
    form.get_by_label("gift").check()
    ann.button("Approve with changes", form).click()
    ann.answered()
    told = str(brain.requests(text)[-1].body["messages"])
    assert f"{order} goes slow on 2026-12-01 in [1, 2], gift: True, card: None" in told


def test_call_whose_form_was_opened_and_not_changed_is_approved_as_asked(
    enter: Enter, brain: Brain
) -> None:
    ann = enter().sign_in()
    args = {"order_id": unique(), "speed": "fast", "day": "2026-11-30", "boxes": []}
    ann.begin(brain.plan(call("ship", **args), say("It goes.")), "wide")
    ann.button("Edit").click()
    form = ann.page.locator(".decision form")
    form.get_by_label("speed").wait_for()
    ann.button("Approve", form).click()
    ann.answered()
    ann.sees(f"approved by {ann.name}")
    assert ann.page.get_by_text("with changed arguments").count() == 0

"""Single modules of the console, with what no run of the system brings about at will."""

import base64
import json
import re
import unicodedata
from typing import Any

import pytest
from playwright.sync_api import Page

from layover.values.text import reveal

Json = dict[str, Any]
AT = "2026-01-01T00:00:00Z"


def view_of(modules: Page, events: list[Json]) -> list[Any]:
    """Return the blocks that a run's events amount to: `[kind, text]`, of a call `[name, status, blocks]`."""
    blocks: list[Any] = modules.evaluate(
        """async (events) => {
          const { applyEvent, newView } = await import("/events.js");
          const view = newView();
          for (const event of events) applyEvent(view, event);
          const brief = (blocks) => blocks.map((block) => block.kind === "call"
            ? [block.name, block.status, brief(block.blocks)] : [block.kind, block.text ?? block.note]);
          return brief(view.blocks);
        }""",
        events,
    )
    return blocks


def below(call_id: str, *names: str) -> Json:
    """Return where an event of the sub-agent in this call comes from."""
    return {"agent_path": ["top", *names], "parent_tool_call_id": call_id}


def message(*parts: Json, run_id: str = "run_0", role: str = "assistant", **more: Any) -> Json:
    return {
        "type": "message",
        "message": {"role": role, "run_id": run_id, "content": list(parts)},
        **more,
    }


def asks(call_id: str, name: str = "refund") -> Json:
    return {"type": "tool_call", "tool_call_id": call_id, "tool_name": name, "args": {}}


def begins(call_id: str, name: str = "refund", **more: Any) -> Json:
    fields = {"tool_call_id": call_id, "tool_name": name, "args": {}}
    return {"type": "tool-execution-start", **fields, **more}


def ends(call_id: str, name: str = "refund", **more: Any) -> Json:
    fields = {"tool_call_id": call_id, "tool_name": name, "result": "x", "is_error": False}
    return {"type": "tool-execution-end", **fields, **more}


def decided(call_id: str, decision: str) -> Json:
    return {"type": "tool-call-decided", "tool_call_id": call_id, "decision": decision}


def says(step: int, text: str, **more: Any) -> Json:
    return {"type": "text-delta", "step": step, "text": text, **more}


def turn(step: int, **more: Any) -> Json:
    return {"type": "turn-start", "step": step, **more}


@pytest.mark.parametrize("decision", ["denied", "expired", "cancelled", "withdrawn"])
def test_call_that_never_ran_is_not_done(modules: Page, decision: str) -> None:
    events = [message(asks("c1")), decided("c1", decision), ends("c1")]
    assert view_of(modules, events) == [["refund", decision, []]]
    stored = {
        "type": "tool_result",
        "tool_call_id": "c1",
        "result": "x",
        "decision": {"decision": decision},
    }
    assert view_of(modules, [message(asks("c1")), message(stored, role="tool")]) == [
        ["refund", decision, []]
    ]


def test_answer_that_broke_off_in_a_sub_agent_is_told_and_one_of_its_next_call_is_not(
    modules: Page,
) -> None:
    events = [
        message(asks("c1", "deputy")),
        begins("c1", "deputy"),
        turn(1, **below("c1", "deputy")),
        says(1, "broken", **below("c1", "deputy")),
        turn(1, **below("c1", "deputy")),
        says(1, "whole", **below("c1", "deputy")),
        message({"type": "text", "text": "whole"}, run_id="run_1", **below("c1", "deputy")),
        ends("c1", "deputy"),
        message(asks("c2", "deputy")),
        begins("c2", "deputy"),
        turn(1, **below("c2", "deputy")),
        says(1, "another", **below("c2", "deputy")),
    ]
    assert view_of(modules, events) == [
        ["deputy", "done", [["note", "restarted"], ["text", "whole"]]],
        ["deputy", "running", [["text", "another"]]],
    ]


def test_each_of_several_calls_of_one_sub_agent_shows_its_own_draft(modules: Page) -> None:
    one, other = below("c1", "deputy"), below("c2", "deputy")
    events = [
        message(asks("c1", "deputy"), asks("c2", "deputy")),
        begins("c1", "deputy"),
        begins("c2", "deputy"),
        turn(1, **one),
        turn(1, **other),
        says(1, "of ", **one),
        says(1, "of the ", **other),
        says(1, "one", **one),
        says(1, "other", **other),
    ]
    assert view_of(modules, events) == [
        ["deputy", "running", [["text", "of one"]]],
        ["deputy", "running", [["text", "of the other"]]],
    ]
    retried = modules.evaluate(
        """async (events) => (await import("/timeline.js")).spansOf(events)
          .map((span) => Boolean(span.retried))""",
        [{**event, "at": AT} for event in events],
    )
    assert retried == [False] * 4


def test_call_below_a_sub_agent_stands_inside_it(modules: Page) -> None:
    events = [
        message(asks("c1", "deputy")),
        begins("c1", "deputy"),
        message(asks("c2", "aide"), **below("c1", "deputy")),
        begins("c2", "aide", **below("c1", "deputy")),
        says(1, "deep", **below("c2", "deputy", "aide")),
    ]
    inner = ["aide", "running", [["text", "deep"]]]
    assert view_of(modules, events) == [["deputy", "running", [inner]]]


def test_sub_agent_in_the_background_speaks_inside_its_call(modules: Page) -> None:
    notice = {
        "type": "data",
        "name": "background-result",
        "data": {"tool_call_id": "c1", "is_error": True, "result": "no"},
    }
    events = [
        message(asks("c1", "aide"), asks("c2", "aide")),
        begins("c1", "aide"),
        begins("c2", "aide"),
        ends("c1", "aide", result={"started": "run_1"}),
        ends("c2", "aide", result={"started": "run_2"}),
        message({"type": "text", "text": "of the second"}, run_id="run_2", **below("c2", "aide")),
        message({"type": "text", "text": "of the first"}, run_id="run_1", **below("c1", "aide")),
        message(notice, {"type": "text", "text": "<background-result>"}, role="custom"),
    ]
    assert view_of(modules, events) == [
        ["aide", "failed", [["text", "of the first"]]],
        ["aide", "done", [["text", "of the second"]]],
    ]


def test_approvals_count_together_by_their_arguments_and_once_for_each_person(
    modules: Page,
) -> None:
    rule = {"by": ["finance"], "quorum": 3, "given": []}
    call: Json = {"tool_call_id": "c1", "tool_name": "refund", "args": {"a": 1, "b": [{"x": 1}]}}

    def vote(by: str, **more: Any) -> Json:
        return {"type": "tool-call-approval", "tool_call_id": "c1", "by": by, "at": AT, **more}

    events = [
        {"type": "tool-call-suspended", **call, "approval": rule},
        vote("bea", args={"a": 2}),
        vote("bea", args={"b": [{"x": 1}], "a": 1}),
        vote("shop", on_behalf_of="carl"),
        vote("shop", on_behalf_of="dora", args={"a": 3}),
    ]
    counts = modules.evaluate(
        """async (events) => {
          const { applyEvent, newView } = await import("/events.js");
          const { countsOf } = await import("/decision.js");
          const view = newView();
          return events.map((event) => countsOf(applyEvent(view, event).waiting.get("c1")));
        }""",
        events,
    )
    # The second vote of bea takes the place of the first, and says what carl's says, in another order.
    assert counts == [[0, 0], [0, 1], [1, 0], [2, 0], [2, 1]]


def test_step_that_was_asked_again_and_a_fallback_are_in_the_timeline(modules: Page) -> None:
    events = [
        turn(1),
        turn(1),
        {"type": "model-fallback", "step": 1, "from": "one", "to": "two"},
        message({"type": "text", "text": "Hello."}),
    ]
    spans = modules.evaluate(
        """async (events) => (await import("/timeline.js")).spansOf(events)
          .map((span) => [span.kind, Boolean(span.retried), span.name])""",
        [{**event, "at": AT} for event in events],
    )
    assert sorted(spans) == [
        ["mark", False, "one did not answer; two was asked"],
        ["model", False, "Model"],
        ["model", True, "Model"],
    ]


def test_tools_that_a_model_is_not_given_are_named(modules: Page) -> None:
    event = {"type": "tools-left-out", "step": 1, "model": "one", "tools": ["look", "buy"]}
    events = [turn(1), event, message({"type": "text", "text": "Hello."})]
    marks = modules.evaluate(
        """async (events) => (await import("/timeline.js")).spansOf(events)
          .filter((span) => span.kind === "mark").map((span) => span.name)""",
        [{**each, "at": AT} for each in events],
    )
    assert marks == ["one takes no request with look, buy; left out"]
    assert view_of(modules, [{**each, "at": AT} for each in events]) == [
        ["note", "without"],
        ["text", "Hello."],
    ]


def test_model_that_does_not_answer_is_one_line_with_the_newest_error(modules: Page) -> None:
    events: list[Json] = [
        turn(1),
        {"type": "model-retry", "step": 1, "reason": "InternalServerError", "at": AT},
        {"type": "model-retry", "step": 1, "reason": "RateLimitError", "at": AT},
        message({"type": "text", "text": "Hello."}),
        turn(2),
        {"type": "model-retry", "step": 2, "reason": "APITimeoutError", "at": AT},
    ]
    assert view_of(modules, events) == [
        ["note", "retried"],
        ["text", "Hello."],
        ["note", "retried"],
    ]
    notes = modules.evaluate(
        """async (events) => {
          const { applyEvent, newView } = await import("/events.js");
          const { S } = await import("/strings.js");
          const view = newView();
          for (const event of events) applyEvent(view, event);
          return view.blocks.filter((b) => b.kind === "note").map((b) => S.chat.retried(b.reason, b.n));
        }""",
        events,
    )
    assert notes == [
        "The model did not answer (RateLimitError); it is asked again, attempt 3.",
        "The model did not answer (APITimeoutError); it is asked again.",
    ]


@pytest.mark.parametrize(
    ("claims", "shown"),
    [
        ({"sub": "u-1"}, "u-1"),
        ({"sub": "u-1", "username": "u-1"}, "u-1"),
        ({"sub": "u-1", "username": "u-1", "email": "ada@example.com"}, "ada@example.com"),
        ({"sub": "u-1", "email": "ada@example.com", "name": "Ada Łoś"}, "Ada Łoś"),
    ],
)
def test_signed_in_user_is_shown_by_name_where_the_token_has_one(
    modules: Page, claims: Json, shown: str
) -> None:
    payload = base64.urlsafe_b64encode(json.dumps(claims, ensure_ascii=False).encode()).decode()
    names = modules.evaluate(
        """async (access) => {
          const { idOf, whoIs } = await import("/session.js");
          sessionStorage.setItem("layover.tokens", JSON.stringify({ access }));
          return [whoIs({ issuer: "https://id.example.com" }), idOf({ issuer: "https://id.example.com" })];
        }""",
        f"head.{payload.rstrip('=')}.sign",
    )
    # Votes and decisions have the id, whatever is shown.
    assert names == [shown, "u-1"]


def test_request_of_the_timeline_has_its_model_and_its_use(modules: Page) -> None:
    usage = {"total_tokens": 1_200, "cost_usd": 0.0031}
    events = [
        turn(1),
        {**message(asks("c1")), "model": "gpt", "usage": usage},
        message({"type": "tool_result", "tool_call_id": "c1", "result": "x"}, role="tool"),
        turn(2),
        message({"type": "text", "text": "Hello."}),
    ]
    spans = modules.evaluate(
        """async (events) => (await import("/timeline.js")).spansOf(events)
          .map((span) => [span.step, span.model, span.usage])""",
        [{**event, "at": AT} for event in events],
    )
    assert spans == [[1, "gpt", usage], [2, None, None]]


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (999.7, "1.0 s"),
        (59_960, "1 min 0 s"),
        (119_700, "2 min 0 s"),
        (3_599_800, "1 h 0 min"),
        (7_199_000, "2 h 0 min"),
        (86_399_000, "1 d"),
    ],
)
def test_duration_is_rounded_before_it_is_split(modules: Page, ms: float, text: str) -> None:
    found = modules.evaluate("async (ms) => (await import('/dom.js')).duration(ms)", ms)
    assert found == text


def drawn(modules: Page, text: str) -> Any:
    """Return the element that the text is drawn in."""
    modules.evaluate(
        """async (text) => {
          const { Markdown } = await import("/markdown.js");
          const { html, paint } = await import("/dom.js");
          paint(html`<${Markdown} text=${text} />`, document.getElementById("app"));
        }""",
        text,
    )
    return modules.locator("#app")


@pytest.mark.parametrize("gap", ["\n", "\n\n"])
def test_task_list_has_boxes_and_no_brackets(modules: Page, gap: str) -> None:
    app = drawn(modules, f"- [x] one{gap}- [ ] two")
    assert app.get_by_role("checkbox").count() == 2
    assert app.get_by_role("checkbox").first.is_checked()
    assert not app.get_by_role("checkbox").nth(1).is_checked()
    assert "[" not in app.inner_text()


def test_entities_are_characters_but_in_code(modules: Page) -> None:
    app = drawn(modules, "a&nbsp;&mdash; b &euro; &#8364; &amp;lt; &nosuch; `&amp;`\n\n    &lt;")
    assert app.locator("p").inner_text() == "a\u00a0— b € € &lt; &nosuch; &amp;"
    assert app.locator("pre").inner_text() == "&lt;"
    assert drawn(modules, "&lt;img src=x&gt; &#60;b&#62;").locator("img, b").count() == 0


UNREADABLE = {
    "quotes": ">" * 2000,
    "quotes with blanks": "> " * 3000 + "end",
    "lists": "- " * 2000 + "end",
    "numbers": "1. " * 2000 + "end",
    "lists of 300 levels": "\n".join(f"{'  ' * n}- level {n}" for n in range(300)),
    "emphasis": "_a_" * 33_000,
    "emphasis in lines": "*a*\n" * 25_000,
    "strong emphasis": "**a**" * 20_000,
    "emphasis in a heading": "# " + "_a_" * 33_000,
    "emphasis in a list": "- " + "_a_" * 33_000,
    "emphasis in emphasis": "*_" * 20_000 + "a" + "_*" * 20_000,
    "one long mark": "*" * 50_000 + "a" + "*" * 50_000,
    "strikes": "~~a~~" * 20_000,
    "brackets": "[" * 50_000,
    "links in links": "[" * 3000 + "a" + "](b)" * 3000,
}


@pytest.mark.parametrize("text", UNREADABLE.values(), ids=list(UNREADABLE))
def test_text_that_markdown_cannot_read_is_shown_as_text(modules: Page, text: str) -> None:
    modules.set_default_timeout(15_000)
    app = drawn(modules, text)
    words = re.sub(r"\s", "", app.evaluate("(app) => app.textContent"))
    assert words
    assert words in re.sub(r"\s", "", text)
    assert drawn(modules, "Still **here**.").locator("strong").inner_text() == "here"


def test_paragraph_that_cannot_be_read_takes_no_other_with_it(modules: Page) -> None:
    app = drawn(modules, f"**before**\n\n{'_a_' * 5000}\n\n- after")
    assert app.locator("strong").inner_text() == "before"
    assert app.locator("li").inner_text() == "after"
    assert app.locator("p").nth(1).inner_text() == "_a_" * 5000


@pytest.mark.parametrize(
    ("text", "selector", "count"),
    [
        ("> " * 20 + "a", "blockquote", 20),
        ("\n".join(f"{'  ' * n}- level" for n in range(20)), "li", 20),
        ("**a** " * 240, "strong", 240),
        ("- **a**: _b_\n" * 1000, "strong", 1000),
    ],
)
def test_what_people_write_is_markdown(modules: Page, text: str, selector: str, count: int) -> None:
    assert drawn(modules, text).locator(selector).count() == count


def test_definition_of_a_link_is_not_shown(modules: Page) -> None:
    app = drawn(modules, 'See [the page][1].\n\n[1]: https://example.org/a?b=1&amp;c=2 "Title"')
    assert app.inner_text().strip() == "See the page."
    assert app.get_by_role("link").get_attribute("href") == "https://example.org/a?b=1&c=2"


def test_pages_and_messages_show_the_same_characters_by_their_numbers(modules: Page) -> None:
    found = modules.evaluate(
        """async () => {
          const { reveal } = await import("/seen.js");
          const all = Array.from({ length: 0x110000 }, (_, n) => n);
          return all.filter((n) => reveal(`a${String.fromCodePoint(n)}b`).includes("‹U+"));
        }"""
    )
    known = [n for n in range(0x110000) if unicodedata.category(chr(n)) != "Cn"]
    expected = {n for n in known if "‹U+" in reveal(f"a{chr(n)}b")}
    assert {*found} & {*known} == expected
    assert {0x202E, 0x200D, 0xE0061, 0x1B} < expected


@pytest.mark.parametrize(
    "text",
    [
        "DE89 3704 \u202e2147\u202c 00",
        "می\u200cروم 👩\u200d💻 1\ufe0f\u20e3 👩🏽\u200d🚀",
        "a\u200d \u200d ",
        "\ud800\r\n",
    ],
)
def test_page_shows_a_text_as_messages_do(modules: Page, text: str) -> None:
    """JSON keeps a half of a character on its way into the page."""
    found = modules.evaluate(
        """async (text) => (await import("/seen.js")).reveal(JSON.parse(text))""", json.dumps(text)
    )
    assert found == reveal(text)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("Nora\n\nNeeds: nothing more", "Nora⏎\n⏎\nNeeds: nothing more"),
        ("Nora" + " " * 70 + "Needs: nothing", "Nora‹70 blanks›Needs: nothing"),
        ("‹U+202E›⏎", "‹U+2039›U+202E›‹U+23CE›"),
        ("def f():\n    return 1", "def f():⏎\n    return 1"),
        (" a", "‹1 blank›a"),
    ],
)
def test_value_marks_its_lines_and_gaps(modules: Page, text: str, lines: str) -> None:
    shows = """async (text) => (await import("/seen.js")).show(text)"""
    assert modules.evaluate(shows, text) == lines


def test_every_text_of_an_element_can_be_seen(modules: Page) -> None:
    found = modules.evaluate(
        """async () => {
          const { html, paint } = await import("/dom.js");
          const Inner = ({ children }) => html`<i>${children}</i>`;
          const app = document.getElementById("app");
          paint(html`<p>${"a\u202eb"}${["c\u200b", 7, null]}<${Inner}>${"d\ufeff"}</${Inner}></p>`, app);
          return app.textContent;
        }"""
    )
    assert found == "a‹U+202E›bc‹U+200B›7d‹U+FEFF›"

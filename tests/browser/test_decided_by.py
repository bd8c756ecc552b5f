"""What a person decides by in the inbox and on the page of a link: every name and value is there as it is, or
nobody decides there."""

import json
import re
from typing import Any

from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from playwright.sync_api import Page

from support.examples import examples, share

AT_ONCE = 25
"""Requests that the page shows for one example, each in the place of the one before."""
_ODD = ["\u202e", "\u2066", "\u200b", "\u200d", "\ufe0f", "\u05d0", "\u2028", "\x1b", "\ufeff"]
_HOSTILE = st.text(
    st.sampled_from([*"&<{x. \n‹⏎›U+27", *_ODD]), min_size=1, max_size=40
) | st.builds(
    lambda mark, n: mark * n,
    st.sampled_from(["&", " ", "x", "\U0001f600", "x\n\n"]),
    st.sampled_from([1, 19, 70, 300, 3_000, 30_000]),
)
_NESTED = st.recursive(
    _HOSTILE | st.integers(-(10**20), 10**20) | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_HOSTILE, inner, max_size=3),
    max_leaves=6,
)
ARGS = st.dictionaries(_HOSTILE | st.just("__proto__"), _NESTED, min_size=1, max_size=8)
PLACES = {"conversation": "h3", "inbox": "h2", "link": "h1"}
_MARK = re.compile("‹U\\+([0-9A-F]+)›|‹([0-9]+) blanks?›|(⏎\n)")
_BARE = re.compile("[\u202a-\u202e\u2066\u2067\u200b\ufeff\x1b\u2028]")
SHOWN = """async ([requests, kind, heading]) => {
  const { html, paint } = await import("/dom.js");
  const { Decision } = await import("/decision.js");
  const { parseJson } = await import("/numbers.js");
  const app = document.getElementById("app");
  return requests.map((json, n) => {
    const args = parseJson(json);
    const call = { run_id: "r", tool_call_id: `c${n}`, tool_name: "pay", attempt: 1 };
    const waits = { requested_at: "2026-01-01T00:00:00Z", denied_before: [], resume_schema: {} };
    const wish = { kind, agent_path: ["shop"], args: kind === "input" ? {} : args, payload: args };
    const about = { pending: { ...call, ...waits, ...wish }, heading, decide: () => null };
    paint(html`<${Decision} key=${n} mine ...${about} />`, app);
    const rows = [...app.querySelectorAll(".choice dl.values > div")];
    const text = (row, name) => row.querySelector(name).textContent;
    const texts = rows.map((row) => [text(row, "dt"), text(row, "dd")]);
    const isHidden = rows.some((row) => row.closest("details:not([open])"));
    const buttons = app.querySelectorAll("button").length;
    return { rows: isHidden ? [] : texts, buttons, all: app.textContent };
  });
}"""


@examples(400 // share(10), HealthCheck.function_scoped_fixture)
@given(
    st.lists(ARGS, min_size=AT_ONCE, max_size=AT_ONCE),
    st.sampled_from(["approval", "input"]),
    st.sampled_from(sorted(PLACES)),
)
def test_pages_have_every_argument_as_it_is_or_no_button(
    modules: Page, requests: list[dict[str, Any]], kind: str, place: str
) -> None:
    sent = [json.dumps(args, ensure_ascii=False) for args in requests]
    shown = modules.evaluate(SHOWN, [sent, kind, PLACES[place]])
    for args, page in zip(requests, shown, strict=True):
        assert not _BARE.search(page["all"])
        assert not page["buttons"] or is_whole(args, page["rows"]), (args, page["rows"])


def is_whole(args: dict[str, Any], rows: list[list[str]]) -> bool:
    """Whether a reader gets exactly these names and values from what is shown."""
    names = [meant(name) for name, _ in rows]
    return sorted(names) == sorted(map(plain, args)) and all(
        any(plain(name) == meant(shown) and is_said(args[name], value) for name in args)
        for shown, value in rows
    )


def plain(text: str) -> str:
    """A text whose ends of lines are of one kind: a page shows them alike."""
    return re.sub("[\r\v\f\x1c-\x1e\x85\u2028\u2029]", "\n", text.replace("\r\n", "\n"))


def meant(shown: str) -> str:
    """What a reader makes of a text with marks."""
    return _MARK.sub(_unmarked, shown)


def _unmarked(mark: re.Match[str]) -> str:
    number, blanks, end = mark.groups()
    if end:
        return "\n"
    return chr(int(number, 16)) if number else " " * int(blanks)


def is_said(value: Any, seen: str) -> bool:
    """Whether a reader gets exactly this value from what is shown."""
    if isinstance(value, str):
        return meant(seen) == plain(value)
    if isinstance(value, list) and not any(
        isinstance(each, dict | list) or each is None for each in value
    ):
        texts = [plain(each) if isinstance(each, str) else json.dumps(each) for each in value]
        return meant(seen) == ", ".join(texts)
    return "⏎" not in seen and bool(json.loads(meant(seen), strict=False) == value)

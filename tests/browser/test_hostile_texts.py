"""Texts of models, tools and other people, in all places of a request and of an answer: they stay texts, each
of their characters can be seen, and no host but the page's own is asked."""

import html
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, Request

from browser.conftest import PICTURES
from layover.clock import ManualClock
from layover.desk.cli.chat.calls import signature
from layover.desk.local.terminal.lines import waiting
from layover.plugins.fronts.protocols.mcp_tools import waits_text
from layover.plugins.people.channels.mail.mails import write_mail
from layover.plugins.people.channels.slack.sender import message_blocks
from layover.plugins.people.channels.teams.cards import write_card
from layover.values.channels import Channels
from layover.values.runs.views import Pending, Run
from layover.values.text import reveal
from support.slack import LINKS, make_notice, visible

FAR = "https://elsewhere.example/x"
MARKUP = [
    "<script>fetch('https://elsewhere.example/x')</script>",
    f"<img src={FAR} onerror=alert(1)>",
    f"<svg onload=\"location='{FAR}'\"><image href={FAR} /></svg>",
    f"<iframe src={FAR}></iframe>",
    '<iframe srcdoc="<script>parent.alert(1)</script>"></iframe>',
    f"<base href={FAR}>",
    f"<meta http-equiv=refresh content='0;url={FAR}'>",
    f"<link rel=stylesheet href={FAR}>",
    f"<style>@import '{FAR}'; * {{ background: url({FAR}) }}</style>",
    f"<form action={FAR}><button>Approve</button></form>",
    f"<object data={FAR}></object><embed src={FAR}>",
    f"<video poster={FAR} autoplay><source src={FAR}></video>",
    f"<a href=javascript:alert(1) ping={FAR}>Approve</a>",
    f"</pre></p></section><img src={FAR}>",
    f"<!-- --><img src={FAR}>-->",
    f"]]><img src={FAR}>",
    f"<math><mtext><img src={FAR}></mtext></math>",
    f"&lt;img src={FAR}&gt; &#60;img src={FAR}&#62;",
    f'" autofocus onfocus="alert(1)" style="background:url({FAR})',
    "' onmouseover='alert(1)",
    "${alert(1)} {{constructor.constructor('alert(1)')()}} <%= 1 %>",
    f"<x-element data-src={FAR} is=script>",
]
MARKDOWN = [
    f"![a picture]({FAR})",
    f"![][1]\n\n[1]: {FAR}",
    "[Approve](javascript:alert(1))",
    "[Approve](JaVaScRiPt&colon;alert(1))",
    "[Approve](java\nscript:alert(1))",
    "[Approve](data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==)",
    "[Approve](vbscript:msgbox(1))",
    "[Approve](//elsewhere.example/x)",
    "[Approve](file:///etc/passwd)",
    f'[Approve]({FAR} "title" onclick="alert(1)")',
    f"<{FAR}>",
    f"[![picture]({FAR})]({FAR})",
    f"| a | b |\n| - | - |\n| ![x]({FAR}) | <img src={FAR}> |",
    f"```html\n<img src={FAR}>\n```",
    f"- [ ] <input type=image src={FAR}>",
    f"# <img src={FAR}>\n> ![x]({FAR})",
    "[a](&#x6A;avascript:alert(1))",
    "**" * 30 + "<b>" + "**" * 30,
]
UNSEEN = [
    "DE89 3704 \u202e2147\u202c 00",
    "\u2066pay\u2069 \u2067nobody",
    "a\u200bb\u200cc\u200dd\u2060e\ufefff",
    "\U000e0070\U000e0061\U000e0079",
    "soft\u00adhyphen",
    "\u3164\uffa0\u115f\u1160",
    "\u2800\u2800\u2800",
    "bell\x07 escape\x1b[31m nul\x00",
    "a\ufe0fb\U000e0100c",
    "\u180e\u061c\u200e\u200f",
    "\ue000\uf8ff",
    "\ufff9note\ufffabelow\ufffb",
    "\ud800",
    "\u206a\u206f",
]
LINES = [
    "900\n\nNeeds: nothing more",
    "900\r\nNeeds: nothing more",
    "900\u2028Needs: nothing more",
    "900\x85Needs: nothing more",
    "900" + " " * 70 + "Needs: nothing more",
    "‹U+202E›⏎",
]
TEXTS = [*MARKUP, *MARKDOWN, *UNSEEN, *LINES]
FORBIDDEN = (
    "script, img, iframe, object, embed, base, meta, link, style, video, audio, image, [onerror]"
)
Json = dict[str, Any]


def pending_with(text: str) -> Json:
    """A waiting call in which others wrote all that they can write."""
    vote = {"by": text, "at": "2026-11-30T00:00:00Z", "reason": text, "args": {text: text}}
    return {
        "run_id": "run_1",
        "tool_call_id": "call_1",
        "tool_name": text,
        "agent": text,
        "agent_path": ["desk", text],
        "summary": text,
        "attempt": 1,
        "kind": "approval",
        "args": {text: text, "nested": {"list": [text, {text: text}]}},
        "args_schema": None,
        "payload": {text: text},
        "resume_schema": {},
        "approval": {"by": [text], "quorum": 2, "given": [vote], "requester": True},
        "denied_before": [{**vote, "decided_by": text}],
        "escalated_to": [text],
    }


@pytest.fixture
def asked(modules: Page) -> list[Request]:
    """What the page asks for, and what it says; a test looks at both at its end."""
    asked: list[Request] = []
    modules.on("request", lambda request: asked.append(request))
    modules.on("dialog", lambda dialog: pytest.fail(f"the page says {dialog.message}"))
    modules.route("https://elsewhere.example/**", lambda route: route.fulfill(body=""))
    return asked


_PAINT = """async ([texts, forbidden, kind]) => {
  const { Decision } = await import("/decision.js");
  const { Markdown } = await import("/markdown.js");
  const { html, paint } = await import("/dom.js");
  const app = document.getElementById("app"), soon = () => new Promise((done) => setTimeout(done, 5));
  const found = [];
  for (const text of JSON.parse(texts)) {
    paint(null, app);
    const decide = async () => {};
    paint(kind === "request" ? html`<${Decision} pending=${text} me="ann" owner="ann" decide=${decide} />`
      : html`<${Markdown} text=${text} />`, app);
    await soon();
    found.push({
      seen: app.innerText, markup: app.querySelectorAll(forbidden).length,
      links: [...app.querySelectorAll("a, area, form, button")].map((each) => [each.getAttribute("href") ?? each.getAttribute("action"), each.rel ?? ""]),
    });
  }
  return found;
}"""  # noqa: E501 - one script of the page


def painted(modules: Page, texts: list[Any], kind: str) -> list[Json]:
    """What a page shows of each."""
    found: list[Json] = modules.evaluate(_PAINT, [json.dumps(texts), FORBIDDEN, kind])
    modules.wait_for_timeout(50)  # A picture is asked for after its element is there.
    return found


def test_there_are_sixty_texts() -> None:
    assert len({*TEXTS}) == len(TEXTS) == 60


def test_request_shows_hostile_texts_as_texts(modules: Page, asked: list[Request]) -> None:
    found = painted(modules, [pending_with(text) for text in TEXTS], "request")
    for text, page in zip(TEXTS, found, strict=True):
        assert page["markup"] == 0, text
        assert [href for href, _ in page["links"] if href] == [], text
        assert reveal(page["seen"]) == page["seen"], text
    assert {request.url.split("/")[2] for request in asked} == {"console.test"}


def test_answer_shows_hostile_texts_as_texts(modules: Page, asked: list[Request]) -> None:
    found = painted(modules, TEXTS, "answer")
    for text, page in zip(TEXTS, found, strict=True):
        assert page["markup"] == 0, text
        assert reveal(page["seen"]) == page["seen"], text
        for href, rel in page["links"]:
            assert href is None or (href.startswith("https://") and rel == "noopener noreferrer")
    assert {request.url.split("/")[2] for request in asked} == {"console.test"}


ACCOUNT = "DE89 3704 \u202e2147\u202c 00"
READS = "DE89 3704 ‹U+202E›2147‹U+202C› 00"
_ISOLATES = dict.fromkeys(map(ord, "\u2068\u2069"))


def in_messages(args: Json) -> Iterator[tuple[str, str]]:
    """Where a request is read outside of pages, and as what."""
    notice = make_notice(ManualClock(), args=args, summary=f"Pay {ACCOUNT}", tool_name="pay")
    yield "Slack", visible({"blocks": message_blocks(notice, LINKS)})
    mail = write_mail(notice, LINKS, Channels())
    yield "Mail", mail.text
    yield "Mail in HTML", html.unescape(re.sub(r"(?s)<style>.*?</style>|<[^>]*>", " ", mail.html))
    [card] = json.loads(write_card(notice, LINKS, Channels()))["attachments"]
    body = card["content"]["body"]
    yield "Teams", "\n".join("".join(run["text"] for run in block["inlines"]) for block in body)
    facts = {"tool_name": "pay", "args": args, "kind": "approval"}
    yield "layover chat", signature(facts)
    ids = {"agent": "shop", "run_id": "run_1", "tool_call_id": "c1"}
    yield "layover dev", waiting("http://here", "ann", {**facts, **ids})
    fields = {name: getattr(notice.call, name) for name in Pending.model_fields.keys() & CALL}
    pending = Pending(**fields, summary=f"Pay {ACCOUNT}")
    facts_of_run: Json = {"id": "run_1", "pending": (pending,)}
    yield "POST /mcp", waits_text(Run.model_construct(**facts_of_run), "again", "u")


CALL = {
    *("tool_call_id", "tool_name", "args", "kind", "payload", "resume_schema", "attempt"),
    *("agent_path", "requested_at"),
}


def test_account_reads_alike_in_all_places(modules: Page) -> None:
    """A picture shows all of them side by side: build/console/decided-by.png."""
    args = {"to_account": ACCOUNT, "amount": 900}
    request = {**pending_with("bea"), "args": args, "summary": f"Pay {ACCOUNT}"}
    places = dict(in_messages(args))
    for place, text in places.items():
        flat = re.sub("‹([.:])›", r"\1", text.translate(_ISOLATES))
        assert READS in flat, place
        assert "\u202e" not in text, place
    pages = modules.evaluate(
        """async ([request, places]) => {
          const { Decision } = await import("/decision.js");
          const { html, paint } = await import("/dom.js");
          const app = document.getElementById("app");
          const panels = Object.entries(JSON.parse(places));
          paint(html`<style>main { columns: 3; font: 13px sans-serif } article { break-inside: avoid; border: 1px solid;
              margin: 0 0 8px; padding: 8px } pre { white-space: pre-wrap }</style>
            <main>${["Inbox", "Link"].map((name) => html`<article key=${name}><h2>${name}</h2>
              <${Decision} pending=${JSON.parse(request)} me="ann" decide=${async () => {}} /></article>`)}
            ${panels.map(([name, text]) => html`<article key=${name}><h2>${name}</h2><pre>${text}</pre></article>`)}</main>`, app);
          await new Promise((done) => setTimeout(done, 30));
          return app.innerText;
        }""",  # noqa: E501 - one script of the page
        [json.dumps(request), json.dumps(places)],
    )
    assert pages.count(READS) >= 2 + len(places)
    assert "\u202e" not in pages
    PICTURES.mkdir(parents=True, exist_ok=True)
    modules.screenshot(path=PICTURES / "decided-by.png", full_page=True)

"""What a person decides by: every name and value is there, or nobody decides there."""

import html
import json
import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from layover.approvals.decide import Verdict
from layover.clock import ManualClock
from layover.desk.cli.chat.calls import signature
from layover.desk.local.terminal.lines import waiting
from layover.plugins.fronts.protocols.mcp_tools import (
    agent_tool,
    decision_request,
    run_result,
    run_tool,
)
from layover.plugins.people.channels.mail.mails import write_mail
from layover.plugins.people.channels.slack.block_kit import FORMS, CallRef
from layover.plugins.people.channels.slack.forms import form_view
from layover.plugins.people.channels.slack.sender import message_blocks
from layover.plugins.people.channels.slack.twin_rules import check_blocks, check_view
from layover.plugins.people.channels.teams.cards import MAX_BYTES, write_card
from layover.plugins.people.words import MAX_ARGUMENT, MISSING, value_text
from layover.values.channels import Channels
from layover.values.decision import ApprovalRule
from layover.values.runs.run import SuspensionKind
from layover.values.runs.status import Status
from layover.values.runs.views import Run
from layover.values.text import show
from support.examples import examples, share
from support.slack import LINKS, buttons, make_notice, visible

DECIDES = {"Approve", "Deny", "Approve with a reason", "Deny with a reason", "Answer", "Decline"}
_SIZES = st.sampled_from([1, 3, 60, 300, 600, MAX_ARGUMENT, MAX_ARGUMENT + 1, 3_000, 30_000])
_TEXTS = st.builds(lambda mark, n: mark * n, st.sampled_from(["&", "<", "x", "\U0001f600"]), _SIZES)
_VALUES = _TEXTS | st.integers(1_000, 10**9) | st.lists(_TEXTS, min_size=1, max_size=3)
ARGS = st.lists(_VALUES, min_size=1, max_size=25).map(
    lambda values: {f"name{n}": value for n, value in enumerate(values)}
)


def missing(args: dict[str, Any], seen: str) -> list[str]:
    """The names of the arguments that a person does not see whole."""
    texts = {name: value if isinstance(value, list) else [value] for name, value in args.items()}
    return [
        name
        for name, values in texts.items()
        if name not in seen or not all(str(value) in seen for value in values)
    ]


@examples(2_000 // share(5))
@given(ARGS, st.sampled_from(SuspensionKind), st.booleans())
def test_slack_has_every_argument_or_no_button(
    args: dict[str, Any], kind: SuspensionKind, by_reason: bool
) -> None:
    rule = ApprovalRule(by=("finance",), reason_required=by_reason)
    is_input = kind is SuspensionKind.INPUT
    wish: Any = {"args": {}, "payload": args} if is_input else {"args": args}
    notice = make_notice(ManualClock(), rule=rule, **wish)
    call = notice.call.model_copy(update={"kind": kind})
    notice = notice.model_copy(update={"call": call})
    blocks = message_blocks(notice, LINKS)
    assert check_blocks(blocks) == []
    hidden = missing(args, visible({"blocks": blocks}))
    assert "Open in the console" in buttons({"blocks": blocks})
    if hidden:
        assert not DECIDES & {*buttons({"blocks": blocks})}
        assert "Not all of it fits here" in visible({"blocks": blocks})
    for verdict in FORMS.values():
        view = form_view(notice, CallRef("run_1", "c1", 1), verdict)
        assert check_view(view) == []
        if missing(args, visible(view)):
            assert "submit" not in view
    if kind is SuspensionKind.APPROVAL and sum(len(str(v)) for v in args.values()) < 500:
        assert "submit" in form_view(notice, CallRef("run_1", "c1", 1), Verdict.DENY)
        assert DECIDES & {*buttons({"blocks": blocks})}


_HOSTILE = st.text(
    st.sampled_from([*"&<{x.:/ \n‹⏎@", "\u202e", "\u2066", "\u200b", "\u200d", "\ufe0f", "\u05d0"]),
    min_size=1,
    max_size=40,
) | st.sampled_from(["https://evil.example/decide/abc", "www.evil.example", "{{{DATE(x)}}}"])
HOSTILE_ARGS = st.dictionaries(_HOSTILE, _HOSTILE, min_size=1, max_size=6) | ARGS
_BARE = re.compile("[\u202a-\u202e\u2066\u2067\u200b]")
_ISOLATES = dict.fromkeys(map(ord, "\u2068\u2069"))


def lacks(args: dict[str, Any], seen: str) -> list[str]:
    """The arguments of which a text does not have the name with the whole value on one line."""
    assert not _BARE.search(seen)
    flat = seen.translate(_ISOLATES)
    return [
        name
        for name, value in args.items()
        if f"{show(name)}: {value_text(value)}".translate(_ISOLATES) not in flat
        or value_text(value).endswith("see the console)")
    ]


def unlinked(text: str) -> str:
    """A mail's text with its addresses as they were, of which a mail program makes no link."""
    own = text.replace(LINKS.console, "")
    assert "://" not in own
    assert not re.search(r"\bwww\.|evil\.", own)
    return re.sub("‹([.:])›", r"\1", own)


@examples(10_000 // share(25))
@given(HOSTILE_ARGS)
def test_messages_have_every_argument_or_say_that_they_do_not(args: dict[str, Any]) -> None:
    notice = make_notice(ManualClock(), args=args)
    blocks = {"blocks": message_blocks(notice, LINKS)}
    if lacks(args, visible(blocks)):
        assert buttons(blocks) == ["Open in the console"]
        assert MISSING in visible(blocks)
    mail = write_mail(notice, LINKS, Channels())
    cells = re.sub(r"(?s)<style>.*?</style>|<[^>]*>", "\n", mail.html)
    for seen in (unlinked(mail.text), unlinked(html.unescape(cells))):
        assert not lacks(args, seen) or MISSING in seen
    card = write_card(notice, LINKS, Channels())
    assert len(card) <= MAX_BYTES
    [attachment] = json.loads(card)["attachments"]
    body = attachment["content"]["body"]
    lines = ["".join(run["text"] for run in block["inlines"]) for block in body]
    assert not any("{{" in line for line in lines)
    seen = "\n".join(lines)
    braces = {name.replace("{{", "{ {"): value for name, value in args.items()}
    if "{{" not in compact(braces):
        assert not lacks(braces, seen) or MISSING in seen


def compact(args: dict[str, Any]) -> str:
    """All names and texts."""
    return json.dumps(args, ensure_ascii=False)


@examples(10_000 // share(25))
@given(HOSTILE_ARGS)
def test_terminals_have_every_argument_or_no_command(args: dict[str, Any]) -> None:
    pending = {"tool_name": "pay", "args": args, "kind": "approval"}
    asked = signature(pending).translate(_ISOLATES)
    for name, value in args.items():
        assert f"{show(name)}={show(json.dumps(value, ensure_ascii=False))}" in asked
    detail = {**pending, "agent": "shop", "run_id": "run_1", "tool_call_id": "c1"}
    line = waiting("http://here", "ann", detail)
    whole = show(json.dumps(args, ensure_ascii=False))
    assert whole in line.translate(_ISOLATES) or "curl" not in line
    assert not _BARE.search(line + asked)


@examples(10_000 // share(25))
@given(HOSTILE_ARGS, _HOSTILE, st.sampled_from(SuspensionKind))
def test_clients_of_mcp_are_led_to_the_page_and_decide_nothing(
    args: dict[str, Any], summary: str, kind: SuspensionKind
) -> None:
    call = make_notice(ManualClock(), args=args, payload=args, summary=summary).call
    pending = call.model_copy(update={"kind": kind, "approval": None})
    ids: dict[str, Any] = {"id": "run_1", "thread_id": "t1", "agent": "shop", "output": None}
    about: dict[str, Any] = {
        "status": Status.SUSPENDED,
        "pending": (pending,),
        "text": "",
        "error": None,
    }
    run = Run.model_construct(**ids, **about)
    result = run_result(run, "get_run", LINKS.console)
    asked = decision_request(run, LINKS.console)["inputRequests"]["decision"]["params"]
    seen = json.dumps([result, asked], ensure_ascii=False)
    assert not _BARE.search(seen)
    # No argument is there whole, so an answer has nothing to say: its user decides on the page.
    assert all(name in ("message", "thread_id", "run_id") for name in fields_of_tools())
    assert asked.keys() == {"mode", "message", "url"}
    assert (asked["mode"], asked["url"]) == ("url", LINKS.console)
    assert asked["message"].endswith("You decide on this page, which shows all of it.")
    assert result["structuredContent"]["url"] == LINKS.console
    text = result["content"][0]["text"]
    assert text.startswith("This waits for a person. No tool here can decide it:\n- ")
    # One line a call, whatever its words are.
    assert len(text.splitlines()) == 4
    assert text.splitlines()[2] == f"The user decides at {LINKS.console}"


def fields_of_tools() -> list[str]:
    """What a client may say to any tool."""
    tools = [agent_tool("shop", None), run_tool("get_run")]
    return [name for each in tools for name in each["inputSchema"]["properties"]]


@examples(200)
@given(_HOSTILE, _HOSTILE)
def test_two_texts_are_never_shown_alike(one: str, other: str) -> None:
    assert one == other or show(one) != show(other)

"""Messages in Slack: what is refused and who mends it, what nobody can smuggle in, and what people see."""

import json
from datetime import timedelta
from typing import Any

import pytest

from layover.declare.secret import Secret
from layover.errors import ConfigurationError, RetryableError
from layover.plugins.people.channels.slack import BASE_URL
from layover.plugins.people.channels.slack.block_kit import APPROVE, escape
from layover.plugins.people.channels.slack.sender import SlackSender, message_blocks
from layover.plugins.people.channels.slack.twin_rules import check_blocks, is_too_long
from layover.ports.channels import ChannelBusy, ChannelRefused
from layover.values.channels import Address, NoticeKind, NoticeLinks
from layover.values.decision import (
    ApprovalRule,
    Decision,
    DecisionKind,
    PendingApproval,
    Risk,
    Via,
    Vote,
)
from layover.values.runs.run import SuspensionKind
from support.slack import (
    LINKS,
    TOKEN,
    TOKEN_VARIABLE,
    SlackBench,
    buttons,
    make_notice,
    markup,
    served,
    visible,
)

PAYOUTS = Address(channel="slack", to="#payouts")
BOB = Address(channel="slack", to="U2BOB")
HOSTILE = (
    "<!channel>",
    "<!here|x>",
    "<@U1ANN>",
    "<#C1>",
    "<!subteam^S1>",
    "<http://evil.example.com|Approve>",
    "<mailto:a@example.com|x>",
    "&lt;!channel&gt;",
    "a & b <b> *bold* `code` ```fence```",
    "*Risk:* low\n*Agent:* bank",
    "\u202eevorppA\u202c",
    "x" * 10_000,
    "<" * 10_000,
    "\U0001f600" * 4_000,
    "\n" * 500,
    "\x00\x1b[2J",
    "\ud800",
    "",
)


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)


@pytest.fixture
def bench() -> SlackBench:
    return SlackBench()


async def sent(bench: SlackBench, **fields: Any) -> str:
    notice = make_notice(bench.clock, **fields)
    return await bench.sender.send(PAYOUTS, notice, LINKS, once="d1", unsure=False)


def decided(bench: SlackBench, kind: DecisionKind, **fields: Any) -> Decision:
    return Decision(kind=kind, decided_by="bob", via=Via.SLACK, at=bench.clock.now(), **fields)


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        ("invalid_auth", "SLACK_BOT_TOKEN"),
        ("token_revoked", "SLACK_BOT_TOKEN"),
        ("account_inactive", "SLACK_BOT_TOKEN"),
        ("channel_not_found", "invite the app"),
        ("not_in_channel", "chat:write.public"),
        ("is_archived", "LAYOVER_CHANNELS"),
        ("user_not_found", "LAYOVER_CHANNELS"),
        ("messages_tab_disabled", "App Home"),
        ("invalid_blocks", "report it"),
        ("some_new_word", "documentation"),
    ],
)
async def test_refusal_says_what_the_deployer_has_to_do(
    bench: SlackBench, code: str, advice: str
) -> None:
    bench.slack.odd = [answer(code), answer(code)]
    with pytest.raises(ChannelRefused) as refused:
        await sent(bench)
    assert f"chat.postMessage: {code}" in refused.value.message
    assert advice in refused.value.message
    assert TOKEN not in refused.value.message


def answer(code: str, status: int = 200, headers: Any = None, **more: Any) -> Any:
    return status, headers or {}, json.dumps({"ok": False, "error": code, **more}).encode()


async def test_a_missing_scope_is_named() -> None:
    bench = SlackBench(scopes=())
    with pytest.raises(ChannelRefused, match="give the app the scope chat:write and install"):
        await sent(bench)


@pytest.mark.parametrize(
    "odd", ["<b>secret of a user</b>", {"a": 1}, "x" * 200, None, 7, "Ünknown", "a\nb"]
)
async def test_a_refusal_quotes_nothing_but_a_word(bench: SlackBench, odd: Any) -> None:
    bench.slack.odd = [answer(odd)]
    with pytest.raises(ChannelRefused, match="invalid_response"):
        await sent(bench)


@pytest.mark.parametrize("body", [b"", b"[]", b"<html>", b"\xff", b'{"ok": "yes"}', b"[" * 9_000])
async def test_an_answer_that_is_not_slacks_is_refused(bench: SlackBench, body: bytes) -> None:
    bench.slack.odd = [(200, {}, body)]
    with pytest.raises(ChannelRefused, match="invalid_response"):
        await sent(bench)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("30", 30), ("", 1), ("0", 1), ("soon", 1), ("9" * 50, 1), ("999999", 3600), ("٣", 1)],
)
async def test_a_throttled_message_waits_for_as_long_as_slack_says(
    bench: SlackBench, header: str, seconds: int
) -> None:
    bench.slack.odd = [answer("ratelimited", 429, {"retry-after": header})]
    with pytest.raises(ChannelBusy) as busy:
        await sent(bench)
    assert busy.value.after == timedelta(seconds=seconds)
    bench.slack.odd = [answer("ratelimited", 200, {"retry-after": header})]
    with pytest.raises(ChannelBusy) as busy:
        await sent(bench)
    assert busy.value.after == timedelta(seconds=seconds)


async def test_second_message_within_a_second_is_throttled_and_sent_a_second_later(
    bench: SlackBench,
) -> None:
    await sent(bench)
    with pytest.raises(ChannelBusy):
        await sent(bench)
    bench.pass_a_second()
    await sent(bench)
    assert len(bench.slack.messages("#payouts")) == 2


@pytest.mark.parametrize("status", [500, 502, 503])
async def test_broken_slack_may_be_asked_again(bench: SlackBench, status: int) -> None:
    bench.slack.odd = [(status, {}, b"oops"), answer("internal_error")]
    for _ in range(2):
        with pytest.raises(RetryableError) as failed:
            await sent(bench)
        assert not isinstance(failed.value, ChannelBusy)
    bench.client.down = True
    with pytest.raises(RetryableError, match="ConnectionRefusedError"):
        await sent(bench)


async def test_without_a_token_nothing_is_asked(
    bench: SlackBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE)
    with pytest.raises(ConfigurationError, match="SLACK_BOT_TOKEN"):
        await sent(bench)
    assert bench.slack.asked == []


async def test_a_token_that_was_replaced_is_read_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = SlackBench()

    class Rotated(Secret):
        async def aget(self, *, fresh: bool = False) -> str:
            return TOKEN if fresh else "xoxb-before"

    sender = SlackSender(Rotated(TOKEN_VARIABLE), BASE_URL, http=lambda: bench.client)
    notice = make_notice(bench.clock)
    await sender.send(PAYOUTS, notice, LINKS, once="d1", unsure=False)
    assert bench.slack.asked == ["chat.postMessage", "chat.postMessage"]


@pytest.mark.parametrize("hostile", HOSTILE)
async def test_nothing_that_people_or_models_wrote_becomes_markup(
    bench: SlackBench, hostile: str
) -> None:
    rule = ApprovalRule(by=(hostile, "finance"), quorum=2)
    vote = Vote(by=hostile, at=bench.clock.now(), reason=hostile)
    texts = {
        "summary": hostile,
        "tool_name": hostile,
        "args": {hostile or "a": hostile, "b": [hostile, {"c": hostile}]},
        "agent_path": (hostile, hostile),
        "rule": rule,
    }
    for kind in NoticeKind:
        notice = make_notice(bench.clock, kind, risk=Risk.HIGH, **texts)
        approval = {**rule.model_dump(), "given": [vote]}
        call = notice.call.model_copy(update={"approval": PendingApproval.model_validate(approval)})
        decision = decided(bench, DecisionKind.DENIED, reason=hostile)
        notice = notice.model_copy(
            update={
                "call": call,
                "owner": hostile,
                "decision": decision if kind is NoticeKind.DECIDED else None,
            }
        )
        bench.pass_a_second()
        await bench.sender.send(PAYOUTS, notice, LINKS, once="d1", unsure=False)
        message = bench.slack.messages("#payouts")[-1]
        own = set() if not kind.is_closed else {f"{LINKS.console}|Open in the console"}
        assert set(markup(message)) == own
        assert "\u202e" not in visible(message)
        assert not check_blocks(message["blocks"])
        labels = {"Open in the console", *([] if len(hostile) > 300 else ["Approve", "Deny"])}
        assert set(buttons(message)) == (set() if kind.is_closed else labels)


@pytest.mark.parametrize(
    ("text", "limit", "escaped"),
    [
        ("a<b", 6, "a&lt;b"),
        ("a<b", 5, "a…"),
        ("<<", 4, "…"),
        ("&&", 9, "&amp;…"),
        ("\U0001f600\U0001f600", 4, "\U0001f600\U0001f600"),
        ("\U0001f600\U0001f600", 3, "\U0001f600…"),
        ("&amp;", 9, "&amp;amp;"),
        ("", 1, ""),
    ],
)
def test_a_text_is_cut_between_characters_as_slack_counts_them(
    text: str, limit: int, escaped: str
) -> None:
    assert escape(text, limit) == escaped


def test_most_that_a_message_can_say_fits(bench: SlackBench) -> None:
    args = {f"argument {n} {'n' * 50}": "&" * 5_000 for n in range(60)}
    notice = make_notice(bench.clock, args=args, summary="&" * 500, agent_path=("a" * 900,) * 9)
    assert check_blocks(message_blocks(notice, LINKS)) == []


@pytest.mark.parametrize("mark", ["x", "&", "\U0001f600"])
@pytest.mark.parametrize("kind", [NoticeKind.REQUESTED, NoticeKind.DECIDED, NoticeKind.VOTED])
def test_texts_of_a_message_are_as_long_together_as_slack_takes(
    bench: SlackBench, kind: NoticeKind, mark: str
) -> None:
    """A long outcome leaves less room for the facts, and wide characters count twice."""
    args = {f"a{n}": mark * 1_000 for n in range(20)}
    edit = {name: f"{value[1:]}!" for name, value in args.items()}
    decision = decided(bench, DecisionKind.APPROVED, exact_args=edit, reason=mark * 500)
    notice = make_notice(bench.clock, kind, args=args, summary=mark * 300)
    if kind is NoticeKind.DECIDED:
        notice = notice.model_copy(update={"decision": decision})
    blocks = message_blocks(notice, LINKS)
    assert not check_blocks(blocks)
    assert not is_too_long(blocks)


@pytest.mark.parametrize(
    "long",
    [
        {"memo": "&" * 601, "reference": "&" * 300},
        {"memo": "<" * 1_000, "reference": "x"},
        {f"a{n}": "x" * 1_000 for n in range(12)},
        {f"a{n}": n for n in range(20)},
        {"n" * 65: "x"},
    ],
)
def test_message_without_every_argument_leads_to_the_console(
    bench: SlackBench, long: dict[str, Any]
) -> None:
    """A model chooses the length and the order of what it writes: an amount behind it is not hidden."""
    notice = make_notice(bench.clock, args={**long, "euros": 90_000, "to": "DE-ATTACKER"})
    message = {"blocks": message_blocks(notice, LINKS)}
    assert buttons(message) == ["Open in the console"]
    assert "Not all of it fits here. The console shows it whole." in visible(message)


def test_texts_that_grow_when_they_are_escaped_are_whole(bench: SlackBench) -> None:
    args = {"memo": "&" * 500, "reference": "&" * 500, "euros": 90_000, "to": "DE-ATTACKER"}
    message = {"blocks": message_blocks(make_notice(bench.clock, args=args), LINKS)}
    assert buttons(message) == ["Approve", "Deny", "Open in the console"]
    assert all(str(value) in visible(message) for value in args.values())


async def test_message_says_what_a_person_decides_by(bench: SlackBench) -> None:
    reference = await sent(bench, risk=Risk.HIGH, summary="Pay 80 euros back")
    [message] = bench.slack.messages("#payouts")
    assert reference == f"{bench.slack._channel('#payouts').id}:{message['ts']}"  # type: ignore[union-attr]
    said = visible(message)
    for fact in (
        "pay 80 euros back",
        "support",
        "refund",
        "high",
        "order_id: o1",
        "amount: 80",
        "ann",
    ):
        assert fact in said
    assert buttons(message) == ["Approve", "Deny", "Open in the console"]
    [shown] = bench.outbox.items
    assert (shown["channel"], shown["to"], shown["kind"]) == ("slack", "#payouts", "message")
    assert "pay 80 euros back" in shown["text"]
    assert shown["link"] == LINKS.console


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (
            {"rule": ApprovalRule(by=("finance",), reason_required=True)},
            ["Approve with a reason", "Deny with a reason"],
        ),
        ({"kind": SuspensionKind.INPUT}, ["Answer", "Decline"]),
        (
            {
                "kind": SuspensionKind.INPUT,
                "rule": ApprovalRule(by=("finance",), reason_required=True),
            },
            ["Answer", "Decline with a reason"],
        ),
        ({"kind": SuspensionKind.CONNECT, "payload": {"connection": "github"}}, ["Deny"]),
        # Its reference does not fit into a button: the console decides.
        ({"tool_call_id": "c" * 2_000}, []),
    ],
)
async def test_buttons_are_those_that_the_call_takes(
    bench: SlackBench, fields: dict[str, Any], expected: list[str]
) -> None:
    call_kind = fields.pop("kind", SuspensionKind.APPROVAL)
    notice = make_notice(bench.clock, **fields)
    notice = notice.model_copy(update={"call": notice.call.model_copy(update={"kind": call_kind})})
    await bench.sender.send(PAYOUTS, notice, LINKS, once="d1", unsure=False)
    [message] = bench.slack.messages("#payouts")
    assert buttons(message) == [*expected, "Open in the console"]


@pytest.mark.parametrize("url", ["", "javascript:alert(1)", "https://x.example/" + "a" * 4_000])
async def test_without_a_page_to_go_to_there_is_no_link(bench: SlackBench, url: str) -> None:
    notice = make_notice(bench.clock)
    await bench.sender.send(PAYOUTS, notice, NoticeLinks(console=url), once="d1", unsure=False)
    assert buttons(bench.slack.messages("#payouts")[0]) == ["Approve", "Deny"]


async def test_a_user_is_written_to_in_the_apps_chat(bench: SlackBench) -> None:
    notice = make_notice(bench.clock)
    reference = await bench.sender.send(BOB, notice, LINKS, once="d1", unsure=True)
    assert reference.startswith("D2BOB:")
    assert await bench.sender.send(BOB, notice, LINKS, once="d1", unsure=True) == reference
    assert len(bench.slack.messages("U2BOB")) == 1


@pytest.mark.parametrize("by_id", [True, False])
async def test_a_message_that_may_have_been_sent_is_looked_for(by_id: bool) -> None:
    bench = SlackBench()
    to = bench.slack.add_channel("payouts") if by_id else "#payouts"
    address = Address(channel="slack", to=to)
    notice = make_notice(bench.clock)
    first = await bench.sender.send(address, notice, LINKS, once="d1", unsure=False)
    # More than a page of others has come since.
    for n in range(150):
        bench.pass_a_second()
        await bench.sender.send(address, notice, LINKS, once=f"other-{n}", unsure=False)
    bench.pass_a_second()
    assert await bench.sender.send(address, notice, LINKS, once="d1", unsure=True) == first
    other = await bench.sender.send(address, notice, LINKS, once="d2", unsure=True)
    assert other != first
    assert len(bench.slack.messages(to)) == 152


async def test_where_the_app_may_not_look_the_message_is_sent_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = SlackBench(scopes=("chat:write",))
    first = await sent(bench)
    bench.pass_a_second()
    notice = make_notice(bench.clock)
    second = await bench.sender.send(PAYOUTS, notice, LINKS, once="d1", unsure=True)
    assert second != first
    [record] = caplog.records
    assert vars(record)["slack_error"] == "missing_scope"


async def test_while_slack_is_busy_nothing_is_sent_blindly(bench: SlackBench) -> None:
    await sent(bench)
    bench.pass_a_second()
    bench.slack.odd = [answer("ratelimited", 429, {"retry-after": "7"})]
    notice = make_notice(bench.clock)
    with pytest.raises(ChannelBusy):
        await bench.sender.send(PAYOUTS, notice, LINKS, once="d1", unsure=True)
    assert len(bench.slack.messages("#payouts")) == 1


async def test_after_a_decision_the_message_says_so_and_has_no_buttons(bench: SlackBench) -> None:
    reference = await sent(bench)
    for reason in ("too <b>much</b>", "too <b>much</b>"):  # repeatable
        notice = make_notice(
            bench.clock,
            NoticeKind.DECIDED,
            decision=decided(bench, DecisionKind.DENIED, reason=reason),
        )
        assert await bench.sender.update(PAYOUTS, reference, notice, LINKS)
    [message] = bench.slack.messages("#payouts")
    assert buttons(message) == []
    assert "Denied by bob" in visible(message)
    assert "too <b>much</b>" in visible(message)
    assert markup(message) == [f"{LINKS.console}|Open in the console"]
    assert [item["kind"] for item in bench.outbox.items] == ["message", "update", "update"]


async def test_after_a_vote_the_message_counts_and_keeps_its_buttons(bench: SlackBench) -> None:
    rule = ApprovalRule(by=("finance",), quorum=2)
    reference = await sent(bench, rule=rule)
    notice = make_notice(bench.clock, NoticeKind.VOTED, rule=rule)
    given = {**rule.model_dump(), "given": [Vote(by="bob", at=bench.clock.now())]}
    call = notice.call.model_copy(update={"approval": PendingApproval.model_validate(given)})
    voted = notice.model_copy(update={"call": call})
    assert await bench.sender.update(PAYOUTS, reference, voted, LINKS)
    [message] = bench.slack.messages("#payouts")
    assert "1 of 2 approvals" in visible(message)
    assert buttons(message) == ["Approve", "Deny", "Open in the console"]


async def test_a_message_that_is_gone_cannot_be_changed(bench: SlackBench) -> None:
    reference = await sent(bench)
    channel = reference.partition(":")[0]
    notice = make_notice(bench.clock, NoticeKind.DECIDED)
    assert not await bench.sender.update(PAYOUTS, f"{channel}:1.2", notice, LINKS)
    assert not await bench.sender.update(PAYOUTS, "", notice, LINKS)
    with pytest.raises(ChannelRefused, match="channel_not_found"):
        await bench.sender.update(PAYOUTS, "C404:1.2", notice, LINKS)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "http://169.254.169.254/latest/meta-data",
        "https://evil.example.com/actions/1",
        "https://hooks.slack.com.evil.example.com/x",
        "https://hooks.slack.com@evil.example.com/x",
        "http://hooks.slack.com/x",
        "https://slack.com:8443/x",
        "https://[/x",
    ],
)
async def test_answers_go_to_slack_only(bench: SlackBench, url: str) -> None:
    with pytest.raises(ChannelRefused, match="not Slack's"):
        await bench.sender.tell(url, "hello")
    assert bench.client.hosts == []


@pytest.mark.parametrize("status", [404, 500])
async def test_answer_that_slack_does_not_take_is_an_error(bench: SlackBench, status: int) -> None:
    bench.slack.odd = [(status, {}, b"")]
    with pytest.raises(ChannelRefused if status == 404 else RetryableError):
        await bench.sender.tell("https://hooks.slack.com/actions/1", "hello")


async def test_nothing_of_a_message_is_logged(
    bench: SlackBench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    bench.slack.odd = [answer("channel_not_found")]
    with pytest.raises(ChannelRefused) as refused:
        await sent(bench, args={"iban": "DE89370400440532013000"})
    assert "DE89" not in caplog.text + str(refused.value)
    assert TOKEN not in caplog.text


async def test_over_http_a_message_is_sent_found_changed_and_throttled(bench: SlackBench) -> None:
    notice = make_notice(bench.clock, summary="Grüße & 80 € zurück")
    with served(bench.slack) as url:
        sender = SlackSender(Secret(TOKEN_VARIABLE), url)
        try:
            first = await sender.send(PAYOUTS, notice, LINKS, once="d1", unsure=False)
            assert await sender.send(PAYOUTS, notice, LINKS, once="d1", unsure=True) == first
            with pytest.raises(ChannelBusy) as busy:
                await sender.send(PAYOUTS, notice, LINKS, once="d2", unsure=False)
            assert busy.value.after == timedelta(seconds=1)
            assert await sender.update(PAYOUTS, first, notice, LINKS)
            interaction = bench.slack.pressing("#payouts", APPROVE, "U2BOB")
            reply = interaction["response_url"].replace("https://slack.com", url[: -len("/api")])
            await sender.tell(reply, "a < b")
        finally:
            await sender.aclose()
    assert "Grüße & 80 € zurück" in visible(bench.slack.messages("#payouts")[0])
    assert bench.slack.private == [("U2BOB", "a &lt; b")]

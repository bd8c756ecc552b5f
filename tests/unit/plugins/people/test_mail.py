"""Mail by SES: what it refuses, and what a reader gets."""

import json
import re
from collections.abc import Mapping
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from layover.adapters.aws.client import AwsClient
from layover.adapters.aws.credentials import CredentialChain
from layover.adapters.aws.retries import RetryRules
from layover.adapters.aws.services import AwsServices
from layover.adapters.aws.signature import Signer
from layover.errors import RetryableError
from layover.plugins.people.channels.mail.mails import MAX_SUBJECT, write_mail
from layover.plugins.people.channels.mail.sender import DAY_PAUSE, PATH, MailSender, mail_client
from layover.plugins.people.channels.mail.twin import LocalSes
from layover.plugins.people.channels.twins import Outbox
from layover.ports.channels import ChannelBusy, ChannelRefused
from layover.values.channels import Address, Channels, NoticeKind, NoticeLinks, Person
from layover.values.decision import PendingApproval
from support.aws.loopback import KEYS
from support.notices import decided, the_notice
from support.services import Answer, served

BEA = Person(id="sub-bea", mail="bea@example.com", groups=frozenset({"finance"}))
CHANNELS = Channels(people=(BEA,), mail_from="approvals@example.com")
TO_BEA = Address(channel="mail", to="bea@example.com")
LINKS = NoticeLinks(
    console="https://layover.example.com/console/runs/run_1?call=call_1",
    decide="https://layover.example.com/decide/s3cret",
)
SIGNED = {
    "authorization": "AWS4-HMAC-SHA256 Credential=AKID/20260501/eu-central-1/ses/aws4_request, "
    f"SignedHeaders=host;x-amz-date, Signature={'0' * 64}",
    "x-amz-date": "20260501T120000Z",
}


async def send(respond: Any, channels: Channels = CHANNELS, to: Address = TO_BEA) -> str:
    """Send one mail to a service that answers so."""
    async with served(respond) as url:
        client = AwsClient(
            url,
            Signer("ses", "eu-central-1"),
            CredentialChain(KEYS),
            retries=RetryRules(max_attempts=1),
        )
        try:
            return await MailSender(client, channels).send(
                to, the_notice(), LINKS, once="d-1", unsure=False
            )
        finally:
            await client.aclose()


async def refusal(**rules: Any) -> str:
    """What the deployer is told."""
    with pytest.raises(ChannelRefused) as caught:
        await send(LocalSes(Outbox(), **rules).respond)
    assert "@example.com" not in str(caught.value)
    return str(caught.value)


# What SES does not take


async def test_sender_that_is_not_verified_has_to_be() -> None:
    told = await refusal(identities={"other.example"})
    assert "MessageRejected" in told
    assert "verify the address or the domain of `mail_from`" in told


async def test_sandbox_is_named_with_the_way_out() -> None:
    told = await refusal(identities={"approvals@example.com"}, sandbox=True)
    assert "sandbox" in told
    assert "request production access" in told


async def test_recipient_is_free_outside_the_sandbox() -> None:
    assert await send(LocalSes(Outbox(), identities={"approvals@example.com"}).respond)


async def test_suspended_account_and_paused_sending_are_different() -> None:
    assert "appeal" in await refusal(suspended=True)
    assert "resume sending" in await refusal(paused=True)


def answer(status: int, code: str, message: str = "bea@example.com") -> Any:
    """A service that answers every request with an error."""

    def respond(method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        return status, {"x-amzn-errortype": code}, json.dumps({"message": message}).encode()

    return respond


@pytest.mark.parametrize(
    ("code", "to_do"),
    [
        ("MailFromDomainNotVerifiedException", "DNS records"),
        ("AccessDeniedException", "allow the role `ses:SendEmail`"),
        ("NotFoundException", "create the identity"),
        ("BadRequestException", "correct the address"),
        ("MessageRejected", "content"),
        ("SomethingNewException", "look the code up"),
    ],
)
async def test_each_refusal_has_its_advice(code: str, to_do: str) -> None:
    with pytest.raises(ChannelRefused, match=to_do) as caught:
        await send(answer(400, code))
    assert code in str(caught.value)
    assert "bea@" not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "code"),
    [(429, "TooManyRequestsException"), (400, "ThrottlingException"), (400, "Throttling")],
)
async def test_throttling_is_a_pause_of_seconds(status: int, code: str) -> None:
    with pytest.raises(ChannelBusy) as caught:
        await send(answer(status, code, "Maximum sending rate exceeded."))
    assert caught.value.after <= timedelta(seconds=5)


async def test_quota_of_the_day_is_a_pause_of_an_hour() -> None:
    with pytest.raises(ChannelBusy) as caught:
        await send(LocalSes(Outbox(), quota=0).respond)
    assert caught.value.after == DAY_PAUSE


async def test_deployment_without_a_sender_is_refused_before_any_request() -> None:
    with pytest.raises(ChannelRefused, match="mail_from"):
        await send(answer(500, "never"), Channels(people=(BEA,)))


async def test_address_with_a_line_break_reaches_nobody() -> None:
    outbox = Outbox()
    to = Address(channel="mail", to="bea@example.com\r\nBcc: eve@example.com")
    with pytest.raises(ChannelRefused):
        await send(LocalSes(outbox).respond, to=to)
    assert outbox.items == []


async def test_answer_without_an_id_was_still_an_acceptance() -> None:
    assert await send(lambda *_: (200, {}, b"<html>")) == ""


async def test_silent_service_is_asked_again_later() -> None:
    async with served(lambda *_: (200, {}, b"")) as url:
        pass
    client = AwsClient(
        url,
        Signer("ses", "eu-central-1"),
        CredentialChain(KEYS),
        retries=RetryRules(max_attempts=1),
    )
    with pytest.raises(RetryableError, match="did not answer"):
        await MailSender(client, CHANNELS).send(
            TO_BEA, the_notice(), LINKS, once="d-1", unsure=False
        )


# SES on one machine


def asks(**changes: Any) -> tuple[int, str]:
    """Status and code of the answer to a request that is changed so."""
    request: dict[str, Any] = {
        "FromEmailAddress": "approvals@example.com",
        "Destination": {"ToAddresses": ["bea@example.com"]},
        "Content": {
            "Simple": {
                "Subject": {"Data": changes.pop("subject", "A subject")},
                "Body": {"Text": {"Data": "A text"}},
                "Headers": changes.pop("headers", []),
            }
        },
        "EmailTags": changes.pop("tags", []),
    }
    if "to" in changes:
        request["Destination"] = {"ToAddresses": changes.pop("to")}
    headers = changes.pop("signature", SIGNED)
    path = changes.pop("path", PATH)
    body = changes.pop("body", None) or json.dumps(request).encode()
    assert not changes
    status, fields, _ = LocalSes(Outbox()).respond("POST", path, headers, body)
    return status, fields.get("x-amzn-errortype", "")


def test_local_ses_keeps_the_rules_of_the_service() -> None:
    assert asks() == (200, "")
    bad = (400, "BadRequestException")
    assert asks(signature={}) == (403, "MissingAuthenticationTokenException")
    assert asks(signature={"authorization": "Bearer x"}) == (403, "IncompleteSignatureException")
    assert asks(path="/v2/email/identities") == (404, "UnknownOperationException")
    assert asks(to=["bea@example.com"] * 51) == bad
    assert asks(to=[]) == bad
    assert asks(to=["nobody"]) == bad
    assert asks(subject="A\r\nBcc: eve@example.com") == bad
    assert asks(headers=[{"Name": "To", "Value": "eve@example.com"}]) == bad
    assert asks(headers=[{"Name": "X-A", "Value": "ü"}]) == bad
    assert asks(headers=[{"Name": "X-A", "Value": "x"}] * 16) == bad
    assert asks(headers=[{"Name": "X-A", "Value": "x" * 995}]) == bad
    assert asks(tags=[{"Name": "delivery", "Value": "a b"}]) == bad
    assert asks(body=b"{}") == bad
    assert asks(body=b" " * (40 * 1024 * 1024 + 1)) == (400, "MessageRejected")


# What arrives


async def test_mail_carries_the_delivery_and_answers_to_no_absence() -> None:
    ses = LocalSes(Outbox())
    assert await send(ses.respond) == "local-000001"
    [request] = ses.requests
    assert {"Name": "delivery", "Value": "d-1"} in request["EmailTags"]
    headers = {h["Name"]: h["Value"] for h in request["Content"]["Simple"]["Headers"]}
    assert headers["Auto-Submitted"] == "auto-generated"
    assert headers["List-Id"] == "Approvals <approvals.example.com>"
    assert re.fullmatch(r"<[0-9a-f]{32}@example\.com>", headers["References"])


def test_subject_is_one_short_line() -> None:
    notice = the_notice(summary="Pay\r\nBcc: eve@example.com " + "x" * 500)
    subject = write_mail(notice, LINKS, CHANNELS, BEA).subject
    assert subject.isprintable()
    assert len(subject) == MAX_SUBJECT
    assert subject.startswith("Ada asks to pay ⏎ Bcc:")


class Parts(HTMLParser):
    """The elements of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.tags.append((tag, dict(attrs)))


def test_html_loads_nothing_runs_nothing_and_follows_nobody() -> None:
    text = '"><img src=https://evil.example/x onerror=alert(1)><script>x</script><a href="//evil">'
    notice = the_notice(
        summary=text, owner=text, tool_name=text, args={text: text}, agent_path=(text,)
    )
    html = write_mail(notice, LINKS, CHANNELS, BEA).html
    usual = write_mail(the_notice(), LINKS, CHANNELS, BEA).html
    tags = Parts(html).tags
    # No text has become an element.
    assert {tag for tag, _ in tags} <= {tag for tag, _ in Parts(usual).tags}
    assert not {tag for tag, _ in tags} & {"img", "script", "link", "iframe", "form", "object"}
    links = [attrs["href"] for tag, attrs in tags if tag == "a"]
    assert links == [LINKS.decide, LINKS.console]
    assert not [name for _, attrs in tags for name in attrs if name.startswith("on")]
    assert "url(" not in html


def test_person_is_told_whose_link_it_is() -> None:
    mail = write_mail(the_notice(), LINKS, CHANNELS, BEA)
    for text in (" ".join(mail.text.split()), mail.html):
        assert "The link is only for bea@example.com" in text
        assert "Forwarding this mail does not move the right" in text
    assert "The same in the console, after a sign-in:\n" + LINKS.console in mail.text


def test_address_of_several_readers_leads_to_the_console_alone() -> None:
    mail = write_mail(the_notice(), NoticeLinks(console=LINKS.console), CHANNELS)
    assert mail.text.count("https://") == 1
    assert f"Decide in the console:\n{LINKS.console}" in mail.text
    assert mail.html.count("<a ") == 1


@pytest.mark.parametrize("kind", [NoticeKind.DECIDED, NoticeKind.TEST])
def test_mail_about_what_is_over_has_no_link_that_decides(kind: NoticeKind) -> None:
    notice = decided() if kind is NoticeKind.DECIDED else the_notice(kind)
    mail = write_mail(notice, LINKS, CHANNELS, BEA)
    assert "s3cret" not in mail.text + mail.html
    assert "Forwarding" not in mail.text


def test_examples_of_the_guide_are_what_arrives() -> None:
    guide = (Path(__file__).parents[4] / "docs/guides/mail.md").read_text()
    rule = PendingApproval(by=("finance",))
    request = the_notice(approval=rule)
    answer = decided(
        exact_args={"amount": 800.0, "to": "Nora"},
        reason="The rest next month.",
        decided_by="sub-bea",
    )
    for notice in (request, answer):
        assert f"\n{write_mail(notice, LINKS, CHANNELS, BEA).text}```" in guide


def test_client_asks_the_regions_endpoint_or_the_one_that_a_variable_names() -> None:
    here = {"AWS_REGION": "eu-central-1", **KEYS}
    assert AwsServices(here).endpoint("ses") == "https://email.eu-central-1.amazonaws.com"
    own = {**here, "AWS_ENDPOINT_URL_SESV2": "http://127.0.0.1:1"}
    assert AwsServices(own).endpoint("ses") == "http://127.0.0.1:1"
    assert isinstance(mail_client(AwsServices(own)), AwsClient)

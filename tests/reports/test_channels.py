"""Messages to people in Slack, by mail and in Teams."""

import json
from typing import Any

import pytest

from integration.api.kit import Api
from integration.api.test_slack import Office
from layover.errors import ConfigurationError
from layover.plugins.people.channels.mail.sender import MailSender
from layover.plugins.people.channels.slack.block_kit import APPROVE
from layover.plugins.people.channels.slack.twin_rules import is_too_long
from layover.plugins.people.channels.teams.cards import write_card
from layover.plugins.people.channels.teams.twin import LocalTeams
from layover.plugins.people.channels.twins import Outbox
from layover.plugins.people.config import read_channels
from layover.values.channels import Address, Channels, NoticeKind, NoticeLinks
from layover.values.decision import Decision, DecisionKind, Via
from reports import Found, report
from support.notices import the_notice
from support.slack import LINKS, TOKEN, TOKEN_VARIABLE, SlackBench, buttons, make_notice, visible
from support.worlds.services import ServiceBench

PAYOUTS = Address(channel="slack", to="#payouts")
PAGES = NoticeLinks(console="https://layover.example.com/console/1")
LONG = {f"a{n}": "\U0001f40e" * 900 for n in range(20)}


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> SlackBench:
    """A workspace of Slack and its sender."""
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    return SlackBench()


@report("slackapi/bolt-js#2509, slackapi/bolt-js#2867", Found.MENDED)
async def test_message_whose_texts_are_too_long_together_is_posted_shorter(
    bench: SlackBench,
) -> None:
    """A request with many long arguments is posted, although Slack counts all of its blocks together."""
    notice = make_notice(bench.clock, args=LONG)
    assert await bench.sender.send(PAYOUTS, notice, LINKS, once="d1", unsure=False)
    [message] = bench.slack.messages("#payouts")
    assert not is_too_long(message["blocks"])
    assert "The console shows it whole." in visible(message)


@report("NousResearch/hermes-agent#35495", Found.MENDED)
async def test_decided_message_of_a_long_call_has_no_buttons_any_more(bench: SlackBench) -> None:
    """The message of a long call, which was approved with changes, is updated, and its buttons go."""
    args = {f"a{n}": "x" * 900 for n in range(10)}
    sent = await bench.sender.send(
        PAYOUTS, make_notice(bench.clock, args=args), LINKS, once="d1", unsure=False
    )
    decision = Decision(
        kind=DecisionKind.APPROVED, decided_by="bob", via=Via.SLACK, at=bench.clock.now(),
        exact_args={name: value[1:] for name, value in args.items()},
    )  # fmt: skip
    notice = make_notice(bench.clock, NoticeKind.DECIDED, args=args)
    notice = notice.model_copy(update={"decision": decision})
    assert await bench.sender.update(PAYOUTS, sent, notice, LINKS)
    [message] = bench.slack.messages("#payouts")
    assert buttons(message) == []


@report("MicrosoftDocs/msteams-docs#11274, elementary-data/elementary#2164", Found.MENDED)
def test_card_that_teams_counts_as_larger_than_it_is_is_shortened() -> None:
    """A card stays below 28 KB as Teams counts, which keeps it as a text within its own message."""
    teams = LocalTeams(Outbox())
    for length in (20, 60, 100, 140, 180, 220):
        args = {f'"{n}"': '"' * length * 4 for n in range(20)}
        card = write_card(the_notice(args=args), PAGES, Channels())
        kind = {"content-type": "application/json"}
        teams = LocalTeams(Outbox())
        assert teams.respond("POST", "/1", kind, card)[0] == 202


@pytest.mark.parametrize("sender", ["Acme, Inc <info@example.com>", "a@example.com\nBcc: b@x.de"])
@report("opengovsg/plumber#1777, Netflix/iep#653", Found.RIGHT)
def test_sender_that_is_more_than_an_address_is_refused_where_it_is_set(sender: str) -> None:
    """A sender's name with a comma, or a line break, never gets to SES: the document is refused."""
    with pytest.raises(ConfigurationError, match="mail_from is not a mail address"):
        read_channels({"mail_from": sender})


class Ses:
    """Takes each mail of SES's client."""

    def __init__(self) -> None:
        self.mails: list[Any] = []

    async def send(self, method: str, path: str, headers: Any, body: bytes) -> Any:
        self.mails.append(json.loads(body))
        return type("Answer", (), {"body": b"{}"})


@report("Wei-Shaw/sub2api#2760, DouglasdeMoura/chroncal#480", Found.RIGHT)
async def test_subject_of_other_letters_is_text_that_ses_encodes() -> None:
    """A subject with letters beyond ASCII is given to SES as text with its encoding, on one line."""
    ses = Ses()
    sender = MailSender(ses, Channels(mail_from="a@example.com"))  # type: ignore[arg-type]
    notice = the_notice(summary="Pay Größe GmbH\r\nBcc: eve@example.com")
    to = Address(channel="mail", to="bea@example.com")
    await sender.send(to, notice, PAGES, once="d1", unsure=False)
    subject = ses.mails[0]["Content"]["Simple"]["Subject"]
    assert subject["Charset"] == "UTF-8"
    assert "Größe GmbH" in subject["Data"]
    assert "\n" not in subject["Data"]


@report("bytedance/deer-flow#4197, stablyai/agent-slack#85", Found.RIGHT)
async def test_marks_of_slack_in_an_argument_are_shown_and_call_nobody(bench: SlackBench) -> None:
    """`<!channel>`, `<@U1>` and `a < b && c` in an argument are shown as they are, and nobody is called."""
    marks = "<!channel> <@U1ANN> if a < b && c > d"
    notice = make_notice(bench.clock, args={"note": marks})
    await bench.sender.send(PAYOUTS, notice, LINKS, once="d1", unsure=False)
    [message] = bench.slack.messages("#payouts")
    assert "&lt;!channel&gt; &lt;@U1ANN&gt; if a &lt; b &amp;&amp; c &gt; d" in json.dumps(message)


@report("getsentry/sentry#69252", Found.RIGHT, held_back=True)
def test_button_that_two_people_press_decides_once(
    api: Api, world: ServiceBench, bench: SlackBench
) -> None:
    """A button that is pressed twice decides once, and the second to press is told that it was decided."""
    office = Office(world, api.host)
    run, _ = office.ask()
    office.press(APPROVE, "U2BOB")
    office.press(APPROVE, "U2BOB")
    assert [kind for kind, *_ in office.decisions(run)] == ["approved"]
    assert len(office.slack.private) >= 1


@pytest.mark.parametrize(
    "address", ["jesús@example.com", "bea@münchen.example", "bea@xn--mnchen.example"]
)
@report("Notifuse/notifuse#150", Found.MENDED, held_back=True)
def test_address_that_ses_never_takes_is_refused_where_it_is_set(address: str) -> None:
    """A recipient with letters beyond ASCII, which SES takes only as punycode, is refused in the document."""
    document = {"mail_from": "a@example.com", "finance": [{"mail": [address]}]}
    if address.isascii():
        assert read_channels(document).groups["finance"][0].to == address
        return
    with pytest.raises(ConfigurationError, match="mail is not a mail address"):
        read_channels(document)

"""The contract of senders: each with its channel's twin, which keeps the rules of the real service, and
refuses, is busy or breaks as a test says."""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from layover.adapters.aws.services import AwsServices
from layover.adapters.http.direct import DirectClient
from layover.errors import RetryableError
from layover.plugins.people.channels.mail.sender import MailSender, mail_client
from layover.plugins.people.channels.mail.twin import LocalSes
from layover.plugins.people.channels.teams.sender import TeamsSender
from layover.plugins.people.channels.teams.twin import LocalTeams
from layover.plugins.people.channels.twins import Outbox
from layover.ports.channels import ChannelBusy, ChannelRefused, Sender
from layover.values.channels import (
    Address,
    Channels,
    Notice,
    NoticeKind,
    NoticeLinks,
    Person,
)
from layover.values.decision import Denial, PendingApproval, Vote
from support.aws.loopback import KEYS
from support.examples import share
from support.notices import NOW, decided, the_notice
from support.services import Answer, served

BEA = Person(id="sub-bea", mail="bea@example.com", groups=frozenset({"finance"}))
CHANNELS = Channels(people=(BEA,), mail_from="approvals@example.com")
CONSOLE = "https://layover.example.com/console/runs/run_1?call=call_1&x=1"
DECIDE = "https://layover.example.com/decide/s3cret"
LINKS = NoticeLinks(console=CONSOLE, decide=DECIDE)
SECRET = "TEAMS_WEBHOOK"
HOSTILE = (
    "<script>alert(1)</script>\r\nBcc: eve@example.com\u202e [click](https://evil.example) "
    '</bdi></td>" style=x {{DATE(2017-02-14T06:08:39Z, SHORT)}} &lt; **bold** \x00\x1b[2J\ud800'
)


@dataclass
class Desk:
    """A sender, and the service behind it. `says`: answers in place of its own."""

    sender: Sender
    address: Address
    outbox: Outbox
    documents: Callable[[], list[dict[str, Any]]]
    """The requests that the service took."""
    moves: Callable[[float], None]
    """Lets seconds pass for the service."""
    says: list[Answer] = field(default_factory=list)
    requests: list[tuple[str, Mapping[str, str], bytes]] = field(default_factory=list)

    async def send(
        self, notice: Notice | None = None, links: NoticeLinks = LINKS, *, once: str = "d-1"
    ) -> str:
        """Send a message."""
        return await self.sender.send(
            self.address, notice or the_notice(), links, once=once, unsure=False
        )


class Time:
    """Seconds of a service, which a test moves."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        """Return the seconds."""
        return self.seconds

    def move(self, seconds: float) -> None:
        """Let time pass."""
        self.seconds += seconds


@asynccontextmanager
async def mail_desk(**rules: Any) -> AsyncIterator[Desk]:
    """A sender of mail, and SES."""
    outbox, clock = Outbox(), Time()
    ses = LocalSes(outbox, now=clock, **({"identities": {"example.com"}} | rules))
    desk = Desk(
        sender=None,  # type: ignore[arg-type]  # It needs the server's URL.
        address=Address(channel="mail", to=BEA.mail),
        outbox=outbox,
        documents=lambda: ses.requests,
        moves=clock.move,
    )
    async with served(_answers(desk, ses.respond)) as url:
        variables = {**KEYS, "AWS_REGION": "eu-central-1", "AWS_ENDPOINT_URL_SESV2": url}
        client = mail_client(AwsServices(variables))
        desk.sender = MailSender(client, CHANNELS)
        yield desk
        await client.aclose()


@asynccontextmanager
async def teams_desk(**rules: Any) -> AsyncIterator[Desk]:
    """A sender to Teams, and the webhook of a workflow."""
    outbox, clock = Outbox(), Time()
    teams = LocalTeams(outbox, now=clock, **rules)
    desk = Desk(
        sender=None,  # type: ignore[arg-type]  # It needs the server's URL.
        address=Address(channel="teams", to=SECRET),
        outbox=outbox,
        documents=lambda: teams.cards,
        moves=clock.move,
    )
    async with served(_answers(desk, teams.respond)) as url:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(SECRET, f"{url}/workflows/1/invoke?sp=%2Ftriggers%2Fmanual&sig=s3cr-et_\n")
            sender = TeamsSender(DirectClient, CHANNELS, plain_hosts=frozenset({"127.0.0.1"}))
            desk.sender = sender
            yield desk
        await sender.aclose()


def _answers(desk: Desk, respond: Callable[..., Answer]) -> Callable[..., Answer]:
    def answer(method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        desk.requests.append((path, headers, body))
        return desk.says.pop(0) if desk.says else respond(method, path, headers, body)

    return answer


DESKS = {"mail": mail_desk, "teams": teams_desk}


@pytest.fixture(params=DESKS)
async def desk(request: pytest.FixtureRequest) -> AsyncIterator[Desk]:
    async with AsyncExitStack() as stack:
        yield await stack.enter_async_context(DESKS[request.param]())


# The unhappy half


async def test_busy_service_says_for_how_long_it_wants_peace(desk: Desk) -> None:
    async def send_many() -> None:
        for _ in range(15):
            await desk.send()

    with pytest.raises(ChannelBusy) as caught:
        await send_many()
    assert timedelta(seconds=1) <= caught.value.after <= timedelta(seconds=60)
    desk.moves(caught.value.after.total_seconds())
    before = len(desk.outbox.items)
    await desk.send()
    assert len(desk.outbox.items) == before + 1


@pytest.mark.parametrize("status", [500, 502, 503])
async def test_fault_of_the_service_passes(desk: Desk, status: int) -> None:
    desk.says = [(status, {}, b"<html>bea@example.com")]
    with pytest.raises(RetryableError) as caught:
        await desk.send()
    assert not isinstance(caught.value, ChannelBusy)
    assert "bea@" not in str(caught.value)
    await desk.send()


async def test_service_that_breaks_off_passes(desk: Desk) -> None:
    desk.says = [(200, {"content-length": "nonsense"}, b"")]
    with pytest.raises(RetryableError):
        await desk.send()
    assert len(desk.requests) == 1  # The queue repeats; a second request could be a second message.


@pytest.mark.parametrize("status", [400, 403, 404])
async def test_refusal_says_what_the_deployer_has_to_do_and_no_secret(
    desk: Desk, status: int
) -> None:
    desk.says = [(status, {}, b'{"message": "bea@example.com sig=s3cr-et_"}')] * 2
    with pytest.raises(ChannelRefused) as caught:
        await desk.send()
    text = repr(caught.value) + repr(caught.value.__cause__)
    assert ":" in str(caught.value)
    assert not [word for word in ("bea@", "s3cr", "127.0.0.1", "Nora") if word in text]


async def test_redirect_is_not_followed(desk: Desk) -> None:
    desk.says = [(307, {"location": "https://evil.example/"}, b"")]
    with pytest.raises((ChannelRefused, RetryableError)):
        await desk.send()
    assert len(desk.requests) == 1


def hostile_notice(kind: NoticeKind) -> Notice:
    """A notice of which every text is hostile."""
    votes = (Vote(by=HOSTILE, at=NOW, reason=HOSTILE),)
    call: dict[str, Any] = {
        "tool_name": HOSTILE,
        "agent_path": (HOSTILE,),
        "summary": HOSTILE,
        "args": {HOSTILE: HOSTILE, "b": [HOSTILE]},
        "approval": PendingApproval(by=(HOSTILE,), quorum=2, given=votes),
        "denied_before": (Denial(args=HOSTILE, reason=HOSTILE, decided_by=HOSTILE, at=NOW),),
    }
    if kind is not NoticeKind.DECIDED:
        return the_notice(kind, owner=HOSTILE, **call)
    notice = decided(decided_by=HOSTILE, reason=HOSTILE, args={HOSTILE: HOSTILE})
    return notice.model_copy(update={"call": the_notice(**call).call, "owner": HOSTILE})


def strings(value: Any) -> list[str]:
    """Return all strings of a document."""
    if isinstance(value, str):
        return [value]
    values = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for each in values for text in strings(each)]


@pytest.mark.parametrize("kind", NoticeKind)
async def test_hostile_texts_are_only_texts(desk: Desk, kind: NoticeKind) -> None:
    await desk.send(hostile_notice(kind))
    [document] = desk.documents()
    sent = "".join(strings(document))
    assert not [c for c in ("\u202e", "\x1b", "\x00", "\ud800") if c in sent]
    [message] = desk.outbox.items
    # A line of its own would be a fact that nobody stated.
    assert not [line for line in message["text"].splitlines() if line.startswith("Bcc:")]
    assert message["link"] in (CONSOLE, DECIDE)


async def test_longest_texts_fit(desk: Desk) -> None:
    wide = "\U0001f40e" * (50_000 // share(5))
    args = {f"{n} {wide}": wide for n in range(200)}
    notice = the_notice(
        summary=wide,
        args=args,
        owner=wide,
        tool_name=wide,
        agent_path=(wide,) * 9,
        approval=PendingApproval(by=(wide,) * 99),
        denied_before=(Denial(args=args, reason=wide, decided_by=wide, at=NOW),) * 10,
    )
    await desk.send(notice)
    edit = decided(args=args, reason=wide, decided_by=wide)
    await desk.send(edit)
    assert len(desk.outbox.items) == 2


async def test_id_of_any_form_is_taken(desk: Desk) -> None:
    await desk.send(once="call_1#1|requested|0|bea@example.com/ü" * 20)


# And the happy one


@pytest.mark.parametrize("kind", NoticeKind)
async def test_every_kind_of_message_arrives(desk: Desk, kind: NoticeKind) -> None:
    notice = decided() if kind is NoticeKind.DECIDED else the_notice(kind, n=1)
    await desk.send(notice)
    [message] = desk.outbox.items
    assert message["channel"] == desk.address.channel
    expected = "nothing waits" if kind is NoticeKind.TEST else "900.00 euros to Nora"
    assert expected in message["text"]


async def test_request_has_its_facts_and_a_way_to_the_call(desk: Desk) -> None:
    await desk.send()
    [message] = desk.outbox.items
    for text in ("Agent: payouts", "Tool: pay", "Risk: high", "amount: 900.0", "Requested by: Ada"):
        assert text in message["text"]
    assert message["link"].startswith("https://layover.example.com/")


async def test_outcome_is_short_and_decides_nothing(desk: Desk) -> None:
    await desk.send(decided(reason="As agreed."))
    [message] = desk.outbox.items
    assert "Approved by Bea" in message["text"]
    assert "As agreed." in message["text"]
    assert "amount" not in message["text"]
    assert DECIDE not in json.dumps(desk.documents())
    assert message["link"] == CONSOLE


async def test_test_message_says_that_nothing_waits(desk: Desk) -> None:
    await desk.send(the_notice(NoticeKind.TEST))
    [message] = desk.outbox.items
    assert "This is a test by Ada; nothing waits." in message["text"]
    assert "900" not in message["text"]
    assert message["link"] == CONSOLE


async def test_message_that_may_have_been_sent_is_not_lost(desk: Desk) -> None:
    await desk.sender.send(desk.address, the_notice(), LINKS, once="d-1", unsure=True)
    assert desk.outbox.items


async def test_message_that_cannot_be_changed_is_not(desk: Desk) -> None:
    reference = await desk.send()
    assert not await desk.sender.update(desk.address, reference, decided(), LINKS)
    assert len(desk.requests) == 1

"""A thousand requests in a minute: services slow down, senders die, and each address gets each message."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from random import Random
from typing import Any, Protocol, cast

import pytest

from layover import Agent, Approval, tool
from layover.adapters.aws.retries import ServiceError
from layover.adapters.http.client import Response
from layover.adapters.http.request import Url
from layover.adapters.journal.deliveries import TableDecisionLinks, TableDeliveries
from layover.approvals import decide as approvals
from layover.clock import install_offset
from layover.declare.secret import Secret
from layover.desk.cdk.notify_queue import AT_ONCE, ATTEMPTS, BATCH, NOTIFY, PAUSE_FACTOR
from layover.desk.cdk.settings import FUNCTIONS
from layover.desk.local.aws.queue import Poller, Queue
from layover.desk.local.aws.storage import Storage
from layover.desk.local.functions.invocation import InvokeResult, failure
from layover.inmemory.model import call
from layover.plugins.people.channels.mail.sender import PATH, MailSender
from layover.plugins.people.channels.mail.twin import LocalSes
from layover.plugins.people.channels.slack import BASE_URL
from layover.plugins.people.channels.slack.sender import SlackSender
from layover.plugins.people.channels.slack.twin import FakeSlack
from layover.plugins.people.channels.teams.sender import TeamsSender
from layover.plugins.people.channels.teams.twin import LocalTeams
from layover.plugins.people.channels.twins import Outbox
from layover.plugins.people.config import read_channels
from layover.plugins.people.queue import notify_all
from layover.ports.channels import ChannelPorts
from layover.values.deployment.access import Actor
from support.slack import TOKEN, TOKEN_VARIABLE, LocalResponse
from support.worlds.loops import LoopClock, LoopDeadline, skipping
from support.worlds.runs import Bench, Crash, Power, Powered, powered_journal

CHANNELS = read_channels(
    {
        "finance": [{"slack": "#payouts"}, {"mail": "bea@example.com"}, {"teams": "FINANCE"}],
        "people": {"bea@example.com": {"id": "bea", "groups": ["finance"]}},
        "mail_from": "approvals@example.com",
    }
)
TIME_S = FUNCTIONS[NOTIFY].timeout.total_seconds()
ANSWER_S = 0.1
"""The time that each service takes to answer."""
MINUTE_S = 60.0
PORT_CALLS = 60
"""A sender that dies does so at one of so many calls, or an earlier one."""
SIGNED = {
    "authorization": "AWS4-HMAC-SHA256 Credential=AKID/20260501/eu-central-1/ses/aws4_request, "
    f"SignedHeaders=host;x-amz-date, Signature={'0' * 64}",
    "x-amz-date": "20260501T120000Z",
}
Answer = tuple[int, Mapping[str, str], bytes]
Event = dict[str, Any]


@tool(needs_approval=Approval(by=["finance"]))
async def pay_out(euros: int) -> str:
    """Pay."""
    return f"paid {euros}"


@dataclass(frozen=True)
class Asking:
    """A client of a service in this process, of HTTP or of AWS."""

    respond: Callable[[str, str, Mapping[str, str], bytes], Answer]

    async def post(
        self, url: Url, headers: Mapping[str, str], body: bytes, silence_s: float
    ) -> Response:
        await asyncio.sleep(ANSWER_S)
        return LocalResponse(*self.respond("POST", url.path, headers, body))

    async def send(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> Response:
        await asyncio.sleep(ANSWER_S)
        status, fields, document = self.respond(method, PATH, SIGNED, body)
        if status >= 400:
            code = fields["x-amzn-errortype"]
            raise ServiceError(code, status, json.loads(document), None)
        return cast(Response, _Whole(status, fields, document))


@dataclass(frozen=True)
class _Whole:
    status: int
    headers: Mapping[str, str]
    body: bytes


class Office:
    """Runs whose calls wait, the services that tell of them, and senders of which some die."""

    def __init__(self, bench: Bench, dice: Random, dying: float) -> None:
        self.bench = bench
        self.outbox = Outbox()
        self.invocations = self.deaths = 0
        self._dice = dice
        self._dying = dying
        now = asyncio.get_running_loop().time
        self.slack = FakeSlack(self.outbox, TOKEN, now=now)
        self.throttled: Counter[str] = Counter()
        slack, ses, teams = (
            Asking(self._counted(name, service.respond))
            for name, service in (
                ("slack", self.slack),
                ("mail", LocalSes(self.outbox, now=now)),
                ("teams", LocalTeams(self.outbox, now=now)),
            )
        )
        self._senders = {
            "slack": SlackSender(Secret(TOKEN_VARIABLE), BASE_URL, http=lambda: cast(Any, slack)),
            "mail": MailSender(cast(Any, ses), CHANNELS),
            "teams": TeamsSender(lambda: cast(Any, teams), CHANNELS, _Url),
        }

    def _counted(self, name: str, respond: Any) -> Any:
        def counted(*request: Any) -> Answer:
            answer: Answer = respond(*request)
            self.throttled[name] += answer[0] == 429
            return answer

        return counted

    async def invoke(self, name: str, payload: bytes) -> InvokeResult:
        """Run `notify` on a batch. Some processes die in it."""
        self.invocations += 1
        dies = self._dice.random() < self._dying
        power = Power(
            self._dice.randint(1, PORT_CALLS) if dies else 0, after=self._dice.random() < 0.5
        )
        table, clock = self.bench.table, self.bench.clock
        ports = ChannelPorts(
            config=CHANNELS,
            senders=cast(Any, {k: Powered(s, power) for k, s in self._senders.items()}),
            deliveries=cast(Any, Powered(TableDeliveries(table, clock), power)),
            links=cast(Any, Powered(TableDecisionLinks(table, clock), power)),
            base_url="https://layover.example.com",
        )
        plain = self.bench.plain
        runtime = replace(plain, channels=ports, journal=powered_journal(plain.journal, power))
        deadline = LoopDeadline(asyncio.get_running_loop().time() + TIME_S)
        try:
            failures = await notify_all(runtime, json.loads(payload)["Records"], deadline)
        except Crash:
            self.deaths += 1
            return failure("Runtime.ExitError", "the process died")
        assert deadline.remaining().total_seconds() > 0, "it was cut off"
        ids = [{"itemIdentifier": id} for id in failures]
        return InvokeResult(json.dumps({"batchItemFailures": ids}).encode())


class Sending(Protocol):
    """A queue, and whoever empties it."""

    def send(self, event: Event) -> None: ...

    async def work(self) -> None:
        """Empty it, for as long as the task lives."""

    def left(self) -> int:
        """Return how many events are left in it."""
        ...

    def dead(self) -> list[Event]:
        """Return the events that were put aside."""
        ...


@dataclass
class _Message:
    id: int
    event: Event
    visible_at: float
    receives: int = 0


@dataclass
class Sqs:
    """The queue as `cdk/constructs/channels.py` makes it, and Lambda's pollers."""

    office: Office
    messages: list[_Message] = field(default_factory=list)
    put_aside: list[Event] = field(default_factory=list)
    count: int = 0

    def send(self, event: Event) -> None:
        now = asyncio.get_running_loop().time()
        self.count += 1
        self.messages.append(_Message(self.count, event, now))

    async def work(self) -> None:
        await asyncio.gather(*(self._poll() for _ in range(AT_ONCE)))

    def left(self) -> int:
        return len(self.messages)

    def dead(self) -> list[Event]:
        return self.put_aside

    async def _poll(self) -> None:
        while True:
            batch = self._receive(asyncio.get_running_loop().time())
            if not batch:
                await asyncio.sleep(0.5)
                continue
            records = [
                {"messageId": str(message.id), "body": json.dumps(message.event)}
                for message in batch
            ]
            result = await self.office.invoke(NOTIFY, json.dumps({"Records": records}).encode())
            failed = {m.id for m in batch}
            if result.function_error is None:
                failures = json.loads(result.payload)["batchItemFailures"]
                failed = {int(each["itemIdentifier"]) for each in failures}
            done = {m.id for m in batch} - failed
            self.messages = [m for m in self.messages if m.id not in done]

    def _receive(self, now: float) -> list[_Message]:
        batch = [m for m in self.messages if m.visible_at <= now][:BATCH]
        for message in batch:
            message.receives += 1
            message.visible_at = now + PAUSE_FACTOR * TIME_S
        over = [m for m in batch if m.receives > ATTEMPTS]
        self.put_aside += [m.event for m in over]
        self.messages = [m for m in self.messages if m not in over]
        return [m for m in batch if m not in over]


class OneMachine:
    """The queue and the poller of one machine, whose clock is the loop's."""

    def __init__(self, office: Office) -> None:
        self._storage = Storage(None)
        self._queue = Queue(self._storage, [])
        self._office = office

    def send(self, event: Event) -> None:
        with self._storage.transaction() as connection:
            self._queue.send(connection, event, self._office.bench.clock.now())

    async def work(self) -> None:
        await Poller(self._queue, self._office, NOTIFY).poll()

    def dead(self) -> list[Event]:
        return self._queue.dead()

    def left(self) -> int:
        with self._storage.reading() as connection:
            [(count,)] = connection.execute("SELECT count(*) FROM queue WHERE NOT dead").fetchall()
            return int(count)


class _Url(Secret):
    async def aget(self, *, fresh: bool = False) -> str:
        return f"https://teams.example.com/{self.name}"


async def ask(bench: Bench, count: int) -> list[str]:
    """Let so many calls wait, each in a run of its own; return the ids of the runs."""
    runs = []
    for n in range(count):
        run = await bench.go(thread=f"t{n}")
        await bench.wait(run.id, run.pending[0].tool_call_id, f"token-{n}")
        runs.append(run.id)
    return runs


async def tell_of_many(
    count: int, queue_of: Callable[[Office], Sending], dying: float
) -> tuple[Office, float]:
    """Let the events of so many requests arrive in a minute. Return the office, and the seconds from the
    first event until nobody has to be told any more."""
    dice, loop = Random(7), asyncio.get_running_loop()
    bench = Bench(
        Agent("payouts", model="m", tools=[pay_out]),
        [call("pay_out", euros=900)] * count,
        clock=LoopClock(),
    )
    runs = await ask(bench, count)
    office = Office(bench, dice, dying)
    queue = queue_of(office)
    late = set(dice.sample(runs, count // 20))
    twice = set(dice.sample(runs, count // 10))
    events: list[Event] = [
        {"detail-type": kind, "detail": dict(detail)} for kind, detail in bench.callbacks.events
    ]
    bea = Actor(sub="bea", groups=frozenset({"finance"}))
    began = loop.time()

    async def arrive() -> None:
        for event in events:
            run_id, call_id = event["detail"]["run_id"], event["detail"]["tool_call_id"]
            if run_id in late:
                request = approvals.DecisionRequest(approvals.Verdict("approve"))
                await approvals.decide(bench.plain, bea, run_id, call_id, request)
            for _ in range(2 if run_id in twice else 1):
                queue.send(event)
            await asyncio.sleep(MINUTE_S / count)

    working = asyncio.create_task(queue.work())
    await arrive()
    while queue.left():
        await asyncio.sleep(1)
    seconds = loop.time() - began
    working.cancel()
    with suppress(asyncio.CancelledError):
        await working

    assert queue.dead() == []
    sent = Counter((m["channel"], _run_of(m, runs)) for m in office.outbox.items)
    assert {m["kind"] for m in office.outbox.items if m["channel"] == "slack"} == {"message"}
    asked = set(runs) - late
    for channel in ("slack", "mail", "teams"):
        of_channel = {run: n for (each, run), n in sent.items() if each == channel}
        assert of_channel.keys() == asked, f"{channel}: {len(of_channel)} of {len(asked)}"
        most = 1 if channel == "slack" else 2
        assert max(of_channel.values()) <= most, channel
        again = sum(n - 1 for n in of_channel.values())
        assert again <= office.deaths * BATCH, f"{channel}: {again} after {office.deaths} deaths"
        print(f"{channel}: {len(of_channel)} messages, {again} of them twice")
    print(
        f"{seconds:.0f} s; {office.invocations} invocations, {office.deaths} died; "
        f"slowed down: {dict(office.throttled)}"
    )
    return office, seconds


def _run_of(message: Event, runs: list[str]) -> str:
    """Return the run to which a message leads."""
    link = message["link"]
    [found] = {part for part in link.replace(".", "/").split("/") if part.startswith("run_")}
    assert found in runs
    return str(found)


QUEUES = pytest.mark.parametrize("queue", [Sqs, OneMachine], ids=["on AWS", "on one machine"])


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)


async def tell_by_clock(count: int, queue: Any, dying: float) -> tuple[Office, float]:
    """As `tell_of_many`, where the machine's clock is the loop's."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    install_offset(lambda: timedelta(seconds=loop.time() - began))
    try:
        return await tell_of_many(count, queue, dying)
    finally:
        install_offset(None)


@QUEUES
@skipping
async def test_forty_requests_reach_everybody_once(queue: Any) -> None:
    office, seconds = await tell_by_clock(40, queue, dying=1 / 4)
    assert office.deaths > 0
    assert seconds < 15 * MINUTE_S


@pytest.mark.torture
@QUEUES
@skipping
async def test_a_thousand_requests_reach_everybody_once(queue: Any) -> None:
    office, seconds = await tell_by_clock(1_000, queue, dying=1 / 20)
    assert office.deaths > 0
    # Slack takes a message a second.
    assert seconds < 2 * 950

"""`notify`: tells people of what an event of the bus is about, as it is now.

An event may be late, repeated, or overtaken by another one, so nothing that people read comes from it: it
names a call, and the journal says what is true of it. Each message is claimed before it is sent and noted
afterwards (`ports.channels.Deliveries`); an event that comes again finds the notes and does nothing."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from hashlib import sha256
from typing import Any

from layover.approvals.waiting import is_expired
from layover.errors import NotFound
from layover.plugins.people.links import console_link, make_links
from layover.plugins.people.outages import tell_if_over, tell_of_failure
from layover.plugins.people.tries import try_each
from layover.plugins.people.turns import Turns
from layover.ports.channels import (
    ChannelBusy,
    ChannelPorts,
    ChannelRefused,
    Claim,
    Deliveries,
    Delivery,
    Sender,
)
from layover.runtime import Runtime
from layover.values.channels import (
    ITSELF,
    OPERATORS_GROUP,
    OWNER,
    Address,
    Notice,
    NoticeKind,
    NoticeLinks,
)
from layover.values.decision import OUTAGE_QUIET, RUN_FINISHED, BusEvent, Decision
from layover.values.runs.run import CallRecord, CallState, RunMeta
from layover.values.runs.views import OpenApproval

logger = logging.getLogger("layover")

_KINDS = {
    BusEvent.REQUESTED: NoticeKind.REQUESTED,
    BusEvent.REMINDER: NoticeKind.REMINDER,
    BusEvent.ESCALATED: NoticeKind.ESCALATED,
    BusEvent.VOTED: NoticeKind.VOTED,
    BusEvent.DECIDED: NoticeKind.DECIDED,
}


async def notify(runtime: Runtime, event: Mapping[str, Any], turns: Turns) -> None:
    """Tell people of one event of the bus: `{"detail-type", "detail"}`. One address that fails keeps no other
    from being told. Raises RetryableError (also ChannelBusy) after all were tried, if the event has to come
    again; what was sent is then not sent again.

    Args:
        runtime: The ports.
        event: The event.
        turns: The turns of the invocation, by which it waits for services.
    """
    type, detail = event.get("detail-type", ""), event.get("detail") or {}
    if not runtime.channels.config.groups:
        return
    if type in (RUN_FINISHED, OUTAGE_QUIET):
        await _tell_operators(runtime, type, detail, turns)
        return
    kind = _KINDS.get(type)
    if kind is None:
        return
    wait = await _read(runtime, detail, turns)
    if wait is None:
        return
    try:
        if wait.decision is not None:
            # Whatever the event was about: a request that comes late is not sent, and one whose sender died
            # may have been. Whoever had an earlier event, or this one before, may have sent a request or
            # shown a vote after the outcome was told.
            await wait.tell_outcome(mends=kind is not NoticeKind.DECIDED)
        elif kind is NoticeKind.VOTED:
            await wait.update_all()
        elif kind is not NoticeKind.DECIDED and wait.waits:
            await wait.ask(kind, int(detail.get("n") or 0))
    except NotFound:
        # Erased meanwhile: nobody is told of it any more.
        logger.info("a run is gone of which people were to be told", extra={"run_id": wait.run.id})


async def _tell_operators(
    runtime: Runtime, type: str, detail: Mapping[str, Any], turns: Turns
) -> None:
    if not runtime.channels.config.groups.get(OPERATORS_GROUP):
        return
    owner, run_id, outage = (detail.get(k) for k in ("owner", "run_id", "outage"))
    if type == OUTAGE_QUIET and outage:
        await tell_if_over(runtime, outage, turns)
    elif type == RUN_FINISHED and owner and run_id:
        await tell_of_failure(runtime, owner, run_id, turns)


async def _read(runtime: Runtime, detail: Mapping[str, Any], turns: Turns) -> "_Wait | None":
    """Return the call that an event names; None if there is none, or the event is of an earlier release and
    does not name its owner."""
    owner, run_id, call_id = (detail.get(k) for k in ("owner", "run_id", "tool_call_id"))
    if not (owner and run_id and call_id):
        return None
    snapshot = await runtime.journal.runs.snapshot(owner, run_id)
    if snapshot is None:
        return None
    calls = (c for c in snapshot.calls if c.tool_call_id == call_id and c.suspension is not None)
    call = next(calls, None)
    if call is None:
        return None
    attempt = detail.get("attempt") or call.attempt
    return _Wait(runtime, snapshot.meta, call, attempt, turns)


@dataclass(frozen=True)
class _Wait:
    """A call, one attempt of which people are told of."""

    runtime: Runtime
    run: RunMeta
    call: CallRecord
    attempt: int
    turns: Turns

    @property
    def ports(self) -> ChannelPorts:
        return self.runtime.channels

    @property
    def deliveries(self) -> Deliveries:
        assert self.ports.deliveries is not None
        return self.ports.deliveries

    @property
    def place(self) -> tuple[str, str, str]:
        """The place of the call in the journal."""
        return self.run.owner, self.run.id, self.call.key

    @cached_property
    def decision(self) -> Decision | None:
        """The decision of the attempt: an earlier one is kept with the call."""
        return self.call.decision_on(self.attempt)

    @property
    def waits(self) -> bool:
        """True if somebody may still decide this attempt."""
        if self.call.state is not CallState.WAITING or self.run.status.over:
            return False
        is_newest = self.attempt == self.call.attempt
        return is_newest and not is_expired(self.call, self.runtime.clock.now())

    def notice(self, kind: NoticeKind, n: int = 0) -> Notice:
        """Return what is true now."""
        places = {"run_id": self.run.id, "thread_id": self.run.thread_id, "agent": self.run.agent}
        view = OpenApproval.of(self.call, self.run.agent, **{**places, "attempt": self.attempt})
        return Notice(
            kind=kind,
            owner=self.run.owner,
            call=view,
            rule=self.call.rule,
            n=n,
            decision=self.decision,
            at=self.runtime.clock.now(),
        )

    async def ask(self, kind: NoticeKind, n: int) -> None:
        """Tell those who may decide, once each."""
        notice = self.notice(kind, n)
        where = self._addresses(self._groups(kind))
        work = [(a, partial(self._ask_at, a, notice)) for a in where]
        failure = await try_each(self.runtime, self.run.id, work)
        # A decision, or a vote, that came while the messages were under way saw that they were not sent yet.
        # So did one that came after the death of a sender whose message was found now.
        now = await self._now()
        if now.decision is not None:
            await now.tell_outcome()
        elif now.call.votes:
            await now.update_all()
        if failure is not None:
            raise failure

    async def update_all(self) -> None:
        """Show the votes in the messages that ask for the attempt, where their services can."""
        notice = self.notice(NoticeKind.VOTED)
        messages = await self._requests()
        work = [(m.address, partial(self._update, m, notice)) for m in messages]
        failure = await try_each(self.runtime, self.run.id, work)
        # A service may have been busy for long. Whatever else changed the messages meanwhile, this came last
        # there, so what is true now comes behind it.
        now = await self._now()
        if now.decision is not None:
            await now.tell_outcome()
        elif now.call.voted != self.call.voted:
            await now.update_all()
        if failure is not None:
            raise failure

    async def tell_outcome(self, *, mends: bool = True) -> None:
        """Tell everybody who was asked, and the run's owner where others decide: by a changed message, or by
        a new one. `mends`: change the messages also where that was done, since something older may have
        changed them after it."""
        notice = self.notice(NoticeKind.DECIDED)
        requests: dict[Address, list[Delivery]] = {}
        for message in await self._requests():
            requests.setdefault(message.address, []).append(message)
        if self.call.rule is not None:
            for address in self._addresses((OWNER,)):
                requests.setdefault(address, [])
        tell = partial(self._tell_outcome_at, mends=mends)
        work = [(a, partial(tell, a, rs, notice)) for a, rs in requests.items()]
        failure = await try_each(self.runtime, self.run.id, work)
        if failure is not None:
            raise failure

    async def _ask_at(self, address: Address, notice: Notice) -> None:
        id = self._id(notice.kind, notice.n, address)
        claim = await self._claim(id, address)
        if not isinstance(claim, Claim):
            return
        links = await make_links(self.runtime, self.run, self.call, address)
        try:
            reference = await self._send(address, notice, links, once=id, unsure=claim.unsure)
        except ChannelBusy:
            await self._give_back(id, claim)
            raise
        await self._note(id, reference)

    async def _tell_outcome_at(
        self, address: Address, requests: Sequence[Delivery], notice: Notice, *, mends: bool
    ) -> None:
        sent = [message for message in requests if message.sent_at is not None]
        unsure = requests[0] if requests and not sent else None
        claims: dict[str, Claim] = {}
        if unsure is not None:
            # Its sender died, and nobody knows whether the service has it. One that is still at work learns
            # of the decision itself: RetryableError.
            again = await self._claim(unsure.id, address)
            if isinstance(again, Claim):
                claims[unsure.id] = again
            else:
                sent, unsure = [again], None
        id = self._id(notice.kind, 0, address)
        claim = await self._claim(id, address)
        if not isinstance(claim, Claim):
            for message in sent if mends else ():
                await self._update(message, notice)
            return
        claims[id] = claim
        try:
            reference = await self._outcome(
                address, sent, unsure, notice=notice, id=id, claim=claim
            )
        except ChannelBusy:
            for each, its_claim in claims.items():
                await self._give_back(each, its_claim)
            raise
        await self._note(id, reference)

    async def _outcome(
        self,
        address: Address,
        sent: Sequence[Delivery],
        unsure: Delivery | None,
        notice: Notice,
        id: str,
        claim: Claim,
    ) -> str:
        """Tell the outcome, and return the reference of a new message; "": another one was changed."""
        links = console_link(self.ports, self.run.id, self.call.tool_call_id)
        if unsure is not None:
            # A service that can be asked finds the request, which then has to be changed.
            reference = await self._send(address, notice, links, once=unsure.id, unsure=True)
            await self._note(unsure.id, reference)
            await self._update(unsure.model_copy(update={"reference": reference}), notice)
            return reference
        if any([await self._update(message, notice) for message in sent]):
            return ""
        return await self._send(address, notice, links, once=id, unsure=claim.unsure)

    async def _send(
        self, address: Address, notice: Notice, links: NoticeLinks, *, once: str, unsure: bool
    ) -> str:
        send = partial(self._sender(address).send, once=once, unsure=unsure)
        return await self.turns.take(address, lambda: send(address, notice, links))

    async def _update(self, message: Delivery, notice: Notice) -> bool:
        if not message.reference:
            return False
        links = console_link(self.ports, self.run.id, self.call.tool_call_id)
        sender, address = self._sender(message.address), message.address
        return await self.turns.take(
            address, lambda: sender.update(address, message.reference, notice, links)
        )

    async def _requests(self) -> list[Delivery]:
        """Return the messages that ask for this attempt, or may do so."""
        prefix, outcome = f"{self.attempt:04d}-", f"{self.attempt:04d}-{NoticeKind.DECIDED}-"
        messages = await self.deliveries.of_call(*self.place)
        requests = [m for m in messages if m.id.startswith(prefix) and not m.id.startswith(outcome)]
        return [message for message in requests if not message.is_free]

    async def _claim(self, id: str, address: Address) -> Claim | Delivery:
        return await self.deliveries.claim(*self.place, id, address)

    async def _note(self, id: str, reference: str) -> None:
        await self.deliveries.note_sent(*self.place, id, reference)

    async def _give_back(self, id: str, claim: Claim) -> None:
        """A service that is busy has certainly not got the message: whoever comes next need not ask it."""
        await self.deliveries.give_back(*self.place, id, claim)

    def _id(self, kind: NoticeKind, n: int, address: Address) -> str:
        """Return the id of a message. It is unique among those of all runs: a service is asked for it."""
        place = (self.run.id, self.call.key, address.channel, address.to)
        digest = sha256("\n".join(place).encode("utf-8", "surrogatepass")).hexdigest()[:24]
        return f"{self.attempt:04d}-{kind.value}-{n}-{digest}"

    def _groups(self, kind: NoticeKind) -> tuple[str, ...]:
        rule = self.call.rule
        if rule is None:
            return (OWNER,)
        return rule.escalate_to if kind is NoticeKind.ESCALATED else rule.by

    def _addresses(self, groups: Iterable[str]) -> list[Address]:
        """Return the addresses of these groups, with the run's user where they say so."""
        config = self.ports.config
        person = config.person_with_id(self.run.owner)
        places = []
        for address in config.addresses(groups):
            if address.to != ITSELF:
                places.append(address)
            elif person is not None:
                to = person.place_on(address.channel)
                places += [Address(channel=address.channel, to=to)] if to else []
        return list(dict.fromkeys(places))

    def _sender(self, address: Address) -> Sender:
        sender = self.ports.senders.get(address.channel)
        if sender is None:
            raise ChannelRefused(f"{address.channel} is not set up in this deployment")
        return sender

    async def _now(self) -> "_Wait":
        """Return the call as it is now."""
        call = await self.runtime.journal.runs.call(*self.place)
        return replace(self, call=call or self.call)

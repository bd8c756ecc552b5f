"""Links by which one person decides one call (docs/security.md#links-that-decide)."""

import re
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal
from urllib.parse import quote

from pydantic import Field

from layover.approvals.approvers import has_approved, may_decide
from layover.approvals.decide import ACCEPTS, DecisionRequest, decide
from layover.approvals.open_call import find_call
from layover.approvals.waiting import is_expired
from layover.errors import DecisionAlreadyMade, NotAnApprover, NotFound, RequestError
from layover.keys import Keys
from layover.ports.channels import ChannelPorts, Link
from layover.records.deployed import with_args_schema
from layover.runtime import Runtime
from layover.values.base import Json, Time, Value
from layover.values.channels import Address, Channels, NoticeLinks, Person
from layover.values.decision import Decision, DecisionKind, Denial, Risk, Via, Vote
from layover.values.deployment.access import Actor
from layover.values.runs.run import (
    CallRecord,
    CallState,
    RunMeta,
    RunSnapshot,
    SuspensionKind,
)
from layover.values.runs.views import OpenApproval, Pending

MAX_AGE = timedelta(days=7)
"""The longest life of a link."""
SECRET_BYTES = 32
NO_LINK = "there is no such path"
"""The same words as for any path that does not exist: a wrong link learns nothing."""
_TOKEN = re.compile(r"([0-9a-f]{32})\.(run_[0-9A-Za-z_]{1,64})\.([A-Za-z0-9_-]{43})")
_KINDS = frozenset({SuspensionKind.APPROVAL, SuspensionKind.INPUT})
"""Consent to an account is its owner's, who signs in for it: no link leads to it."""


class SignInRequired(RequestError):
    """Links of this deployment only lead to the console, where the person signs in and decides."""


class LinkDecision(Value):
    """The decision that was made about the call of a link."""

    decision: DecisionKind
    by: str = Field(description="Who decided: a mail address where the deployment has one.")
    at: Time
    reason: str | None = None
    mine: bool = Field(description="Whether the person of the link decided.")


class LinkPage(Value):
    """The call of a link, as its person sees it. What is no longer to be decided shows no arguments; a link
    that asks for a sign-in shows nothing of the call."""

    person: str = Field(description="The person whose link it is: a mail address.")
    run_id: str
    tool_call_id: str
    attempt: int
    sign_in: bool = Field(
        default=False, description="Whether the person has to sign in at the console to decide."
    )
    may: tuple[Literal["approve", "deny", "resume"], ...] = Field(
        default=(), description="The decisions that the call takes by this link now."
    )
    closed: str | None = Field(default=None, description="Why nothing is to be decided any more.")
    decided: LinkDecision | None = None
    voted: bool = Field(
        default=False, description="Whether the person has approved, and more approvals are needed."
    )
    agent: str | None = None
    agent_path: tuple[str, ...] = ()
    tool_name: str | None = None
    kind: SuspensionKind | None = None
    summary: str | None = None
    risk: Risk | None = None
    requester: str | None = Field(default=None, description="Whose run asks.")
    requested_at: Time | None = None
    expires_at: Time | None = Field(default=None, description="When this link ends, in UTC.")
    args: Json = None
    args_schema: dict[str, Any] | None = None
    payload: Json = None
    resume_schema: dict[str, Any] | None = None
    by: tuple[str, ...] = Field(default=(), description="The groups that may decide.")
    reason_required: bool = False
    quorum: int = Field(default=1, description="The approvals that the call takes.")
    votes: tuple[Vote, ...] = Field(default=(), description="The approvals so far.")
    denied_before: tuple[Denial, ...] = ()
    asked_again: Literal["definition"] | None = None
    taken_back_at: Time | None = None


@dataclass(frozen=True)
class LinkOutcome:
    """The answer to a decision by a link. `again`: the person had already made the same decision."""

    page: LinkPage
    again: bool


def console_link(ports: ChannelPorts, run_id: str, tool_call_id: str) -> NoticeLinks:
    """Return the link to the call in the console, which decides nothing."""
    path = "/".join(quote(each, safe="") for each in (run_id, tool_call_id))
    return NoticeLinks(console=f"{ports.base_url}/#/inbox/{path}")


async def make_links(
    runtime: Runtime, run: RunMeta, call: CallRecord, address: Address
) -> NoticeLinks:
    """Return the links of a message that asks for a decision: with one that decides, if the address reaches
    one person, who may."""
    ports = runtime.channels
    links = console_link(ports, run.id, call.tool_call_id)
    person = ports.config.person_at(address)
    # Where a sign-in decides, the console's link says all; links that were sent before lead there, too.
    if person is None or call.suspension is None or ports.config.link_sign_in:
        return links
    open_call = OpenApproval.of(
        call, run.agent, run_id=run.id, thread_id=run.thread_id, agent=run.agent
    )
    decide = await make_link(runtime, person, run.owner, open_call)
    return links.model_copy(update={"decide": decide})


async def make_link(runtime: Runtime, person: Person, owner: str, call: OpenApproval) -> str | None:
    """Return the URL at which this person decides a waiting call. None: the person may not decide it, the
    call waits for something that no link can give, or this deployment makes no links."""
    ports = runtime.channels
    if ports.links is None or not ports.base_url or call.kind not in _KINDS:
        return None
    now = runtime.clock.now()
    is_over = call.expires_at is not None and call.expires_at <= now
    if is_over or not may_decide(actor_of(person), owner, call.approval):
        return None
    secret = runtime.dice.text(SECRET_BYTES)
    link = Link(
        person=person.id,
        owner=owner,
        run_id=call.run_id,
        tool_call_id=call.tool_call_id,
        attempt=call.attempt,
        # The call's own expiry holds as well, whenever that is: it may be put off.
        expires_at=now + MAX_AGE,
    )
    await ports.links.put_link(secret, link)
    return f"{ports.base_url}/decide/{Keys(owner).hash}.{call.run_id}.{secret}"


async def find_link(ports: ChannelPorts, token: str) -> Link | None:
    """Return the link of the token in its URL, also one whose time is over. None: there is none."""
    # Text that cannot be a token costs no read.
    match = _TOKEN.fullmatch(token)
    return await ports.links.get_link(*match.groups()) if match and ports.links else None


def actor_of(person: Person) -> Actor:
    """Return the person as a caller, with the groups that the configuration gives them."""
    return Actor(sub=person.id, groups=person.groups)


async def look(runtime: Runtime, token: str) -> LinkPage:
    """Return what the person of a link sees. Changes nothing. Raises NotFound, the same for every text that
    is not a link of somebody who may decide its call."""
    link, person = await _link_of(runtime, token)
    return await _page(runtime, link, person)


async def decide_by_link(runtime: Runtime, token: str, request: DecisionRequest) -> LinkOutcome:
    """Decide, or vote, as the person of a link. Raises NotFound as `look` does, SignInRequired,
    DecisionAlreadyMade (with the words that the page then has) and DecisionInvalid."""
    link, person = await _link_of(runtime, token)
    if runtime.channels.config.link_sign_in:
        raise SignInRequired("sign in at the console to decide: this link only leads there")
    by_link = replace(request, attempt=link.attempt, via=Via.LINK)
    actor = actor_of(person)
    try:
        if link.expires_at <= runtime.clock.now():
            page = await _page(runtime, link, person)
            # A decision that was made is answered as ever, also to its repetition.
            if page.decided is None:
                raise DecisionAlreadyMade(page.closed or _OVER)
        outcome = await decide(runtime, actor, link.run_id, link.tool_call_id, by_link)
    except (NotFound, NotAnApprover):
        raise NotFound(NO_LINK) from None
    except DecisionAlreadyMade as error:
        page = await _page(runtime, link, person)
        raise DecisionAlreadyMade(page.closed or error.message) from None
    return LinkOutcome(await _page(runtime, link, person), outcome.again)


def name_of(channels: Channels, sub: str) -> str:
    """Return the address of a person that the configuration has; any other subject as it is."""
    person = channels.person_with_id(sub)
    return sub if person is None else person.mail


async def _link_of(runtime: Runtime, token: str) -> tuple[Link, Person]:
    """Return a link, and its person as the configuration has them now. Raises NotFound."""
    link = await find_link(runtime.channels, token)
    person = runtime.channels.config.person_with_id(link.person) if link else None
    if link is None or person is None:
        raise NotFound(NO_LINK)
    return link, person


async def _page(runtime: Runtime, link: Link, person: Person) -> LinkPage:
    try:
        snapshot, call = await find_call(runtime, actor_of(person), link.run_id, link.tool_call_id)
    except (NotFound, NotAnApprover, DecisionAlreadyMade):
        # The run is erased, or the person has lost the right: nobody else learns which of them.
        raise NotFound(NO_LINK) from None
    page = LinkPage(
        person=person.mail,
        run_id=link.run_id,
        tool_call_id=link.tool_call_id,
        attempt=link.attempt,
    )
    if runtime.channels.config.link_sign_in:
        return page.model_copy(update={"sign_in": True})
    decision = call.decision_on(link.attempt)
    closed = _closed(runtime, snapshot, call, link, decision)
    page = page.model_copy(update=_facts(runtime, snapshot, call, link))
    if closed is not None:
        decided = _decided(runtime.channels.config, decision, person)
        return page.model_copy(update={"closed": closed, "decided": decided})
    return page.model_copy(update=_request(runtime, snapshot, call, person))


def _facts(runtime: Runtime, snapshot: RunSnapshot, call: CallRecord, link: Link) -> dict[str, Any]:
    """Return what the page says of a call in any case."""
    suspension, meta = call.suspension, snapshot.meta
    ends = [link.expires_at]
    if call.expires_at is not None and call.attempt == link.attempt:
        ends.append(call.expires_at)
    return {
        "agent": meta.agent,
        "agent_path": call.agent_path or (meta.agent,),
        "tool_name": call.tool_name,
        "kind": suspension.kind if suspension else None,
        "summary": suspension.summary if suspension else None,
        "risk": suspension.risk if suspension else None,
        "requester": name_of(runtime.channels.config, meta.owner),
        "expires_at": min(ends),
    }


def _request(
    runtime: Runtime, snapshot: RunSnapshot, call: CallRecord, person: Person
) -> dict[str, Any]:
    """Return what the page says of a call that waits."""
    config, agent = runtime.channels.config, snapshot.meta.agent
    pending = with_args_schema(runtime.agents, agent, Pending.of(call, agent))
    rule = call.rule
    return {
        "may": tuple(sorted(verdict.value for verdict in ACCEPTS[pending.kind])),
        "voted": has_approved(call, person.id),
        "requested_at": pending.requested_at,
        "args": pending.args,
        "args_schema": pending.args_schema,
        "payload": pending.payload,
        "resume_schema": pending.resume_schema,
        "by": rule.by if rule else (),
        "reason_required": rule is not None and rule.reason_required,
        "quorum": rule.quorum if rule else 1,
        "votes": tuple(
            vote.model_copy(update={"by": name_of(config, vote.person), "on_behalf_of": None})
            for vote in call.votes
        ),
        "denied_before": tuple(
            each.model_copy(
                update={
                    "decided_by": name_of(config, each.on_behalf_of or each.decided_by),
                    "on_behalf_of": None,
                }
            )
            for each in pending.denied_before
        ),
        "asked_again": pending.asked_again,
        "taken_back_at": pending.taken_back_at,
    }


_OVER = "this link is over: decide in the console"
_ENDS = {
    DecisionKind.CONNECTED: "the account is connected",
    DecisionKind.EXPIRED: "nobody decided in time",
    DecisionKind.CANCELLED: "the run was cancelled",
    DecisionKind.WITHDRAWN: "the requester wrote again, so nobody is asked any more",
}
_VERBS = {
    DecisionKind.APPROVED: "approved it",
    DecisionKind.DENIED: "denied it",
    DecisionKind.RESUMED: "answered it",
}


def _closed(
    runtime: Runtime,
    snapshot: RunSnapshot,
    call: CallRecord,
    link: Link,
    decision: Decision | None,
) -> str | None:
    """Return why a link decides nothing (any more); None if it does."""
    now: datetime = runtime.clock.now()
    if decision is not None:
        words = _outcome(runtime.channels.config, call, decision)
        return words if call.attempt == link.attempt else f"{words}; the call waited again since"
    if call.attempt != link.attempt:
        return "the call waits for another decision now: a newer message has its link"
    if snapshot.meta.status.over:
        return "the run is over"
    if call.state is not CallState.WAITING or call.suspension is None:
        return "the call does not wait any more"
    if is_expired(call, now):
        return _ENDS[DecisionKind.EXPIRED]
    return _OVER if link.expires_at <= now else None


def _outcome(channels: Channels, call: CallRecord, decision: Decision) -> str:
    verb = _VERBS.get(decision.kind)
    kind = call.suspension.kind if call.suspension else None
    if decision.kind is DecisionKind.DENIED and kind is SuspensionKind.INPUT:
        verb = "declined to answer"
    if decision.kind is DecisionKind.WITHDRAWN and decision.reason is not None:
        return f"{decision.reason}, so nobody is asked any more"
    return f"{_decider(channels, decision)} {verb}" if verb else _ENDS[decision.kind]


def _decider(channels: Channels, decision: Decision) -> str:
    return name_of(channels, decision.on_behalf_of or decision.decided_by)


def _decided(channels: Channels, decision: Decision | None, person: Person) -> LinkDecision | None:
    if decision is None:
        return None
    return LinkDecision(
        decision=decision.kind,
        by=_decider(channels, decision),
        at=decision.at,
        reason=decision.reason,
        mine=(decision.on_behalf_of or decision.decided_by) == person.id,
    )

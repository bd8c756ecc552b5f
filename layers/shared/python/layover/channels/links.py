"""Links in messages: to the console, and to the page at which one person decides one call."""

import secrets
from datetime import datetime, timedelta
from urllib.parse import quote

from layover.approvals.approvers import may_decide
from layover.keys import Keys
from layover.ports.channels import ChannelPorts, Link
from layover.values.channels import Address, NoticeLinks, Person
from layover.values.deployment.access import Actor
from layover.values.runs.run import CallRecord, RunMeta, SuspensionKind

MAX_LIFE = timedelta(days=7)
"""The longest life of a link."""
_SECRET_BYTES = 32
_DECIDED_BY_LINK = (SuspensionKind.APPROVAL, SuspensionKind.INPUT)


def console_link(ports: ChannelPorts, run_id: str, tool_call_id: str) -> NoticeLinks:
    """Return the link to the call in the console, which decides nothing."""
    path = "/".join(quote(each, safe="") for each in (run_id, tool_call_id))
    return NoticeLinks(console=f"{ports.base_url}/#/inbox/{path}")


async def make_links(
    ports: ChannelPorts, run: RunMeta, call: CallRecord, address: Address, now: datetime
) -> NoticeLinks:
    """Return the links of a message that asks for a decision: with one that decides, if the address reaches
    one person, who may."""
    links = console_link(ports, run.id, call.tool_call_id)
    person = ports.config.person_at(address)
    if person is None or not _may_link(ports, run, call, person):
        return links
    secret = secrets.token_urlsafe(_SECRET_BYTES)
    expires_at = min(now + MAX_LIFE, call.expires_at or now + MAX_LIFE)
    link = Link(
        person=person.id,
        owner=run.owner,
        run_id=run.id,
        tool_call_id=call.tool_call_id,
        attempt=call.attempt,
        expires_at=expires_at,
    )
    assert ports.links is not None
    await ports.links.put_link(secret, link)
    token = f"{Keys(run.owner).hash}.{run.id}.{secret}"
    return links.model_copy(update={"decide": f"{ports.base_url}/decide/{token}"})


async def find_link(ports: ChannelPorts, token: str) -> Link | None:
    """Return the link of the token in its URL, also one whose time is over. None: there is none."""
    owner_hash, _, rest = token.partition(".")
    run_id, _, secret = rest.rpartition(".")
    if ports.links is None or not (owner_hash and run_id and secret):
        return None
    return await ports.links.get_link(owner_hash, run_id, secret)


def actor_of(person: Person) -> Actor:
    """Return the person as a caller, with the groups that the configuration gives them."""
    return Actor(sub=person.id, groups=person.groups)


def _may_link(ports: ChannelPorts, run: RunMeta, call: CallRecord, person: Person) -> bool:
    kind = call.suspension.kind if call.suspension else None
    if ports.config.link_sign_in or kind not in _DECIDED_BY_LINK or not ports.base_url:
        return False
    return may_decide(actor_of(person), run.owner, call.rule)

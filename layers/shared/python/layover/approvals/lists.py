"""Lists of waiting calls, for their owner and for approvers, and of decisions, for auditors. They need no
Postgres."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import date, datetime
from typing import TypeVar

from layover.approvals.approvers import may_decide
from layover.errors import NotFound
from layover.records.deployed import with_args_schema
from layover.runtime import Runtime
from layover.values.cursor import decode_cursor_field, encode_cursor
from layover.values.decision import Risk
from layover.values.deployment.access import Actor
from layover.values.page import Page
from layover.values.runs.audit import AuditRow
from layover.values.runs.views import ApproverItem, OpenApproval


@dataclass(frozen=True)
class ApprovalFilter:
    """The calls that a caller wants to see; None: of all."""

    agent: str | None = None
    tool: str | None = None
    owner: str | None = None
    risk: Risk | None = None
    before: datetime | None = None
    """Those that began to wait before it."""

    def takes(self, call: OpenApproval, owner: str) -> bool:
        """Return whether the call is one of them."""
        wishes = (
            (self.agent, call.agent),
            (self.tool, call.tool_name),
            (self.owner, owner),
            (self.risk, call.risk),
        )
        is_wanted = all(wish in (None, fact) for wish, fact in wishes)
        return is_wanted and (self.before is None or call.requested_at < self.before)


ALL = ApprovalFilter()
MAX_LOOKS = 10
"""Pages that one request reads for calls that pass its filter. A page may be short, and still have a next."""
_APPROVALS = "approvals"
_INBOX = "inbox"
_AUDIT = "audit"


T = TypeVar("T")


async def list_approvals(
    runtime: Runtime,
    actor: Actor,
    thread_id: str | None,
    limit: int,
    cursor: str | None,
    only: ApprovalFilter = ALL,
) -> Page[OpenApproval]:
    """Return the undecided calls of all of the actor's own runs that the actor may decide, oldest first.
    Raises NotFound for a thread that does not exist."""
    owner = actor.owner
    if thread_id is not None and not await _live_threads(runtime, [(owner, thread_id)]):
        raise NotFound("there is no such thread", thread_id=thread_id)
    start = decode_cursor_field(_APPROVALS, cursor)
    decisions = runtime.journal.decisions
    # Calls that only others decide are with the run. Here they would be work that the owner cannot do.
    own, next_cursor = await _matches(
        lambda n, after: decisions.page_pending(owner, thread_id, n, after),
        lambda a: may_decide(actor, owner, a.approval) and only.takes(a, owner),
        limit,
        start,
    )
    live_threads = await _live_threads(runtime, ((owner, a.thread_id) for a in own))
    items = tuple(
        with_args_schema(runtime.agents, a.agent, a)
        for a in own
        if (owner, a.thread_id) in live_threads
    )
    return Page(items=items, next_cursor=encode_cursor(_APPROVALS, next_cursor))


async def list_for_approver(
    runtime: Runtime,
    actor: Actor,
    limit: int,
    cursor: str | None,
    only: ApprovalFilter = ALL,
) -> Page[ApproverItem]:
    """Return the undecided calls of all users that the actor may decide, oldest first."""
    start = decode_cursor_field(_INBOX, cursor)
    groups, inbox = sorted(actor.groups), runtime.journal.inbox
    items, next_cursor = await _matches(
        lambda n, after: inbox.page(groups, n, after),
        lambda a: (
            may_decide(actor, a.owner, a.approval.approval) and only.takes(a.approval, a.owner)
        ),
        limit,
        start,
    )
    live_threads = await _live_threads(runtime, ((a.owner, a.thread_id) for a in items))
    # An approver who does not own the run learns nothing of its thread.
    names = [name for name in OpenApproval.model_fields if name != "thread_id"]
    views = (
        ApproverItem(**{name: getattr(a.approval, name) for name in names}, owner=a.owner)
        for a in items
        if (a.owner, a.thread_id) in live_threads
    )
    items_now = tuple(with_args_schema(runtime.agents, view.agent, view) for view in views)
    return Page(items=items_now, next_cursor=encode_cursor(_INBOX, next_cursor))


async def _matches(
    read_page: Callable[[int, str | None], Awaitable[Page[T]]],
    takes: Callable[[T], bool],
    limit: int,
    cursor: str | None,
) -> tuple[list[T], str | None]:
    """Return at most `limit` items that `takes` lets through, and the cursor behind them."""
    matches: list[T] = []
    for _ in range(MAX_LOOKS):
        page = await read_page(limit - len(matches), cursor)
        matches += [item for item in page.items if takes(item)]
        cursor = page.next_cursor
        if cursor is None or len(matches) == limit:
            break
    return matches, cursor


async def _live_threads(
    runtime: Runtime, threads: Iterable[tuple[str, str]]
) -> set[tuple[str, str]]:
    """Return the (owner, thread) pairs whose threads are not deleted. The index has the records of a deleted
    thread's runs until they are erased."""
    all_threads = sorted(set(threads))
    heads = await asyncio.gather(*(runtime.journal.heads.get(*thread) for thread in all_threads))
    pairs = zip(all_threads, heads, strict=True)
    return {thread for thread, head in pairs if head is not None and not head.deleted}


async def list_decisions(
    runtime: Runtime, since: date | None, until: date | None, limit: int, cursor: str | None
) -> Page[AuditRow]:
    """Return votes and decisions of all users on these UTC days (both included; None: no bound), the oldest
    first. They are kept longer than runs and threads."""
    page = await runtime.journal.audit.page_rows(
        since, until, limit, decode_cursor_field(_AUDIT, cursor)
    )
    return Page(items=page.items, next_cursor=encode_cursor(_AUDIT, page.next_cursor))

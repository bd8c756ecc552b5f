"""Creating, reading, changing and deleting threads."""

import asyncio
import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from layover.errors import InvalidRequest, NotFound, RetryableError, TooLarge, UnknownAgent
from layover.records.lifetimes import watch_thread
from layover.records.threads import head_of
from layover.records.views import thread_view
from layover.retention.erase import erase
from layover.runtime import Runtime
from layover.values.cursor import decode_cursor_field, encode_cursor
from layover.values.page import Page
from layover.values.text import json_size, sanitise
from layover.values.thread import Thread, ThreadHead

MAX_TITLE = 500
"""The most characters of a title."""
MAX_METADATA = 64 * 1024
"""Bytes of JSON: the head of a thread is one item of at most 400 kB."""
_CURSOR = "threads"
_LOOK_UP_S = 2
"""Seconds for the database, which may be asleep; the next listing tries again."""
ERASE_TIMEOUT = timedelta(seconds=2)
"""The time that a request may spend on erasing. The sweeper erases the rest."""
_log = logging.getLogger("layover")


async def create(
    runtime: Runtime, owner: str, agent: str, title: str | None, metadata: Mapping[str, Any]
) -> Thread:
    """Create an empty thread. Raises UnknownAgent."""
    if agent not in runtime.agents():
        raise UnknownAgent(agent, runtime.agents())
    now = runtime.clock.now()
    head = ThreadHead(
        id=runtime.ids.new("thread"),
        owner=owner,
        agent=agent,
        title=clean_title(title) or None,
        metadata=clean_metadata(metadata),
        created_at=now,
        updated_at=now,
    )
    await runtime.journal.heads.put(head)
    await watch_thread(runtime, owner, head.id)
    return thread_view(head, None)


async def get(runtime: Runtime, owner: str, thread_id: str) -> Thread:
    """Return one thread. Raises NotFound."""
    return await view_of(runtime, await head_of(runtime, owner, thread_id))


async def list_threads(
    runtime: Runtime, owner: str, limit: int, cursor: str | None
) -> Page[Thread]:
    """Return the owner's threads, newest change first. Never waits for the database."""
    if cursor is None and not await runtime.journal.heads.has_all(owner):
        await _restore_heads(runtime, owner)
    page = await runtime.journal.heads.page(owner, limit, decode_cursor_field(_CURSOR, cursor))
    views = await asyncio.gather(*(view_of(runtime, head) for head in page.items))
    return Page(items=tuple(views), next_cursor=encode_cursor(_CURSOR, page.next_cursor))


async def _restore_heads(runtime: Runtime, owner: str) -> None:
    """Restore missing heads. A journal that has never listed this owner may have been lost: the database
    knows the threads."""
    try:
        async with asyncio.timeout(_LOOK_UP_S):
            heads = await runtime.threads.heads(owner)
        await runtime.journal.heads.add_missing(owner, heads)
    except (RetryableError, TimeoutError) as error:
        _log.warning("threads not looked up", extra={"cause": type(error).__name__})


async def edit(
    runtime: Runtime,
    owner: str,
    thread_id: str,
    title: str | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Thread:
    """Replace the title ("" removes it) and the metadata, whole; None leaves either unchanged. Raises
    NotFound."""
    head = await head_of(runtime, owner, thread_id)
    if title is None and metadata is None:
        return await view_of(runtime, head)
    new_head = await runtime.journal.heads.edit(
        owner,
        thread_id,
        title=None if title is None else clean_title(title),
        metadata=None if metadata is None else clean_metadata(metadata),
    )
    if new_head is None:
        raise NotFound("there is no such thread", thread_id=thread_id)
    return await view_of(runtime, new_head)


async def delete(
    runtime: Runtime,
    owner: str,
    thread_id: str,
    *,
    forget_profile: bool = False,
    within: timedelta = ERASE_TIMEOUT,
) -> None:
    """Delete the thread: from now on its owner cannot see it, and its run is cancelled. Raises NotFound.

    `forget_profile`: delete the agent's whole profile of the owner, too. Its facts do not name the thread
    that they come from, so any that stayed could reveal it. Erasing may take longer than `within`, or fail
    for the moment because the database sleeps. The head stays deleted, the sweeper looks for such heads, and
    late writers see the deletion."""
    await head_of(runtime, owner, thread_id)
    await runtime.journal.erasure.mark_deleted(owner, thread_id, forget_profile=forget_profile)
    try:
        async with asyncio.timeout(within.total_seconds()):
            await erase(runtime, owner, thread_id)
    except (RetryableError, TimeoutError) as error:
        _log.warning(
            "a deleted thread is not erased yet",
            extra={"thread_id": thread_id, "cause": type(error).__name__},
        )


async def view_of(runtime: Runtime, head: ThreadHead) -> Thread:
    """Return the thread as its owner sees it."""
    ids = (*([head.active_run] if head.active_run else []), *head.waiting_runs)
    runs = await asyncio.gather(*(runtime.journal.runs.get(head.owner, id) for id in ids))
    by_id = {run.id: run for run in runs if run is not None}
    active = by_id.get(head.active_run or "")
    return thread_view(head, active, [by_id[id] for id in head.waiting_runs if id in by_id])


def clean_title(title: str | None) -> str:
    """Return a title as it is stored; "" for none. Raises InvalidRequest if it is too long."""
    text = sanitise(title or "").strip()
    if len(text) > MAX_TITLE:
        error = {"loc": ["body", "title"], "msg": f"longer than {MAX_TITLE} characters"}
        raise InvalidRequest("the title is too long", [{**error, "type": "too_long"}])
    return text


def clean_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return metadata as they are stored. Raises TooLarge, InvalidRequest."""
    clean = dict(sanitise(metadata))
    if json_size(clean) > MAX_METADATA:
        raise TooLarge(f"metadata is larger than {MAX_METADATA} bytes of JSON")
    return clean

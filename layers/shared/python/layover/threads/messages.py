"""The messages of a thread: the database's, with the journal's of unfinished runs on top."""

from collections.abc import Sequence

from layover.errors import NotFound
from layover.records.threads import head_of, live_branch, live_messages
from layover.runtime import Runtime
from layover.values.cursor import bad_cursor, decode_cursor, encode_cursor
from layover.values.message import Message, Role
from layover.values.page import Page
from layover.values.text import sanitise
from layover.values.thread import ThreadHead

_CURSOR = "messages"


async def list_messages(
    runtime: Runtime,
    owner: str,
    thread_id: str,
    branch: str | None,
    limit: int,
    cursor: str | None,
) -> Page[Message]:
    """Return a branch, oldest first: the one that ends in `branch`, or the newest. Raises NotFound.

    A cursor keeps the first page's tip, so that the pages of one listing fit together even if the thread goes
    on, or a run's messages move to the database, between two pages."""
    tip, stored_from, after = decode_cursor(_CURSOR, cursor, 3)
    if cursor is not None and tip is None:
        raise bad_cursor()
    head = await head_of(runtime, owner, thread_id)
    live, newest = await live_branch(runtime, head)
    tip = tip or sanitise(branch) or newest
    if tip is None:
        return Page(items=())
    base, overlay = _split(live, tip)
    # Stored messages come first, then the journal's. After a page that ended inside the journal's part, the
    # same stored page is read again and skipped, because messages that were then in the journal may have been
    # stored since.
    while True:
        page = await _stored_page(runtime, head, base, limit, stored_from, is_tip=base == tip)
        page = page.model_copy(update={"items": _with_results(page.items, live)})
        if page.next_cursor is None:
            break
        rest = _behind(page.items, after)
        if rest:
            more = encode_cursor(_CURSOR, tip, page.next_cursor, None)
            return Page(items=_visible(rest), next_cursor=more)
        stored_from = page.next_cursor
        # The skipped pages hold everything up to `after`, once it was seen.
        after = None if any(message.id == after for message in page.items) else after
    rest = _behind([*page.items, *overlay], after)
    if len(rest) <= limit:
        return Page(items=_visible(rest))
    visible = rest[:limit]
    more = encode_cursor(_CURSOR, tip, stored_from, visible[-1].id)
    return Page(items=_visible(visible), next_cursor=more)


def _with_results(stored: Sequence[Message], live: Sequence[Message]) -> tuple[Message, ...]:
    """Return stored messages with the journal's results of their calls, or their places: a run that was set
    aside goes on behind what others said, and its results are stored with its end."""
    results = {m.parent_id: m for m in live if m.role is Role.TOOL}
    stored_ids = {message.id for message in stored}
    messages: list[Message] = []
    for message in stored:
        messages.append(message)
        while (result := results.get(messages[-1].id)) and result.id not in stored_ids:
            messages.append(result)
    return tuple(messages)


def _visible(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Leave out the places of results to come."""
    return tuple(message for message in messages if not message.is_place)


async def newest_messages(
    runtime: Runtime, head: ThreadHead, tip: str, limit: int
) -> Sequence[Message]:
    """Return the last messages of the branch that ends in `tip`, oldest first: `limit` at least, if it has so
    many."""
    live = await live_messages(runtime, head)
    base, overlay = _split(live, tip)
    if base is None or len(overlay) >= limit:
        return _visible(overlay)
    left = limit - len(overlay)
    stored = await runtime.threads.newest_messages(head.owner, head.id, base, left)
    return _visible([*_with_results(stored, live), *overlay])


def _split(live: Sequence[Message], tip: str) -> tuple[str | None, list[Message]]:
    """Return the end of the database's part of the branch, and the journal's part, oldest first."""
    by_id = {message.id: message for message in live}
    overlay: list[Message] = []
    at: str | None = tip
    while at is not None and (message := by_id.pop(at, None)) is not None:
        overlay.append(message)
        at = message.parent_id
    return at, overlay[::-1]


async def _stored_page(
    runtime: Runtime,
    head: ThreadHead,
    base: str | None,
    limit: int,
    cursor: str | None,
    *,
    is_tip: bool,
) -> Page[Message]:
    if base is None:
        return Page(items=())
    page = await runtime.threads.messages(head.owner, head.id, base, limit, cursor)
    if page is None and not is_tip:
        return Page(items=())  # a missing ancestor ends the branch
    if page is None:
        raise NotFound("there is no such message", thread_id=head.id)
    return page


def _behind(messages: Sequence[Message], after: str | None) -> list[Message]:
    """Return the messages behind `after` (None: all of them); an empty list if `after` is not among them."""
    if after is None:
        return list(messages)
    ids = [message.id for message in messages]
    return list(messages[ids.index(after) + 1 :]) if after in ids else []

"""All stored data of a user as one document, written page by page because it may be larger than memory."""

import asyncio
import json
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import ExitStack
from datetime import datetime
from io import StringIO
from tempfile import SpooledTemporaryFile
from typing import IO, Any, Protocol

from layover.batches import batched
from layover.clock import rfc3339
from layover.files.node_log import list_nodes
from layover.files.store import Files
from layover.files.uploads import LINK_LIVES, is_there
from layover.ports.memory.personal import StoredKind
from layover.records.threads import live_messages
from layover.records.views import run_view
from layover.runtime import Runtime
from layover.values.base import Value
from layover.values.message import Role
from layover.values.note import PROFILE
from layover.values.page import Page, every_item
from layover.values.runs.run import RunSnapshot
from layover.values.thread import ThreadFacts, ThreadHead

END = "end"
"""The array of the place behind the whole document."""
_PAGE = 200
_IN_MEMORY = 1024 * 1024
"""Bytes of each thread that is read at once; the rest is on disk."""
MAX_CONCURRENT = 8
"""Threads, or files, that are read at once."""
_PIECE = 64 * 1024
"""The number of characters that are copied at once."""
_RUN = {"messages", "input", "text"}
"""Fields of a run that are among the thread's messages as well."""
_GRANT = {"connection", "scopes", "granted", "connected_at", "refreshed_at", "ended_at"}
"""Fields of a grant that are its owner's to read. Its tokens are not: they work without a password."""
Rows = Sequence[Mapping[str, Any]]


class Place(Value):
    """A place between two pages: the array of the page behind it, and where in the array that page begins.
    `is_empty`: nothing of the array is in front of it."""

    array: str = "threads"
    cursor: str | None = None
    is_empty: bool = True


class Decisions(Protocol):
    """Decisions about calls. They are read with the threads and written behind them."""

    def add(self, rows: Rows) -> None:
        """Keep these, which come with the page of threads that is being read."""
        ...

    async def page(self, cursor: str | None) -> Page[Mapping[str, Any]]:
        """Return a page of all that were kept."""
        ...


class ListedDecisions:
    """Decisions in memory."""

    def __init__(self) -> None:
        self._rows: list[Mapping[str, Any]] = []

    def add(self, rows: Rows) -> None:
        """See `Decisions`."""
        self._rows += rows

    async def page(self, cursor: str | None) -> Page[Mapping[str, Any]]:
        """See `Decisions`."""
        return Page(items=tuple(self._rows))


_Texts = tuple[Sequence[IO[str]], str | None]
"""The items of a page, each to be read from its beginning, and the cursor of the next page."""


class Document:
    """The document of one owner.

    Args:
        runtime: The ports.
        owner: Whose data it is.
        at: The time that it names as its own.
        thread_ids: The threads in it (`list_thread_ids`); those that are deleted meanwhile are left out.
        decisions: Where decisions are kept until the threads are written.
        has_links: Whether files have URLs, which live for minutes.
        at_once: Threads that are read at once, and are a page together.
    """

    def __init__(
        self,
        runtime: Runtime,
        owner: str,
        at: datetime,
        thread_ids: Sequence[str],
        decisions: Decisions,
        *,
        has_links: bool,
        at_once: int = MAX_CONCURRENT,
    ) -> None:
        self._runtime = runtime
        self._owner = owner
        self._at = at
        self._thread_ids = thread_ids
        self._decisions = decisions
        self._has_links = has_links
        self._at_once = at_once
        self._files = Files(runtime.blobs, owner)
        self._file_ids: list[str] | None = None
        self._arrays: Mapping[str, Callable[[str | None, ExitStack], Awaitable[_Texts]]] = {
            "threads": self._threads,
            "decisions": self._of_calls,
            "profiles": self._profiles,
            "working_memory": self._working_memory,
            "entries": lambda cursor, _: self._rows("entries", cursor),
            "connections": self._connections,
            "usage": lambda cursor, _: self._rows("usage", cursor),
            "files": self._list_files,
        }

    async def pieces(self, place: Place) -> AsyncGenerator[tuple[str, Place | None], None]:
        """Yield the text from a place on. The last piece of a page comes with the place behind it, from which
        another process may go on; all others come with None."""
        while place.array != END:
            with ExitStack() as spools:
                items, cursor = await self._arrays[place.array](place.cursor, spools)
                yield self._opening(place), None
                is_empty = place.is_empty
                for item in items:
                    yield "" if is_empty else ",", None
                    is_empty = False
                    while piece := item.read(_PIECE):
                        yield piece, None
                next_place = self._behind(place, cursor, is_empty)
                yield _closing(place, next_place), next_place
                place = next_place

    def _opening(self, place: Place) -> str:
        if place.cursor is not None:
            return ""
        if place.array != next(iter(self._arrays)):
            return f",{_json(place.array)}:["
        at, owner = _json(rfc3339(self._at)), _json(self._owner)
        return f'{{"exported_at":{at},"user":{owner},{_json(place.array)}:['

    def _behind(self, place: Place, cursor: str | None, is_empty: bool) -> Place:
        """Return the place behind a page."""
        if cursor is not None:
            return Place(array=place.array, cursor=cursor, is_empty=is_empty)
        names = [*self._arrays, END]
        return Place(array=names[names.index(place.array) + 1])

    async def _threads(self, cursor: str | None, spools: ExitStack) -> _Texts:
        """Read several threads at once: each takes several requests in sequence."""
        start = int(cursor or 0)
        ids = self._thread_ids[start : start + self._at_once]
        heads = await asyncio.gather(
            *(self._runtime.journal.heads.get(self._owner, i) for i in ids)
        )
        reads = (self._read_thread(h, spools) for h in heads if h is not None and not h.deleted)
        texts: list[IO[str]] = []
        for text, about_calls in await asyncio.gather(*reads):
            self._decisions.add(about_calls)
            texts.append(text)
        end = start + len(ids)
        return texts, str(end) if end < len(self._thread_ids) else None

    async def _read_thread(self, head: ThreadHead, spools: ExitStack) -> tuple[IO[str], Rows]:
        """Return a thread, to be read from its beginning, and the decisions about its calls."""
        decisions: list[Mapping[str, Any]] = []
        text = spools.enter_context(_spool())
        async for piece in _thread(self._runtime, head, decisions):
            text.write(piece)
        text.seek(0)
        return text, decisions

    async def _of_calls(self, cursor: str | None, spools: ExitStack) -> _Texts:
        return _texts(await self._decisions.page(cursor))

    async def _profiles(self, cursor: str | None, spools: ExitStack) -> _Texts:
        page = await self._stored("notes", cursor)
        profiles = [
            {
                "agent": note["key"],
                "profile": note["value"],
                "created_at": note["created_at"],
                "updated_at": note["updated_at"],
            }
            for note in page.items
            if note["kind"] == PROFILE
        ]
        return _texts(Page(items=tuple(profiles), next_cursor=page.next_cursor))

    async def _working_memory(self, cursor: str | None, spools: ExitStack) -> _Texts:
        page = await self._stored("notes", cursor)
        notes = [
            {name: value for name, value in note.items() if name != "kind"}
            for note in page.items
            if note["kind"] != PROFILE
        ]
        return _texts(Page(items=tuple(notes), next_cursor=page.next_cursor))

    async def _connections(self, cursor: str | None, spools: ExitStack) -> _Texts:
        grants = await self._runtime.connections.grants.list_grants(self._owner)
        rows = [g.model_dump(mode="json", include=_GRANT, exclude_none=True) for g in grants]
        return _texts(Page(items=tuple(rows)))

    async def _rows(self, kind: StoredKind, cursor: str | None) -> _Texts:
        return _texts(await self._stored(kind, cursor))

    async def _stored(self, kind: StoredKind, cursor: str | None) -> Page[dict[str, Any]]:
        return await self._runtime.memory.list_stored(self._owner, kind, cursor, _PAGE, None)

    async def _list_files(self, cursor: str | None, spools: ExitStack) -> _Texts:
        if self._file_ids is None:
            self._file_ids = await self._files.list_ids()
        rest = [each for each in self._file_ids if cursor is None or each > cursor]
        rows: list[Mapping[str, Any]] = []
        for some in batched(rest[:_PAGE], MAX_CONCURRENT):
            rows += [row for row in await asyncio.gather(*map(self._file, some)) if row is not None]
        next_cursor = rest[_PAGE - 1] if len(rest) > _PAGE else None
        return _texts(Page(items=tuple(rows), next_cursor=next_cursor))

    async def _file(self, file_id: str) -> Mapping[str, Any] | None:
        facts = await self._files.facts(file_id)
        if facts is None or not await is_there(self._runtime, self._owner, facts):
            return None
        url = await self._files.download_url(facts, LINK_LIVES) if self._has_links else None
        return {**facts.model_dump(mode="json", exclude={"going"}), "url": url}


async def list_thread_ids(runtime: Runtime, owner: str) -> list[str]:
    """Return the ids of the owner's threads, the newest change first, with those that the journal has lost.
    They are listed before any is read: one that changes moves to the front of the list, and a list that was
    read on would miss it."""
    if not await runtime.journal.heads.has_all(owner):
        await runtime.journal.heads.add_missing(owner, await runtime.threads.heads(owner))
    heads = every_item(lambda cursor: runtime.journal.heads.page(owner, _PAGE, cursor))
    return list(dict.fromkeys([head.id async for head in heads]))


def _closing(place: Place, next_place: Place) -> str:
    if next_place.array == place.array:
        return ""
    return "]}" if next_place.array == END else "]"


def _spool() -> IO[str]:
    return SpooledTemporaryFile(max_size=_IN_MEMORY, mode="w+", encoding="utf-8", errors="replace")


def _texts(page: Page[Any]) -> _Texts:
    return [StringIO(_json(item)) for item in page.items], page.next_cursor


async def _thread(
    runtime: Runtime, head: ThreadHead, decisions: list[Mapping[str, Any]]
) -> AsyncIterator[str]:
    """Return the thread. Decisions about its calls are added to `decisions`."""
    owner = head.owner
    facts = head.model_dump(mode="json", include=set(ThreadFacts.model_fields))
    state = await runtime.memory.read_state(owner, head.id)
    facts |= {"session": state.session, "plan": state.plan}
    yield _json(facts)[:-1]
    for name, items in (
        ("messages", _messages(runtime, head)),
        ("runs", _runs(runtime, head, decisions)),
        ("feedback", _feedback(runtime, head)),
        ("observations", _stored(runtime, owner, "generations", head.id)),
        ("iteration_log", _stored(runtime, owner, "attempts", head.id)),
        ("node_memory", list_nodes(runtime.blobs, owner, head.id)),
    ):
        async for piece in _array(name, items):
            yield piece
    yield "}"


async def _messages(runtime: Runtime, head: ThreadHead) -> AsyncIterator[Mapping[str, Any]]:
    """Yield messages of all branches (`parent_id` names the one that each follows), then those of runs that
    are not over."""
    live = {message.id: message for message in await live_messages(runtime, head)}
    async for message in _stored(runtime, head.owner, "messages", head.id):
        if message["role"] == Role.TOOL and not message["content"]:
            continue  # The place of a result to come; the journal may have the result by now.
        live.pop(message["id"], None)
        yield message
    for left in live.values():
        if not left.is_place:
            yield left.model_dump(mode="json")


async def _runs(
    runtime: Runtime, head: ThreadHead, decisions: list[Mapping[str, Any]]
) -> AsyncIterator[Mapping[str, Any]]:
    """Yield runs, newest first, as long as their records live."""
    runs = runtime.journal.runs
    async for run_id in every_item(lambda c: runs.page_ids(head.owner, head.id, _PAGE, c)):
        snapshot = await runs.snapshot(head.owner, run_id)
        if snapshot is not None:
            decisions += _decisions(snapshot)
            yield run_view(snapshot).model_dump(mode="json", exclude=_RUN)


async def _feedback(runtime: Runtime, head: ThreadHead) -> AsyncIterator[Mapping[str, Any]]:
    """Yield what the owner thinks of runs, also of those whose records have expired."""
    book = runtime.journal.feedback
    async for each in every_item(lambda c: book.page_thread(head.owner, head.id, _PAGE, c)):
        yield each.model_dump(mode="json", exclude={"owner", "thread_id", "agent"})


def _decisions(snapshot: RunSnapshot) -> Iterator[Mapping[str, Any]]:
    """Yield the decisions about the run's calls, including votes and decisions of earlier attempts."""
    about = {"run_id": snapshot.meta.id, "thread_id": snapshot.meta.thread_id}
    for call in snapshot.calls:
        row = {**about, "tool_call_id": call.tool_call_id, "tool_name": call.tool_name}
        yield from ({**row, **past} for past in call.past)
        if call.decision is not None or call.votes:
            decision = call.decision.model_dump(mode="json") if call.decision else {}
            votes = [vote.model_dump(mode="json") for vote in call.votes]
            yield {**row, "attempt": call.attempt, **decision, "votes": votes}


async def _stored(
    runtime: Runtime, owner: str, kind: StoredKind, thread_id: str
) -> AsyncIterator[Mapping[str, Any]]:
    memory = runtime.memory
    async for item in every_item(lambda c: memory.list_stored(owner, kind, c, _PAGE, thread_id)):
        yield item


async def _array(name: str, items: AsyncIterator[Mapping[str, Any]]) -> AsyncIterator[str]:
    yield f",{_json(name)}:["
    first = True
    async for item in items:
        yield _json(item) if first else f",{_json(item)}"
        first = False
    yield "]"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)

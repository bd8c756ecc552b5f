"""All stored data of a user as one document, written page by page because it may be larger than memory."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import compress
from tempfile import SpooledTemporaryFile
from typing import IO, Any

from layover.batches import batched
from layover.clock import rfc3339
from layover.errors import RetryableError
from layover.files.store import Files
from layover.files.uploads import LINK_LIVES, is_there
from layover.keys import Keys
from layover.memory.node.store import list_nodes
from layover.ports.memory.personal import StoredKind
from layover.records.forgetting import is_forgotten
from layover.records.threads import live_messages
from layover.records.views import run_view
from layover.runtime import Runtime
from layover.values.note import PROFILE
from layover.values.runs.run import RunSnapshot
from layover.values.thread import ThreadFacts, ThreadHead

RETENTION = timedelta(hours=1)
"""An export that did not fit into a response is kept this long; its URL expires earlier."""
_PAGE = 200
_IN_MEMORY = 8 * 1024 * 1024
_MAX_CONCURRENT = 8
_PIECE = 64 * 1024
"""The number of characters that are copied at once."""
_RUN = {"messages", "input", "text"}
"""Fields of a run that are among the thread's messages as well."""


@dataclass(frozen=True)
class Export:
    """The document, or the URL from which to get it."""

    text: str | None
    url: str | None = None


async def export(runtime: Runtime, owner: str, fits: Callable[[str], bool]) -> Export:
    """Return everything that is stored about the owner, behind a URL if it does not fit into a response.
    Raises RetryableError (DatabaseWaking; the owner was forgotten in the meantime)."""
    begun_at = runtime.clock.now()
    with SpooledTemporaryFile(max_size=_IN_MEMORY) as file:
        async for piece in _document(runtime, owner):
            file.write(piece.encode("utf-8", "replace"))
        if file.tell() <= _IN_MEMORY:
            file.seek(0)
            text = file.read().decode()
            if fits(text):
                return Export(text)
        return Export(None, await _put(runtime, owner, file, begun_at))


async def _put(runtime: Runtime, owner: str, file: "IO[bytes]", begun_at: datetime) -> str:
    """Store the document, and return its URL, which is valid for some minutes."""
    key = Keys(owner).blob("exports", runtime.ids.new("export"))
    # Scheduled first: the object is removed even if this process dies.
    await runtime.journal.dues.schedule(owner, "export", key, runtime.clock.now() + RETENTION)
    await runtime.blobs.put_file(key, file, "application/json")
    # Forgetting first writes its order and then deletes exports, so either this code or that one sees the
    # other.
    if await is_forgotten(runtime, owner, begun_at):
        await runtime.blobs.delete(key)
        raise RetryableError("the data was erased while it was exported; export what is new")
    return await runtime.blobs.download_url(key, "export.json", "application/json", LINK_LIVES)


async def _document(runtime: Runtime, owner: str) -> AsyncIterator[str]:
    now = runtime.clock.now()
    yield f'{{"exported_at":{_json(rfc3339(now))},"user":{_json(owner)},"threads":['
    decisions: list[Mapping[str, Any]] = []
    async for piece in _threads(runtime, owner, decisions):
        yield piece
    yield f'],"decisions":{_json(decisions)}'
    profiles, notes = [], []
    async for note in _stored(runtime, owner, "notes"):
        if note["kind"] == PROFILE:
            times = {"created_at": note["created_at"], "updated_at": note["updated_at"]}
            profiles.append({"agent": note["key"], "profile": note["value"], **times})
        else:
            notes.append({k: v for k, v in note.items() if k != "kind"})
    yield f',"profiles":{_json(profiles)},"working_memory":{_json(notes)}'
    for name, items in (
        ("entries", _stored(runtime, owner, "entries")),
        ("usage", _stored(runtime, owner, "usage")),
        ("files", _files(runtime, owner)),
    ):
        async for piece in _array(name, items):
            yield piece
    yield "}"


async def _threads(
    runtime: Runtime, owner: str, decisions: list[Mapping[str, Any]]
) -> AsyncIterator[str]:
    """Yield the threads, with a comma between two. Several are read at once: each takes several requests in
    sequence, and an export has only the time of one response."""
    between = ""
    async for heads in _pages_of_heads(runtime, owner):
        for some in batched(heads, _MAX_CONCURRENT):
            with ExitStack() as texts:
                reads = (_read_thread(runtime, head, texts) for head in some)
                for text, about_calls in await asyncio.gather(*reads):
                    decisions += about_calls
                    yield between
                    between = ","
                    while piece := text.read(_PIECE):
                        yield piece


async def _read_thread(
    runtime: Runtime, head: ThreadHead, texts: ExitStack
) -> tuple[IO[str], list[Mapping[str, Any]]]:
    """Return a thread, to be read from its beginning, and the decisions about its calls."""
    decisions: list[Mapping[str, Any]] = []
    text = texts.enter_context(_spool())
    async for piece in _thread(runtime, head, decisions):
        text.write(piece)
    text.seek(0)
    return text, decisions


def _spool() -> IO[str]:
    size = _IN_MEMORY // _MAX_CONCURRENT
    return SpooledTemporaryFile(max_size=size, mode="w+", encoding="utf-8", errors="replace")


async def _pages_of_heads(runtime: Runtime, owner: str) -> AsyncIterator[Sequence[ThreadHead]]:
    """Yield the owner's threads, including those that the journal has lost."""
    if not await runtime.journal.heads.has_all(owner):
        await runtime.journal.heads.add_missing(owner, await runtime.threads.heads(owner))
    cursor: str | None = None
    while True:
        page = await runtime.journal.heads.page(owner, _PAGE, cursor)
        yield page.items
        cursor = page.next_cursor
        if cursor is None:
            return


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
        live.pop(message["id"], None)
        yield message
    for left in live.values():
        yield left.model_dump(mode="json")


async def _runs(
    runtime: Runtime, head: ThreadHead, decisions: list[Mapping[str, Any]]
) -> AsyncIterator[Mapping[str, Any]]:
    """Yield runs, newest first, as long as their records live."""
    cursor: str | None = None
    while True:
        page = await runtime.journal.runs.page_ids(head.owner, head.id, _PAGE, cursor)
        for run_id in page.items:
            snapshot = await runtime.journal.runs.snapshot(head.owner, run_id)
            if snapshot is not None:
                decisions += _decisions(snapshot)
                yield run_view(snapshot).model_dump(mode="json", exclude=_RUN)
        cursor = page.next_cursor
        if cursor is None:
            return


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


async def _files(runtime: Runtime, owner: str) -> AsyncIterator[Mapping[str, Any]]:
    files = Files(runtime.blobs, owner)
    all_facts = [facts async for facts in files.list_all()]
    for some in batched(all_facts, _MAX_CONCURRENT):
        checks = await asyncio.gather(*(is_there(runtime, owner, facts) for facts in some))
        visible = list(compress(some, checks))
        urls = await asyncio.gather(*(files.download_url(facts, LINK_LIVES) for facts in visible))
        for facts, url in zip(visible, urls, strict=True):
            yield {**facts.model_dump(mode="json", exclude={"going"}), "url": url}


async def _stored(
    runtime: Runtime, owner: str, kind: StoredKind, thread_id: str | None = None
) -> AsyncIterator[Mapping[str, Any]]:
    cursor: str | None = None
    while True:
        page = await runtime.memory.list_stored(owner, kind, cursor, _PAGE, thread_id)
        for item in page.items:
            yield item
        cursor = page.next_cursor
        if cursor is None:
            return


async def _array(name: str, items: AsyncIterator[Mapping[str, Any]]) -> AsyncIterator[str]:
    yield f",{_json(name)}:["
    first = True
    async for item in items:
        yield _json(item) if first else f",{_json(item)}"
        first = False
    yield "]"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)

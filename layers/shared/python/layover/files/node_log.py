"""The history of a named step of a workflow, inside a thread (docs/behaviour.md#node-memory). Blobs hold one
document for each node, written with a condition: of two concurrent writers, the later one reads again and
adds its messages."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import unquote

from layover.clock import rfc3339
from layover.declare.schemas.render import jsonable
from layover.errors import ConfigurationError, NotFound, RetryableError, check_version
from layover.keys import Keys, encode_id
from layover.ports import BlobFacts, Blobs
from layover.runtime import Runtime
from layover.values.message import FilePart, Message
from layover.values.tokens import FILE_TOKENS, OVERHEAD, estimate

Entry = dict[str, Any]
"""`{message_id, parent_message_id, role, content, files, token_count, created_at}`."""

MAX_ID = 300
"""Bytes of a node's id, percent-encoded: it is part of a key."""
VERSION = 1
"""Of a document."""
COMPRESS_ABOVE = 64 * 1024
"""Bytes of the document."""
_GZIP = b"\x1f\x8b"
_NOTED_EVERY = timedelta(days=1)
"""A use that only reads is recorded by writing the same bytes, which costs as much as any write."""
_MAX_TRIES = 40
_FIRST_PAUSE_S, _MAX_PAUSE_S = 0.01, 0.5
_PARENT = "parent_message_id"


class NodeLog:
    """`declare.context.NodeHistory` over blobs. Added messages are seen here at once, and by other readers
    after `flush`."""

    def __init__(
        self, runtime: Runtime, owner: str, agent: str, thread_id: str, node_id: str
    ) -> None:
        if not node_id or len(encode_id(node_id)) > MAX_ID:
            raise ConfigurationError(f"a node's id has 1 to {MAX_ID} bytes")
        self._runtime = runtime
        self._owner = owner
        self._thread_id = thread_id
        keys = Keys(owner)
        self.key = keys.blob("node_memory", agent, thread_id, f"{node_id}.json")
        self._mark = keys.blob("threads", thread_id, "nodes", agent, f"{node_id}.json")
        self._pending: list[Entry] = []

    async def add(self, messages: Sequence[Any]) -> None:
        """Append messages: dicts (`role`, `content`, optionally `files`, `message_id`, `parent_message_id`,
        `created_at`) or `Message`s. One that names no parent follows the message before it; the first of them
        follows the newest message at the time of the write. Raises ValueError."""
        now = self._runtime.clock.now()
        self._pending += [self._entry(message, now) for message in messages]

    async def history(
        self, parent_id: str | None = None, max_tokens: int | None = None
    ) -> list[Entry]:
        """Return the branch that ends in `parent_id` (default: in the newest message), oldest first: its
        newest messages that have `max_tokens` at most. Unknown ids have no history."""
        entries = await self._use()
        path = _path(_merge(entries, self._pending), parent_id)
        return [_with_file_parts(entry) for entry in _newest(path, max_tokens)]

    async def branch(self, leaves: Sequence[str]) -> list[Entry]:
        """Return the branch that ends in the first of these messages that is known here."""
        entries = await self._use()
        ids = {entry["message_id"] for entry in entries}
        leaf = next((id for id in leaves if id in ids), None)
        return [] if leaf is None else [_with_file_parts(entry) for entry in _path(entries, leaf)]

    async def flush(self) -> None:
        """Write the added messages. Raises RetryableError, and NotFound if the thread is gone; the messages
        are kept for another try."""
        batch = list(self._pending)
        if batch:
            await self._write(batch)
            batch_ids = {id(entry) for entry in batch}
            self._pending = [entry for entry in self._pending if id(entry) not in batch_ids]
            await self._check_thread()

    async def _write(self, batch: Sequence[Entry]) -> None:
        blobs = self._runtime.blobs
        for attempt in range(_MAX_TRIES):
            entries, facts = await self._read()
            if facts is None:
                await blobs.put(self._mark, b"", "text/plain")
            if not entries:
                await self._watch()
            data, content_type = _encode(_merge(entries, batch))
            tag = facts.tag if facts else None
            if await blobs.put_if(self.key, data, content_type, tag):
                return
            await asyncio.sleep(self._runtime.dice.up_to(_longest_pause(attempt)))
        raise RetryableError("other runs keep writing to the same node memory")

    async def clear(self) -> None:
        """Forget the whole history, including added messages."""
        self._pending.clear()
        await self._runtime.blobs.delete(self.key)

    async def _read(self) -> tuple[list[Entry], BlobFacts | None]:
        """Return the node's memory; nothing if it was not used for too long."""
        blob = await self._runtime.blobs.get_tagged(self.key)
        if blob is None:
            return [], None
        data, facts = blob
        lifetime = self._lifetime()
        if lifetime is not None and self._idle_time(facts) >= lifetime:
            return [], facts
        return _decode(data), facts

    async def _use(self) -> list[Entry]:
        """Return the node's memory and record the use. A memory that was unused for too long is emptied, not
        deleted: S3 deletes without a condition, and would remove what a writer adds at the same moment."""
        blob = await self._runtime.blobs.get_tagged(self.key)
        if blob is None:
            return []
        data, facts = blob
        lifetime = self._lifetime()
        if lifetime is None:
            return _decode(data)
        idle = self._idle_time(facts)
        entries = _decode(data) if idle < lifetime else []
        content = (data, facts.content_type) if entries else _encode([])
        if data != _encode([])[0] and idle >= min(_NOTED_EVERY, lifetime / 2):
            # Refused: another run used it. Failed: the next reading notes it.
            with suppress(RetryableError):
                await self._runtime.blobs.put_if(self.key, *content, facts.tag)
                await self._watch()
        return entries

    async def _watch(self) -> None:
        """Let the sweeper check whether it is still used."""
        lifetime = self._lifetime()
        if lifetime is not None:
            at = self._runtime.clock.now() + lifetime
            await self._runtime.journal.dues.schedule(self._owner, "node", self.key, at)

    def _lifetime(self) -> timedelta | None:
        return _lifetime(self._runtime)

    def _idle_time(self, facts: BlobFacts) -> timedelta:
        return self._runtime.clock.now() - facts.modified_at

    async def _check_thread(self) -> None:
        """Raise NotFound if the thread is being erased. Erasing first marks the thread and then deletes, so
        either the writer or the eraser sees the other."""
        head = await self._runtime.journal.heads.get(self._owner, self._thread_id)
        if head is None or head.deleted:
            await erase_nodes(self._runtime.blobs, self._owner, self._thread_id)
            raise NotFound("the thread is gone", thread_id=self._thread_id)

    def _entry(self, message: Any, now: datetime) -> Entry:
        fields = _fields_of(message)
        content, files = _split_content(fields.get("content"), fields.get("files") or ())
        entry: Entry = {
            "message_id": str(fields.get("message_id") or self._runtime.ids.new("msg")),
            "role": str(getattr(fields.get("role"), "value", fields.get("role")) or "user"),
            "content": content,
            "files": files,
            "token_count": fields.get("token_count") or _tokens(content, files),
            "created_at": _time(fields.get("created_at"), now),
        }
        if _PARENT in fields:
            entry[_PARENT] = fields[_PARENT]
        return entry


def _lifetime(runtime: Runtime) -> timedelta | None:
    days = runtime.settings.node_memory_days
    return None if days is None else timedelta(days=days)


async def expire_node(runtime: Runtime, key: str) -> datetime | None:
    """Empty a node's memory that was unused for too long. Return the time of the next look; None if it is
    empty. It is not deleted, for the reason that `NodeLog` gives."""
    lifetime = _lifetime(runtime)
    blob = await runtime.blobs.get_tagged(key)
    if blob is None or lifetime is None:
        return None
    data, facts = blob
    if runtime.clock.now() - facts.modified_at < lifetime:
        return facts.modified_at + lifetime
    empty = _encode([])
    if data == empty[0] or await runtime.blobs.put_if(key, *empty, facts.tag):
        return None
    return runtime.clock.now() + lifetime


async def list_nodes(blobs: Blobs, owner: str, thread_id: str) -> AsyncIterator[dict[str, Any]]:
    """Yield each node's memory in a thread: `{agent, node_id, messages}`."""
    keys = Keys(owner)
    for mark in await blobs.keys(keys.blob("threads", thread_id, "nodes") + "/"):
        agent, name = (unquote(part) for part in mark.rsplit("/", 2)[1:])
        data = await blobs.get(keys.blob("node_memory", agent, thread_id, name))
        if data is not None:
            node = {"agent": agent, "node_id": name.removesuffix(".json")}
            yield {**node, "messages": [_with_file_parts(entry) for entry in _decode(data)]}


async def erase_nodes(
    blobs: Blobs, owner: str, thread_id: str, listed: Sequence[str] | None = None
) -> None:
    """Delete the memory of all nodes of a thread. `listed`: the keys below the thread's prefix, if the caller
    has listed them (`Keys.of_thread`)."""
    keys = Keys(owner)
    prefix = keys.blob("threads", thread_id, "nodes") + "/"
    for mark in await blobs.keys(prefix) if listed is None else listed:
        if not mark.startswith(prefix):
            continue
        agent, name = (unquote(part) for part in mark.rsplit("/", 2)[1:])
        await blobs.delete(keys.blob("node_memory", agent, thread_id, name))
        await blobs.delete(mark)


def _fields_of(message: Any) -> Mapping[str, Any]:
    """Return the fields of a message by our names."""
    if isinstance(message, Message):
        fields = message.model_dump(exclude={"parent_id"})
        return {**fields, "message_id": message.id, _PARENT: message.parent_id}
    if not isinstance(message, Mapping):
        raise ValueError("a message of a node's memory is a dict or a Message")
    aliases = {"id": "message_id", "parent_id": _PARENT}
    return {aliases.get(str(k), str(k)): v for k, v in message.items()}


def _split_content(content: Any, files: Sequence[Any]) -> tuple[Any, list[Entry]]:
    """Return the text (or the other content) and the references to files."""
    references = [_reference(file) for file in files]
    plain = jsonable(content)
    if not isinstance(plain, list):
        return plain if plain is not None else "", references
    rest = [p for p in plain if not (isinstance(p, dict) and p.get("type") == "file")]
    references += [_reference(p) for p in plain if p not in rest]
    if all(isinstance(p, dict) and p.get("type") == "text" for p in rest):
        return "\n\n".join(p["text"] for p in rest if p["text"]), references
    return rest, references


def _reference(file: Any) -> Entry:
    if isinstance(file, str):
        file = {"file_id": file}
    part = file if isinstance(file, FilePart) else FilePart.model_validate(file)
    return part.model_dump(exclude={"type"}, exclude_none=True)


def _with_file_parts(entry: Entry) -> Entry:
    """Return an entry as callers get it: its files are parts again."""
    files = [FilePart.model_validate(f).model_dump() for f in entry["files"]]
    return {**entry, "files": files}


def _time(value: Any, now: datetime) -> str:
    if isinstance(value, datetime):
        return rfc3339(value)
    return str(value) if value else rfc3339(now)


def _tokens(content: Any, files: Sequence[Entry]) -> int:
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    return OVERHEAD + estimate(text) + FILE_TOKENS * len(files)


def _merge(old: Sequence[Entry], new: Sequence[Entry]) -> list[Entry]:
    """Return both, each message once: a repeated message replaces the first one in its place."""
    entries = {entry["message_id"]: entry for entry in old}
    newest = old[-1]["message_id"] if old else None
    for entry in new:
        previous = entries.get(entry["message_id"])
        parent = previous[_PARENT] if previous else newest
        entries[entry["message_id"]] = {_PARENT: parent, **entry}
        newest = entry["message_id"]
    return list(entries.values())


def _path(entries: Sequence[Entry], leaf: str | None) -> list[Entry]:
    """Return the path from the root to the leaf; a missing ancestor ends it."""
    by_id = {entry["message_id"]: entry for entry in entries}
    at = leaf if leaf is not None or not entries else entries[-1]["message_id"]
    path: list[Entry] = []
    while at is not None and (entry := by_id.pop(at, None)) is not None:
        path.append(entry)
        at = entry[_PARENT]
    return path[::-1]


def _newest(path: list[Entry], max_tokens: int | None) -> list[Entry]:
    """Return the end of the path that fits; equality fits."""
    if max_tokens is None:
        return path
    room, start = max_tokens, len(path)
    while start and path[start - 1]["token_count"] <= room:
        start -= 1
        room -= path[start]["token_count"]
    return path[start:]


def _decode(data: bytes) -> list[Entry]:
    raw = gzip.decompress(data) if data.startswith(_GZIP) else data
    document = json.loads(raw)
    check_version("node memory's documents", document.get("version", 1), VERSION)
    return list(document["messages"])


def _encode(entries: Sequence[Entry]) -> tuple[bytes, str]:
    """Return the document and its type; compressed if large."""
    document = {"version": VERSION, "messages": entries}
    data = json.dumps(document, ensure_ascii=False).encode("utf-8", "replace")
    if len(data) <= COMPRESS_ABOVE:
        return data, "application/json"
    return gzip.compress(data, 6, mtime=0), "application/gzip"


def _longest_pause(attempt: int) -> float:
    """Return the most seconds to wait, more each time. Two writers wait for different parts of it."""
    longest: float = min(_FIRST_PAUSE_S * 2**attempt, _MAX_PAUSE_S)
    return longest

"""Exports that one request cannot make: the sweeper makes them, piece by piece, and their owner fetches them.

An export has one due item (`ports.Dues`, kind `export_job`, named by its id), scheduled before anything else,
and its record in S3. The record says which page of the document is next, has the text that is not uploaded
yet, and names the uploaded parts. A sweep goes on from there, and changes the record only on the condition
that no other process has taken it. A death loses what came after the last record: the next sweep writes the
same parts again."""

import asyncio
import json
import re
from collections.abc import Mapping
from contextlib import aclosing, suppress
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from layover.errors import Conflict, Fenced, NotFound, RetryableError
from layover.files.uploads import LINK_LIVES
from layover.keys import Keys
from layover.ports import Due
from layover.ports.blobs import MIN_PART
from layover.records.forgetting import is_forgotten
from layover.retention.document import END, MAX_CONCURRENT, Document, Place, Rows, list_thread_ids
from layover.retention.erase import LAST_WRITER
from layover.runtime import Runtime
from layover.values.base import Time, Value
from layover.values.page import Page

RETENTION = timedelta(days=1)
"""Lifetime of an export that is finished, or has failed."""
GIVE_UP_AFTER = timedelta(days=1)
BEGUN_WITHIN = timedelta(seconds=60)
"""The time from the due item to the record, whatever the sweeper's patience: a request has 30 s."""
MAX_TRIES = 5
"""Looks that may come to nothing in a row."""
SLICE_S = 25.0
"""Seconds after which a look ends behind the page at hand. A sweep erases for 45 s, and others wait."""
PART_BYTES = MIN_PART + 3 * 1024 * 1024
_ID = re.compile(r"[A-Za-z0-9_-]{1,100}")
_JSON = "application/json"


class ExportStatus(StrEnum):
    """The state of an export that is made in the background."""

    MAKING = "making"
    READY = "ready"
    FAILED = "failed"


class ExportFacts(Value):
    """An export that is made in the background. `size`: bytes of the document. `expires_at`: the time from
    which it is no longer there."""

    id: str
    status: ExportStatus
    created_at: Time
    finished_at: Time | None = None
    expires_at: Time | None = None
    size: int | None = None


class _Record(ExportFacts):
    """The facts, and how far it is.

    Args:
        writer: The look that goes on with it.
        tries: Looks in a row that came to nothing, with the one that is under way.
        place: The page that is next.
        decisions: The objects with the decisions about calls of the threads in front of it.
        upload: The upload of the document; "": it has not begun, or is over.
        tags: Those of its parts, in order.
        part_bytes: The bytes in these parts.
        tail: The text in front of `place` that no part has.
    """

    writer: str = ""
    tries: int = 0
    place: Place = Place()
    decisions: tuple[str, ...] = ()
    upload: str = ""
    tags: tuple[str, ...] = ()
    part_bytes: int = 0
    tail: str = ""

    @property
    def facts(self) -> ExportFacts:
        return ExportFacts.model_validate(self.model_dump(include=set(ExportFacts.model_fields)))


class _PartsLost(Exception):
    """The uploaded parts are gone, or another process has replaced one."""


async def unfinished(runtime: Runtime, owner: str) -> ExportFacts | None:
    """Return the export that is being made for the owner."""
    exports = await list_exports(runtime, owner)
    return next((each for each in exports if each.status is ExportStatus.MAKING), None)


async def begin(runtime: Runtime, owner: str) -> ExportFacts:
    """Have the sweeper make an export."""
    now = runtime.clock.now()
    record = _Record(id=runtime.ids.new("export"), status=ExportStatus.MAKING, created_at=now)
    await runtime.journal.dues.schedule(owner, "export_job", record.id, now)
    await runtime.blobs.put_if(_key(owner, record.id, "record.json"), _encode(record), _JSON, None)
    return record.facts


async def list_exports(runtime: Runtime, owner: str) -> list[ExportFacts]:
    """Return the owner's exports that are made in the background, the newest first."""
    dues = await runtime.journal.dues.of(owner, "export_job")
    records = await asyncio.gather(*(_find(runtime, owner, due.name) for due in dues))
    exports = [record.facts for record in records if record is not None]
    return sorted(exports, key=lambda export: export.created_at, reverse=True)


async def export_link(
    runtime: Runtime, owner: str, export_id: str
) -> tuple[ExportFacts, str | None]:
    """Return an export, and the URL of its document once it is ready. Raises NotFound, Conflict (it has
    failed)."""
    record = await _find(runtime, owner, export_id)
    if record is None:
        raise NotFound("there is no such export")
    if record.status is ExportStatus.FAILED:
        raise Conflict("the export could not be made: ask for another one")
    if record.status is ExportStatus.MAKING:
        return record.facts, None
    key = _key(owner, export_id, "document.json")
    return record.facts, await runtime.blobs.download_url(key, "export.json", _JSON, LINK_LIVES)


async def carry_on_export(runtime: Runtime, due: Due) -> datetime | None:
    """Go on with an export. Return the time of the next look; None once nothing is left of it."""
    owner, export_id = due.owner, due.name
    now, patience = runtime.clock.now(), runtime.settings.sweep_patience
    entry = await _read(runtime, owner, export_id)
    if entry is None:
        # It is about to be written, and the next sweep finds it; or it is erased, and a process may still
        # have written to it since.
        if now < due.made_at + BEGUN_WITHIN:
            return now
        await drop_export(runtime, owner, export_id)
        return None
    record, _ = entry
    if await is_forgotten(runtime, owner, record.created_at):
        await drop_export(runtime, owner, export_id)
        return now + patience * LAST_WRITER
    if record.status is not ExportStatus.MAKING:
        if record.expires_at is not None and now < record.expires_at:
            return record.expires_at
        await drop_export(runtime, owner, export_id)
        return None
    try:
        work = await _Work.take(runtime, owner, entry)
        return await work.go_on()
    except Fenced:
        return now + patience


async def drop_export(runtime: Runtime, owner: str, export_id: str) -> None:
    """Delete an export with all that belongs to it; its record goes last."""
    entry = await _read(runtime, owner, export_id)
    if entry is not None and entry[0].upload:
        document = _key(owner, export_id, "document.json")
        await runtime.blobs.drop_parts(document, entry[0].upload)
    await runtime.blobs.delete_prefix(_key(owner, export_id) + "/")


class _StoredDecisions:
    """Decisions of an export under way. `names`: the objects that hold them."""

    def __init__(self, runtime: Runtime, owner: str, record: _Record) -> None:
        self.names = list(record.decisions)
        self._blobs = runtime.blobs
        self._prefix = _key(owner, record.id, "decisions")
        self._writer = record.writer
        self._rows: list[Mapping[str, Any]] = []

    def add(self, rows: Rows) -> None:
        """See `document.Decisions`."""
        self._rows += rows

    async def page(self, cursor: str | None) -> Page[Mapping[str, Any]]:
        """See `document.Decisions`. A page is an object."""
        at = int(cursor or 0)
        if at >= len(self.names):
            return Page(items=())
        rows = json.loads(await self._blobs.get(f"{self._prefix}/{self.names[at]}") or b"[]")
        return Page(items=tuple(rows), next_cursor=str(at + 1) if self.names[at + 1 :] else None)

    async def store(self) -> None:
        """Write the decisions that were added, under a name that no other look uses."""
        if self._rows:
            name = f"{self._writer}-{len(self.names)}.json"
            data = json.dumps(self._rows, default=str).encode()
            await self._blobs.put(f"{self._prefix}/{name}", data, _JSON)
            self.names.append(name)
            self._rows = []


class _Work:
    """A look at an export: writes pages until its time is over."""

    def __init__(self, runtime: Runtime, owner: str, record: _Record) -> None:
        self._runtime = runtime
        self._owner = owner
        self._record = record
        self._decisions = _StoredDecisions(runtime, owner, record)
        self._tail = bytearray(record.tail.encode())
        self._tags = list(record.tags)
        self._part_bytes = record.part_bytes
        self._end = asyncio.get_running_loop().time() + SLICE_S

    @classmethod
    async def take(cls, runtime: Runtime, owner: str, entry: tuple[_Record, str]) -> "_Work":
        """Take the export from whoever was at it. Raises Fenced if another process is faster."""
        record, tag = entry
        changes = {"writer": runtime.ids.new("writer"), "tries": record.tries + 1}
        own_record = record.model_copy(update=changes)
        key = _key(owner, record.id, "record.json")
        if not await runtime.blobs.put_if(key, _encode(own_record), _JSON, tag):
            raise Fenced("another process goes on with the export")
        return cls(runtime, owner, own_record)

    async def go_on(self) -> datetime:
        """Write pages, and the end after the last. Return the time of the next look. Raises Fenced,
        RetryableError."""
        now = self._runtime.clock.now()
        is_late = now >= self._record.created_at + GIVE_UP_AFTER
        if is_late or self._record.tries > MAX_TRIES:
            return await self._finish(ExportStatus.FAILED, None)
        try:
            if not self._record.upload:
                await self._prepare()
            if self._record.place.array != END and not await self._write():
                return now
            return await self._join()
        except _PartsLost:
            await self._restart()
            return now
        except RetryableError:
            # The fault is not the export's.
            with suppress(RetryableError):
                await self._save(tries=self._record.tries - 1)
            raise

    async def _prepare(self) -> None:
        thread_ids = await list_thread_ids(self._runtime, self._owner)
        await self._runtime.blobs.put(
            self._key("plan.json"), json.dumps(thread_ids).encode(), _JSON
        )
        # If this process dies in between, the bucket's rule drops the upload, which is empty.
        upload = await self._runtime.blobs.begin_parts(self._key("document.json"), _JSON)
        await self._save(upload=upload)

    async def _write(self) -> bool:
        """Write pages from the record's place on. Return False if the time is over before the last."""
        plan = await self._runtime.blobs.get(self._key("plan.json"))
        document = Document(
            self._runtime,
            self._owner,
            self._record.created_at,
            json.loads(plan or b"[]"),
            self._decisions,
            has_links=False,
            # Threads that take a whole look together may each be readable in one.
            at_once=MAX_CONCURRENT if self._record.tries <= 1 else 1,
        )
        async with aclosing(document.pieces(self._record.place)) as pieces:
            async for text, place in pieces:
                self._tail += text.encode("utf-8", "replace")
                if len(self._tail) >= PART_BYTES:
                    await self._upload()
                if place is None:
                    continue
                if place.array == END:
                    await self._upload()
                is_over = asyncio.get_running_loop().time() >= self._end
                # Decisions are read back behind the last page of threads.
                is_behind_threads = self._record.place.array == "threads" != place.array
                has_parts = len(self._tags) > len(self._record.tags)
                if is_over or is_behind_threads or has_parts:
                    await self._keep(place)
                if is_over:
                    break
        return self._record.place.array == END

    async def _upload(self) -> None:
        """Write the text so far as the next part."""
        if not self._tail:
            return
        key, number = self._key("document.json"), len(self._tags) + 1
        tag = await self._runtime.blobs.put_part(
            key, self._record.upload, number, bytes(self._tail)
        )
        if tag is None:
            raise _PartsLost
        self._tags.append(tag)
        self._part_bytes += len(self._tail)
        self._tail.clear()

    async def _keep(self, place: Place) -> None:
        """Store the place that the document has reached."""
        await self._decisions.store()
        await self._save(
            place=place,
            decisions=tuple(self._decisions.names),
            tags=tuple(self._tags),
            part_bytes=self._part_bytes,
            tail=self._tail.decode(),
            tries=0,
        )

    async def _join(self) -> datetime:
        """Make the document of its parts."""
        key = self._key("document.json")
        is_joined = await self._runtime.blobs.join_parts(key, self._record.upload, self._tags)
        if not is_joined:
            # A process that died afterwards has done it.
            head = await self._runtime.blobs.head(key)
            if head is None or head.size != self._part_bytes:
                raise _PartsLost
        next_look = await self._finish(ExportStatus.READY, self._part_bytes)
        await self._runtime.blobs.delete_prefix(self._key("decisions") + "/")
        await self._runtime.blobs.delete(self._key("plan.json"))
        return next_look

    async def _finish(self, status: ExportStatus, size: int | None) -> datetime:
        now = self._runtime.clock.now()
        expires_at = now + RETENTION
        if status is ExportStatus.FAILED and self._record.upload:
            await self._runtime.blobs.drop_parts(self._key("document.json"), self._record.upload)
        await self._save(
            status=status, finished_at=now, expires_at=expires_at, size=size, upload="", tail=""
        )
        return expires_at

    async def _restart(self) -> None:
        """Begin again, with the tries that are used up."""
        await self._runtime.blobs.drop_parts(self._key("document.json"), self._record.upload)
        await self._runtime.blobs.delete_prefix(self._key("decisions") + "/")
        await self._save(place=Place(), upload="", tags=(), part_bytes=0, tail="", decisions=())

    async def _save(self, **changes: Any) -> None:
        """Change the record. Raises Fenced if another process has taken it, or it is gone."""
        entry = await _read(self._runtime, self._owner, self._record.id)
        if entry is None or entry[0].writer != self._record.writer:
            raise Fenced("another process goes on with the export")
        record = self._record.model_copy(update=changes)
        key = self._key("record.json")
        if not await self._runtime.blobs.put_if(key, _encode(record), _JSON, entry[1]):
            raise Fenced("another process goes on with the export")
        self._record = record

    def _key(self, name: str) -> str:
        return _key(self._owner, self._record.id, name)


async def _find(runtime: Runtime, owner: str, export_id: str) -> _Record | None:
    """Return an export that its owner may see."""
    entry = await _read(runtime, owner, export_id)
    if entry is None:
        return None
    record, _ = entry
    is_expired = record.expires_at is not None and record.expires_at <= runtime.clock.now()
    if is_expired or await is_forgotten(runtime, owner, record.created_at):
        return None
    return record


async def _read(runtime: Runtime, owner: str, export_id: str) -> tuple[_Record, str] | None:
    """Return the record with its tag."""
    if not _ID.fullmatch(export_id):
        return None
    blob = await runtime.blobs.get_tagged(_key(owner, export_id, "record.json"))
    return None if blob is None else (_Record.model_validate_json(blob[0]), blob[1].tag)


def _encode(record: _Record) -> bytes:
    return record.model_dump_json().encode()


def _key(owner: str, export_id: str, *segments: str) -> str:
    return Keys(owner).blob("exports", export_id, *segments)

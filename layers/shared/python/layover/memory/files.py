"""Files of one owner, in blobs alone: accepting a run needs no database.

A file's facts are an object of their own beside its bytes. What belongs to a thread is found again by a
mark below the thread's prefix, which is written before anything else: erasing a thread reads the marks."""

import re
from datetime import datetime, timedelta

from layover.keys import Keys
from layover.ports import Blobs
from layover.values.file import FileFacts

_ID = re.compile(r"[A-Za-z0-9_-]{1,100}")
_JSON = "application/json"
_TRIES = 5
"""How often others may get ahead while a file is taken into a thread: each time it is taken then."""


class Files:
    """The files of one owner."""

    def __init__(self, blobs: Blobs, owner: str) -> None:
        self._blobs = blobs
        self._keys = Keys(owner)

    async def announce(self, facts: FileFacts) -> None:
        """A file whose bytes are to come by its upload URL."""
        await self._blobs.put(self._facts_key(facts.id), _encoded(facts), _JSON)

    async def upload_url(self, facts: FileFacts, lifetime: timedelta) -> str:
        """Where its bytes go. They count once a thread has named the file, and never change then."""
        key = self._upload_key(facts.id)
        return await self._blobs.upload_url(key, facts.mime_type, facts.size, lifetime)

    async def facts(self, file_id: str) -> FileFacts | None:
        """What is known of a file; None for unknown and foreign ones."""
        found = await self._found(file_id)
        return None if found is None else found[0]

    async def take(self, file_id: str, thread_id: str) -> FileFacts | None:
        """The file, which belongs to this thread from now on if it belonged to none. None: there is no
        such file, or its bytes did not arrive whole."""
        for _ in range(_TRIES):
            found = await self._found(file_id)
            if found is None or found[0].thread_id is not None:
                return None if found is None else found[0]
            facts, tag = found
            upload = await self._blobs.head(self._upload_key(file_id))
            if upload is None or upload.size != facts.size:
                return None
            await self._mark(facts.id, thread_id)
            data_key = self._data_key(file_id)
            if not await self._blobs.copy_if(self._upload_key(file_id), data_key, upload.tag):
                continue
            taken = facts.model_copy(update={"thread_id": thread_id})
            if await self._blobs.put_if(self._facts_key(file_id), _encoded(taken), _JSON, tag):
                return taken
        return None

    async def keep(self, facts: FileFacts, data: bytes) -> None:
        """Store a file that a thread has from the start."""
        assert facts.thread_id is not None
        await self._mark(facts.id, facts.thread_id)
        await self._blobs.put(self._data_key(facts.id), data, facts.mime_type)
        await self._blobs.put(self._facts_key(facts.id), _encoded(facts), _JSON)

    async def data(self, file_id: str) -> bytes | None:
        """The bytes of a file that a thread has."""
        return await self._blobs.get(self._data_key(file_id)) if _ID.fullmatch(file_id) else None

    async def download_url(self, facts: FileFacts, lifetime: timedelta) -> str | None:
        """Where its bytes are; None where they did not arrive yet."""
        key = self._data_key(facts.id)
        if facts.thread_id is None:
            key = self._upload_key(facts.id)
            if await self._blobs.head(key) is None:
                return None
        return await self._blobs.download_url(key, facts.name, facts.mime_type, lifetime)

    async def erase(self, thread_id: str) -> None:
        """Delete the files that belong to a thread, marks last."""
        for mark in await self._blobs.keys(self._keys.blob("threads", thread_id, "files") + "/"):
            file_id = mark.rsplit("/", 1)[1]
            facts = await self.facts(file_id)
            # Without facts: what writes the bytes first died in between, or an earlier erasing did.
            if facts is None or facts.thread_id in (None, thread_id):
                await self.drop(file_id, thread_id)
            else:
                await self._blobs.delete(mark)

    async def drop(self, file_id: str, thread_id: str) -> None:
        """Delete a file of a thread's. What it is found by goes last."""
        for key in (
            self._upload_key(file_id),
            self._data_key(file_id),
            self._facts_key(file_id),
            self._mark_key(file_id, thread_id),
        ):
            await self._blobs.delete(key)

    async def _mark(self, file_id: str, thread_id: str) -> None:
        await self._blobs.put(self._mark_key(file_id, thread_id), b"", "text/plain")

    async def _found(self, file_id: str) -> tuple[FileFacts, str] | None:
        if not _ID.fullmatch(file_id):
            return None
        found = await self._blobs.get_tagged(self._facts_key(file_id))
        return found and (FileFacts.model_validate_json(found[0]), found[1].tag)

    def _mark_key(self, file_id: str, thread_id: str) -> str:
        return self._keys.blob("threads", thread_id, "files", file_id)

    def _facts_key(self, file_id: str) -> str:
        return self._keys.blob("files", file_id, "facts.json")

    def _data_key(self, file_id: str) -> str:
        return self._keys.blob("files", file_id, "data")

    def _upload_key(self, file_id: str) -> str:
        return self._keys.blob("uploads", file_id, "data")


def kept(
    file_id: str, thread_id: str, name: str, mime_type: str, data: bytes, at: datetime
) -> FileFacts:
    """Facts of a file that a thread has from the start."""
    return FileFacts(
        id=file_id,
        name=name,
        mime_type=mime_type,
        size=len(data),
        created_at=at,
        thread_id=thread_id,
    )


def _encoded(facts: FileFacts) -> bytes:
    return facts.model_dump_json().encode()

"""Files of one owner, in blobs only: accepting a run needs no database.

A file's facts are their own object, next to its bytes; they name the threads that have the file. A
thread's files are found again by a mark below the thread's prefix, which is written before anything else:
erasing a thread reads the marks. A file is deleted with the last thread that has it. Facts change by
conditional puts only: of a thread that takes the file and one that releases it, the later one sees the
earlier."""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta

from layover.batches import batched
from layover.dice import SYSTEM_DICE
from layover.errors import RetryableError
from layover.ids import derive_id
from layover.keys import Keys
from layover.ports import Blobs, Dice
from layover.values.file import FileFacts

_ID = re.compile(r"[A-Za-z0-9_-]{1,100}")
_JSON = "application/json"
_MAX_TRIES = 20
"""Attempts to change a file's facts while other writers get there first."""
_MAX_PAUSE_S = 0.05
_MAX_CONCURRENT = 8
"""Records that a list reads at once."""


def result_id(run_id: str, tool_call_id: str) -> str:
    """Return the id of the file that holds the whole result of a call."""
    return derive_id("result", run_id, tool_call_id)


class Files:
    """The files of one owner."""

    def __init__(self, blobs: Blobs, owner: str, dice: Dice = SYSTEM_DICE) -> None:
        self._dice = dice
        self._blobs = blobs
        self._keys = Keys(owner)

    async def announce(self, facts: FileFacts) -> None:
        """Announce a file whose bytes will arrive by its upload URL."""
        await self._blobs.put(self._facts_key(facts.id), _encode(facts), _JSON)

    async def upload_url(self, facts: FileFacts, lifetime: timedelta) -> str:
        """Return the URL for its bytes. They count once a thread names the file, and never change after
        that."""
        key = self._upload_key(facts.id)
        return await self._blobs.upload_url(key, facts.mime_type, facts.size, lifetime)

    async def is_uploaded(self, file_id: str) -> bool:
        """Return whether bytes were uploaded."""
        return await self._blobs.head(self._upload_key(file_id)) is not None

    async def facts(self, file_id: str) -> FileFacts | None:
        """Return a file's record; None for unknown and foreign ones, and for one that is being deleted."""
        record = await self._read_facts(file_id)
        return None if record is None or record[0].going else record[0]

    async def take(self, file_id: str, thread_id: str) -> FileFacts | None:
        """Return the file, which now belongs to this thread as well; None if it does not exist or its bytes
        are incomplete. Raises RetryableError if other writers keep changing it."""
        for _ in range(_MAX_TRIES):
            record = await self._read_facts(file_id)
            if record is None or record[0].going:
                return None
            facts, tag = record
            if thread_id in facts.thread_ids:
                return facts
            upload = None
            if not facts.thread_ids:
                upload = await self._blobs.head(self._upload_key(file_id))
                if upload is None or upload.size != facts.size:
                    return None
            await self._mark(file_id, thread_id)
            if upload is not None:
                # To a key that no upload reaches, unless the bytes have changed.
                source, target = self._upload_key(file_id), self._data_key(file_id)
                if not await self._blobs.copy_if(source, target, upload.tag):
                    continue
            new_facts = facts.model_copy(update={"thread_ids": (*facts.thread_ids, thread_id)})
            if await self._change(new_facts, tag):
                return new_facts
        raise RetryableError("other requests keep changing the same file; try again")

    async def keep(self, facts: FileFacts, data: bytes) -> None:
        """Store a file that a thread has from the start. Raises RetryableError."""
        (thread_id,) = facts.thread_ids
        await self._mark(facts.id, thread_id)
        await self._blobs.put(self._data_key(facts.id), data, facts.mime_type)
        tag: str | None = None
        for _ in range(_MAX_TRIES):
            if await self._change(facts, tag):
                return
            # A repetition: threads that have taken the file in the meantime keep it.
            record = await self._read_facts(facts.id)
            tag = record[1] if record else None
            thread_ids = record[0].thread_ids if record else ()
            facts = facts.model_copy(
                update={"thread_ids": tuple(dict.fromkeys((*thread_ids, thread_id)))}
            )
        raise RetryableError("other requests keep changing the same file; try again")

    async def data(self, file_id: str) -> bytes | None:
        """Return the bytes of a file that a thread has."""
        return await self._blobs.get(self._data_key(file_id)) if _ID.fullmatch(file_id) else None

    async def data_size(self, file_id: str) -> int | None:
        """Return the number of bytes that `data` would read; None if it would return None."""
        if not _ID.fullmatch(file_id):
            return None
        blob = await self._blobs.head(self._data_key(file_id))
        return None if blob is None else blob.size

    async def download_url(self, facts: FileFacts, lifetime: timedelta) -> str | None:
        """Return the URL of its bytes; None if they have not arrived yet."""
        key = self._data_key(facts.id)
        if not facts.thread_ids:
            key = self._upload_key(facts.id)
            if await self._blobs.head(key) is None:
                return None
        return await self._blobs.download_url(key, facts.name, facts.mime_type, lifetime)

    async def erase(self, thread_id: str, listed: Sequence[str] | None = None) -> None:
        """Take a thread's files from it. `listed`: the keys below the thread's prefix, if the caller has
        listed them (`Keys.of_thread`). Raises RetryableError."""
        prefix = self._keys.blob("threads", thread_id, "files") + "/"
        for mark in await self._blobs.keys(prefix) if listed is None else listed:
            if mark.startswith(prefix):
                await self.release(mark.removeprefix(prefix), thread_id)

    async def release(self, file_id: str, thread_id: str) -> None:
        """Release the thread's hold on the file; the file is deleted with its last thread. Its mark goes
        last. Raises RetryableError if other writers keep changing it."""
        if await self._release_facts(file_id, thread_id):
            await self._drop(file_id)
        await self._blobs.delete(self._mark_key(file_id, thread_id))

    async def drop_unused(self, file_id: str) -> None:
        """Delete a file that no thread has. If a message names it at the same moment, the later of the two
        sees the earlier. Raises RetryableError if other writers keep changing it."""
        if await self._release_facts(file_id, ""):
            await self._drop(file_id)

    async def _drop(self, file_id: str) -> None:
        """Delete the file; its record goes last."""
        for key in (self._upload_key(file_id), self._data_key(file_id), self._facts_key(file_id)):
            await self._blobs.delete(key)

    async def list_ids(self) -> list[str]:
        """Return the ids of all files of the owner, in order."""
        keys = await self._blobs.keys(self._keys.blob("files") + "/")
        return sorted(key.split("/")[-2] for key in keys if key.endswith("/facts.json"))

    async def list_all(self) -> AsyncIterator[FileFacts]:
        """Yield all files of the owner, used or not. Some are read at once."""
        for some in batched(await self.list_ids(), _MAX_CONCURRENT):
            for facts in await asyncio.gather(*map(self.facts, some)):
                if facts is not None:
                    yield facts

    async def _release_facts(self, file_id: str, thread_id: str) -> bool:
        """Release this thread's hold ("": no thread's), and return whether no thread refers to the file any
        more."""
        for _ in range(_MAX_TRIES):
            record = await self._read_facts(file_id)
            # There are no facts: the writer of the bytes, or an earlier erasure, died in between.
            if record is None or record[0].going:
                return True
            facts, tag = record
            other_ids = tuple(each for each in facts.thread_ids if each != thread_id)
            if other_ids and other_ids == facts.thread_ids:
                return False
            new_facts = facts.model_copy(update={"thread_ids": other_ids, "going": not other_ids})
            if await self._change(new_facts, tag):
                return not other_ids
        raise RetryableError("other requests keep changing the same file; try again")

    async def _change(self, facts: FileFacts, tag: str | None) -> bool:
        """Write the facts over those of this tag. Return False if another writer was first."""
        if await self._blobs.put_if(self._facts_key(facts.id), _encode(facts), _JSON, tag):
            return True
        await asyncio.sleep(self._dice.up_to(_MAX_PAUSE_S))
        return False

    async def _mark(self, file_id: str, thread_id: str) -> None:
        await self._blobs.put(self._mark_key(file_id, thread_id), b"", "text/plain")

    async def _read_facts(self, file_id: str) -> tuple[FileFacts, str] | None:
        if not _ID.fullmatch(file_id):
            return None
        blob = await self._blobs.get_tagged(self._facts_key(file_id))
        return blob and (FileFacts.model_validate_json(blob[0]), blob[1].tag)

    def _mark_key(self, file_id: str, thread_id: str) -> str:
        return self._keys.blob("threads", thread_id, "files", file_id)

    def _facts_key(self, file_id: str) -> str:
        return self._keys.blob("files", file_id, "facts.json")

    def _data_key(self, file_id: str) -> str:
        return self._keys.blob("files", file_id, "data")

    def _upload_key(self, file_id: str) -> str:
        return self._keys.blob("uploads", file_id, "data")


def thread_file_facts(
    file_id: str, thread_id: str, name: str, mime_type: str, data: bytes, at: datetime
) -> FileFacts:
    """Return the facts of a file that a thread has from the start."""
    return FileFacts(
        id=file_id,
        name=name,
        mime_type=mime_type,
        size=len(data),
        created_at=at,
        thread_ids=(thread_id,),
    )


def _encode(facts: FileFacts) -> bytes:
    return facts.model_dump_json().encode()

"""Blobs in memory."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import IO

from layover.clock import SystemClock
from layover.ports import BlobFacts, Clock
from layover.ports.blobs import MIN_PART


@dataclass(frozen=True)
class _Blob:
    data: bytes
    facts: BlobFacts


class InMemoryBlobs:
    """`ports.Blobs` as a dict. Nothing serves its URLs: an upload is a `put` to the key."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._blobs: dict[str, _Blob] = {}
        self._uploads: dict[str, tuple[str, dict[int, bytes]]] = {}
        self._clock = clock or SystemClock()

    async def get(self, key: str) -> bytes | None:
        """Return the bytes, or None."""
        blob = self._blobs.get(key)
        return None if blob is None else blob.data

    async def put(self, key: str, data: bytes, content_type: str) -> None:
        """Write an object, or replace it."""
        tag = hashlib.sha256(data).hexdigest()
        facts = BlobFacts(len(data), content_type, tag, self._clock.now())
        self._blobs[key] = _Blob(data, facts)

    async def delete(self, key: str) -> None:
        """Delete this one."""
        self._blobs.pop(key, None)

    async def put_file(self, key: str, file: IO[bytes], content_type: str) -> None:
        """Write the content of a file."""
        file.seek(0)
        await self.put(key, file.read(), content_type)

    async def delete_prefix(self, prefix: str, before: datetime | None = None) -> None:
        """Delete everything whose key begins with this (and that was written before then)."""
        for key in await self.keys(prefix):
            if before is not None and self._blobs[key].facts.modified_at >= before:
                continue
            del self._blobs[key]

    async def begin_parts(self, key: str, content_type: str) -> str:
        """Begin an object that is written in parts."""
        upload = f"{key}?upload={len(self._uploads)}"
        self._uploads[upload] = content_type, {}
        return upload

    async def put_part(self, key: str, upload: str, number: int, data: bytes) -> str | None:
        """Write a part, or replace it."""
        if upload not in self._uploads:
            return None
        self._uploads[upload][1][number] = data
        return hashlib.sha256(data).hexdigest()

    async def join_parts(self, key: str, upload: str, tags: Sequence[str]) -> bool:
        """Make the object of the first parts."""
        content_type, parts = self._uploads.get(upload, ("", {}))
        data = [parts.get(number, b"") for number in range(1, len(tags) + 1)]
        is_whole = upload in self._uploads and set(range(1, len(tags) + 1)) <= parts.keys()
        if not is_whole or [hashlib.sha256(part).hexdigest() for part in data] != list(tags):
            return False
        if any(len(part) < MIN_PART for part in data[:-1]):
            return False
        await self.put(key, b"".join(data), content_type)
        del self._uploads[upload]
        return True

    async def drop_parts(self, key: str, upload: str) -> None:
        """Delete an upload with its parts."""
        self._uploads.pop(upload, None)

    async def head(self, key: str) -> BlobFacts | None:
        """Return its facts."""
        blob = self._blobs.get(key)
        return None if blob is None else blob.facts

    async def get_tagged(self, key: str) -> tuple[bytes, BlobFacts] | None:
        """The bytes with their tag."""
        blob = self._blobs.get(key)
        return None if blob is None else (blob.data, blob.facts)

    async def put_if(self, key: str, data: bytes, content_type: str, tag: str | None) -> bool:
        """Write if the object has this tag."""
        if self._tag(key) != tag:
            return False
        await self.put(key, data, content_type)
        return True

    async def copy_if(self, source: str, target: str, tag: str) -> bool:
        """Copy the object if it still has this tag."""
        if self._tag(source) != tag:
            return False
        blob = self._blobs[source]
        await self.put(target, blob.data, blob.facts.content_type)
        return True

    async def keys(self, prefix: str) -> list[str]:
        """Return all keys that begin with this, in order."""
        return sorted(key for key in self._blobs if key.startswith(prefix))

    async def upload_url(self, key: str, content_type: str, size: int, lifetime: timedelta) -> str:
        """A URL that names the key."""
        return f"memory:{key}"

    async def download_url(
        self, key: str, name: str, content_type: str, lifetime: timedelta
    ) -> str:
        """A URL that names the key."""
        return f"memory:{key}"

    def _tag(self, key: str) -> str | None:
        blob = self._blobs.get(key)
        return None if blob is None else blob.facts.tag

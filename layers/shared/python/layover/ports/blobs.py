"""Large objects by key. `layover.ports` has them with the others."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import IO, Protocol

MIN_PART = 5 * 1024 * 1024
"""Bytes that each part of an object has at least, but for the last one (S3's rule)."""


@dataclass(frozen=True)
class BlobFacts:
    """Facts about an object. `tag` changes whenever the bytes do."""

    size: int
    content_type: str
    tag: str
    modified_at: datetime


class Blobs(Protocol):
    """Large objects, by key below the owner's prefix (`Keys.blob`)."""

    async def get(self, key: str) -> bytes | None:
        """Return the bytes; None if there is no such object."""
        ...

    async def put(self, key: str, data: bytes, content_type: str) -> None:
        """Write an object, or replace it."""
        ...

    async def delete(self, key: str) -> None:
        """Delete an object; a missing object is not an error."""
        ...

    async def delete_prefix(self, prefix: str, before: datetime | None = None) -> None:
        """Delete everything whose key begins with this (and that was written before then)."""
        ...

    async def put_file(self, key: str, file: IO[bytes], content_type: str) -> None:
        """Write the content of a file from its beginning, a piece at a time."""
        ...

    async def begin_parts(self, key: str, content_type: str) -> str:
        """Begin an object that is written in parts, perhaps by several processes, and return the name of the
        upload. Nothing is at the key until `join_parts`."""
        ...

    async def put_part(self, key: str, upload: str, number: int, data: bytes) -> str | None:
        """Write a part (from 1 on), or replace it. Return its tag; None if there is no such upload."""
        ...

    async def join_parts(self, key: str, upload: str, tags: Sequence[str]) -> bool:
        """Make the object of the first parts, which end the upload; the tags are theirs, in order. Return
        False, and make nothing, if there is no such upload, a part has another tag, or a part but the last
        has less than `MIN_PART` bytes."""
        ...

    async def drop_parts(self, key: str, upload: str) -> None:
        """Delete an upload with its parts; a missing one is not an error."""
        ...

    async def head(self, key: str) -> BlobFacts | None:
        """Return an object's facts without reading it; None if there is no such object."""
        ...

    async def get_tagged(self, key: str) -> tuple[bytes, BlobFacts] | None:
        """Return the bytes with their tag, for `put_if`; None if there is no such object."""
        ...

    async def put_if(self, key: str, data: bytes, content_type: str, tag: str | None) -> bool:
        """Write if the object has this tag (None: if it does not exist). Return False, and write nothing,
        otherwise."""
        ...

    async def copy_if(self, source: str, target: str, tag: str) -> bool:
        """Copy the object if it still has this tag. Return False if it has another one, or is gone."""
        ...

    async def keys(self, prefix: str) -> list[str]:
        """Return all keys that begin with this prefix, in order."""
        ...

    async def upload_url(self, key: str, content_type: str, size: int, lifetime: timedelta) -> str:
        """Return a URL that takes a PUT of exactly `size` bytes of this type, without other credentials."""
        ...

    async def download_url(
        self, key: str, name: str, content_type: str, lifetime: timedelta
    ) -> str:
        """Return a URL whose GET answers the bytes as an attachment of this name."""
        ...

"""Large things by key. `layover.ports` has it with the others."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import IO, Protocol


@dataclass(frozen=True)
class BlobFacts:
    """`tag` changes whenever the bytes do."""

    size: int
    content_type: str
    tag: str
    modified_at: datetime


class Blobs(Protocol):
    """Large things, by key below the owner's prefix (`Keys.blob`)."""

    async def get(self, key: str) -> bytes | None:
        """The bytes, or None."""
        ...

    async def put(self, key: str, data: bytes, content_type: str) -> None:
        """Write, replacing what is there."""
        ...

    async def delete(self, key: str) -> None:
        """Delete this one; none is fine."""
        ...

    async def delete_prefix(self, prefix: str, before: datetime | None = None) -> None:
        """Delete everything whose key begins with this (and that was written before then)."""
        ...

    async def put_file(self, key: str, file: IO[bytes], content_type: str) -> None:
        """Write what a file holds from its beginning, a piece at a time."""
        ...

    async def head(self, key: str) -> BlobFacts | None:
        """Returns its facts without reading it, or None."""
        ...

    async def get_tagged(self, key: str) -> tuple[bytes, BlobFacts] | None:
        """The bytes with their tag, for `put_if`; None where there is nothing."""
        ...

    async def put_if(self, key: str, data: bytes, content_type: str, tag: str | None) -> bool:
        """Write if what is there has this tag (None: if nothing is there). False: it is otherwise."""
        ...

    async def copy_if(self, source: str, target: str, tag: str) -> bool:
        """Copy what still has this tag. False: it has another one, or is gone."""
        ...

    async def keys(self, prefix: str) -> list[str]:
        """All keys that begin with this, in order."""
        ...

    async def upload_url(self, key: str, content_type: str, size: int, lifetime: timedelta) -> str:
        """Returns a URL that takes a PUT of exactly `size` bytes of this type, without other credentials."""
        ...

    async def download_url(
        self, key: str, name: str, content_type: str, lifetime: timedelta
    ) -> str:
        """Returns a URL whose GET answers the bytes as an attachment of this name."""
        ...

"""Bodies of items: JSON, compressed when long, in S3 when longer than an item may be (BEHAVIOUR 5.4)."""

import hashlib
import zlib
from collections.abc import Mapping
from typing import Any

from layover.errors import LayoverError
from layover.keys import Keys
from layover.ports import Blobs

COMPRESS_ABOVE = 2_000
"""Bytes; below, compressing costs more than it saves."""
SPILL_ABOVE = 350_000
"""Bytes, compressed; an item may have 400 KB."""


class Bodies:
    """Packs texts into attributes (`b`, or `blob` + `sha256` + `size`) and back."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs

    async def pack(self, keys: Keys, run_id: str, text: str) -> dict[str, Any]:
        """Attributes that hold the text. A spilled body is in S3 before anything refers to it."""
        raw = text.encode()
        if len(raw) <= COMPRESS_ABOVE:
            return {"b": text}
        packed = zlib.compress(raw, 6)
        if len(packed) <= SPILL_ABOVE:
            return {"b": packed}
        digest = hashlib.sha256(packed).hexdigest()
        key = keys.blob("runs", run_id, digest)
        await self._blobs.put(key, packed, "application/zlib")
        return {"blob": key, "sha256": digest, "size": len(packed)}

    async def unpack(self, item: Mapping[str, Any]) -> str:
        """The text; what comes from S3 is checked against its hash and length."""
        body = item.get("b")
        if isinstance(body, str):
            return body
        if isinstance(body, bytes):
            return zlib.decompress(body).decode()
        data = await self._blobs.get(item["blob"])
        if data is None or len(data) != item["size"]:
            raise LayoverError("a journal body is missing or cut off in S3", sk=str(item["sk"]))
        if hashlib.sha256(data).hexdigest() != item["sha256"]:
            raise LayoverError("a journal body in S3 does not match its hash", sk=str(item["sk"]))
        return zlib.decompress(data).decode()

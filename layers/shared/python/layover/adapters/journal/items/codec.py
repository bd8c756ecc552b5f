"""Bodies of items: JSON, compressed if long, in S3 if longer than an item may be
(docs/behaviour.md#item-sizes)."""

import hashlib
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from layover.errors import LayoverError
from layover.ports import Blobs

COMPRESS_ABOVE = 700
"""Bytes. With its keys, a shorter item costs one write unit (1 KB) anyway, so compressing saves nothing."""
SPILL_ABOVE = 350_000
"""Bytes, compressed; an item may have 400 KB."""
SPILL_VALUE_ABOVE = 30_000
"""The most bytes, compressed, of a value next to a body in the same item (a decision, an outcome)."""
SHARED = 2_500_000
SHARED_BY_VALUES = 500_000
"""The most bytes, compressed, of all bodies of one transaction's calls, and likewise of all values next to
them. A transaction may have 4 MB (TransactWriteItems), of which META and a batch of events need the rest."""


class PayloadStore:
    """Packs texts into attributes (`b`, or `blob` + `sha256` + `size`) and back."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs

    async def pack(self, folder: str, text: str, among: int = 1) -> dict[str, Any]:
        """Return the attributes that hold the text. A spilled body is in S3, in the run's `folder`
        (`Keys.bodies`), before anything refers to it. `among`: the number of such bodies in one
        transaction."""
        raw = text.encode()
        if len(raw) <= COMPRESS_ABOVE:
            return {"b": text}
        packed = zlib.compress(raw, 6)
        if len(packed) <= min(SPILL_ABOVE, SHARED // among):
            return {"b": packed}
        return await self._spill(folder, packed)

    async def pack_value(self, folder: str, text: str, among: int = 1) -> str | bytes | list[str]:
        """Return the attribute for a value next to a body. It goes to S3 at a much smaller size, so that both
        fit into an item."""
        raw = text.encode()
        if len(raw) <= COMPRESS_ABOVE:
            return text
        packed = zlib.compress(raw, 6)
        if len(packed) <= min(SPILL_VALUE_ABOVE, SHARED_BY_VALUES // among):
            return packed
        body = await self._spill(folder, packed)
        return [body["blob"], body["sha256"], str(body["size"])]

    async def unpack_value(self, value: str | bytes | Sequence[str]) -> str:
        """Invert `pack_value`."""
        if isinstance(value, str):
            return value
        if isinstance(value, bytes):
            return zlib.decompress(value).decode()
        blob, digest, size = value
        return await self._fetch(blob, digest, int(size))

    async def unpack(self, item: Mapping[str, Any]) -> str:
        """Return the text. A body from S3 is checked against its hash and length."""
        body = item.get("b")
        if isinstance(body, str):
            return body
        if isinstance(body, bytes):
            return zlib.decompress(body).decode()
        return await self._fetch(item["blob"], item["sha256"], item["size"], str(item["sk"]))

    async def _spill(self, folder: str, packed: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(packed).hexdigest()
        key = folder + digest
        await self._blobs.put(key, packed, "application/zlib")
        return {"blob": key, "sha256": digest, "size": len(packed)}

    async def _fetch(self, key: str, digest: str, size: int, sk: str | None = None) -> str:
        data = await self._blobs.get(key)
        if data is None or len(data) != size:
            raise LayoverError("a journal body is missing or cut off in S3", blob=key, sk=sk)
        if hashlib.sha256(data).hexdigest() != digest:
            raise LayoverError("a journal body in S3 does not match its hash", blob=key, sk=sk)
        return zlib.decompress(data).decode()

"""Blobs in memory."""


class MemoryBlobs:
    """`ports.Blobs` as a dict."""

    def __init__(self) -> None:
        self._blobs: dict[str, bytes] = {}

    async def get(self, key: str) -> bytes | None:
        """The bytes, or None."""
        return self._blobs.get(key)

    async def put(self, key: str, data: bytes, content_type: str) -> None:
        """Write, replacing what is there."""
        self._blobs[key] = data

    async def delete_prefix(self, prefix: str) -> None:
        """Delete everything whose key begins with this."""
        for key in [k for k in self._blobs if k.startswith(prefix)]:
            del self._blobs[key]

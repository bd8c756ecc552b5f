"""The kind of an answer, by its first bytes: servers and proxies send streams as `application/json`, and
documents as `text/event-stream`."""

import re
from collections.abc import AsyncGenerator, Mapping

from layover.adapters.http.client import Response

_BLANKS = b"\xef\xbb\xbf \t\r\n"
"""Among them the bytes of a byte order mark."""
_EVENTS = re.compile(rb"(data|event|id|retry)?:")
_DOCUMENT = (b"{", b"[", b"<")


class PeekedResponse(Response):
    """An answer whose first bytes were read. `pieces` begins with them."""

    def __init__(
        self,
        status: int,
        headers: Mapping[str, str],
        head: bytes,
        rest: AsyncGenerator[bytes, None] | None = None,
        source: Response | None = None,
    ) -> None:
        super().__init__(status, headers)
        self.head = head
        self._rest = rest
        self._source = source

    @property
    def is_whole(self) -> bool:
        """See Response."""
        return self._source is None or self._source.is_whole

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """See Response."""
        try:
            if self.head:
                yield self.head
            if self._rest is not None:
                async for piece in self._rest:
                    yield piece
        finally:
            await self.aclose()

    async def aclose(self) -> None:
        """End the reading. The connection is its owner's."""
        if self._rest is not None:
            await self._rest.aclose()


async def peek(response: Response) -> PeekedResponse:
    """Return the answer once its first bytes have come that are not blanks. Raises OSError."""
    head, rest = b"", response.pieces()
    async for piece in rest:
        head += piece
        if head.lstrip(_BLANKS):
            break
    return PeekedResponse(response.status, response.headers, head, rest, response)


def reread(response: Response) -> PeekedResponse:
    """Return an answer that was read whole as one in pieces."""
    return PeekedResponse(response.status, response.headers, response.text.encode())


def is_document(response: PeekedResponse) -> bool:
    """Return whether the answer is one document, JSON or a page; the content type decides where its first
    bytes do not."""
    if are_events(response.head):
        return False
    if response.head.lstrip(_BLANKS).startswith(_DOCUMENT):
        return True
    kind = response.headers.get("content-type", "")
    return str(kind).startswith(("application/json", "text/html"))


def are_events(head: bytes) -> bool:
    """Return whether these bytes begin server-sent events."""
    return _EVENTS.match(head.lstrip(_BLANKS)) is not None

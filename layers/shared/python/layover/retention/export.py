"""The export of a user's data: within the request if that is enough, otherwise in the background."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime, timedelta
from tempfile import SpooledTemporaryFile
from typing import IO

from layover.errors import RetryableError
from layover.files.uploads import LINK_LIVES
from layover.keys import Keys
from layover.records.forgetting import is_forgotten
from layover.retention.document import Document, ListedDecisions, Place, list_thread_ids
from layover.retention.export_job import ExportFacts, begin, unfinished
from layover.runtime import Runtime

RETENTION = timedelta(hours=1)
"""An export that did not fit into a response is kept this long; its URL expires earlier."""
REQUEST_WITHIN = timedelta(seconds=20)
"""The time that a request has for reading; API Gateway gives up after 30 s."""
_IN_MEMORY = 8 * 1024 * 1024


@dataclass(frozen=True)
class Export:
    """The document, or the URL from which to get it, or the export that is made in the background."""

    text: str | None
    url: str | None = None
    job: ExportFacts | None = None


async def export(
    runtime: Runtime,
    owner: str,
    fits: Callable[[str], bool],
    within: timedelta | None = None,
) -> Export:
    """Return everything that is stored about the owner, behind a URL if it does not fit into a response. What
    takes longer than `within` (`REQUEST_WITHIN`) is made in the background. Raises RetryableError
    (DatabaseWaking; the owner was forgotten in the meantime)."""
    job = await unfinished(runtime, owner)
    if job is not None:
        return Export(None, job=job)
    seconds = (REQUEST_WITHIN if within is None else within).total_seconds()
    try:
        async with asyncio.timeout(seconds) as limit:
            return await _export_now(runtime, owner, fits)
    except TimeoutError:
        if not limit.expired():
            raise
    return Export(None, job=await begin(runtime, owner))


async def _export_now(runtime: Runtime, owner: str, fits: Callable[[str], bool]) -> Export:
    begun_at = runtime.clock.now()
    thread_ids = await list_thread_ids(runtime, owner)
    document = Document(runtime, owner, begun_at, thread_ids, ListedDecisions(), has_links=True)
    with SpooledTemporaryFile(max_size=_IN_MEMORY) as file:
        async with aclosing(document.pieces(Place())) as pieces:
            async for piece, _ in pieces:
                file.write(piece.encode("utf-8", "replace"))
        if file.tell() <= _IN_MEMORY:
            file.seek(0)
            text = file.read().decode()
            if fits(text):
                return Export(text)
        return Export(None, await _put(runtime, owner, file, begun_at))


async def _put(runtime: Runtime, owner: str, file: "IO[bytes]", begun_at: datetime) -> str:
    """Store the document, and return its URL, which is valid for some minutes."""
    key = Keys(owner).blob("exports", runtime.ids.new("export"))
    # Scheduled first: the object is removed even if this process dies.
    await runtime.journal.dues.schedule(owner, "export", key, runtime.clock.now() + RETENTION)
    await runtime.blobs.put_file(key, file, "application/json")
    # Forgetting first writes its order and then deletes exports, so either this code or that one sees the
    # other.
    if await is_forgotten(runtime, owner, begun_at):
        await runtime.blobs.delete(key)
        raise RetryableError("the data was erased while it was exported; export what is new")
    return await runtime.blobs.download_url(key, "export.json", "application/json", LINK_LIVES)

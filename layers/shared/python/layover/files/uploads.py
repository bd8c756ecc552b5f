"""Files: announce an upload, take a message's files into its thread, hand out links."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from itertools import compress
from typing import Any

from layover.errors import InvalidRequest, LimitReached, NotFound, TooLarge
from layover.files.store import Files, result_id
from layover.records.forgetting import is_forgotten
from layover.runtime import Runtime
from layover.values.file import MAX_NAME, FileFacts, FileUpload, is_mime_type, max_bytes
from layover.values.lease import MAX_UPLOADS, Lease, LeaseKind
from layover.values.message import FilePart, InputPart
from layover.values.text import sanitise

UPLOAD_WITHIN = timedelta(minutes=15)
UNUSED_LIVES = timedelta(days=1)
"""Lifetime of a file that no message names."""
LINK_LIVES = timedelta(minutes=5)
"""The life of a URL to the bytes (docs/reference/http-api.md#files)."""
MAX_FILES = 20
"""The most files of the user in one input."""


async def create(runtime: Runtime, owner: str, name: str, mime_type: str, size: int) -> FileUpload:
    """Announce a file whose bytes will be uploaded. Raises InvalidRequest (name, type), TooLarge,
    LimitReached (too many announced files have no bytes)."""
    facts = FileFacts(
        id=runtime.ids.new("file"),
        name=_name(name),
        mime_type=_mime_type(mime_type),
        size=size,
        created_at=runtime.clock.now(),
    )
    if size > max_bytes(mime_type):
        raise TooLarge(f"a file of this type may have {max_bytes(mime_type)} bytes")
    # Scheduled before the file exists: a file that no message names is removed, even if this process dies.
    await runtime.journal.dues.schedule(owner, "file", facts.id, facts.created_at + UNUSED_LIVES)
    files = Files(runtime.blobs, owner, runtime.dice)
    await _may_announce(runtime, files, owner, facts)
    await files.announce(facts)
    url = await files.upload_url(facts, UPLOAD_WITHIN)
    return FileUpload(id=facts.id, upload_url=url, expires_at=facts.created_at + UPLOAD_WITHIN)


async def _may_announce(runtime: Runtime, files: Files, owner: str, facts: FileFacts) -> None:
    """Count the owner's announced files. No event reports uploaded bytes, so the files are checked once the
    count is too high."""
    # Until the file is uploaded, or cannot be any more.
    lease = Lease(owner, LeaseKind.UPLOAD, facts.id, facts.created_at + UPLOAD_WITHIN)
    now = runtime.clock.now()
    if await runtime.leases.take(lease, MAX_UPLOADS, now):
        return
    leases = await runtime.leases.list_leases(owner, LeaseKind.UPLOAD, now)
    uploads = await asyncio.gather(*(files.is_uploaded(one.id) for one in leases))
    for one in compress(leases, uploads):
        await runtime.leases.release(one)
    if not await runtime.leases.take(lease, MAX_UPLOADS, now):
        minutes = int(UPLOAD_WITHIN.total_seconds() // 60)
        raise LimitReached(
            f"{MAX_UPLOADS} files were announced and not uploaded: upload them, or wait {minutes} minutes"
        )


async def link(runtime: Runtime, owner: str, file_id: str) -> str:
    """Return a URL of the file's bytes. Raises NotFound."""
    return await _link(runtime, owner, file_id, "there is no such file")


async def result_link(runtime: Runtime, owner: str, run_id: str, tool_call_id: str) -> str:
    """Return a URL of the whole of a result that was cut for the model (docs/behaviour.md#long-results).
    Raises NotFound."""
    file_id = result_id(sanitise(run_id), sanitise(tool_call_id))
    return await _link(runtime, owner, file_id, "no call of this id has a result that was cut")


async def take_files(
    runtime: Runtime, owner: str, thread_id: str, content: tuple[InputPart, ...]
) -> tuple[InputPart, ...]:
    """Return the parts with their files' names and types. The files now belong to the thread. Raises
    InvalidRequest if a file is unknown, foreign, or not uploaded; NotFound if the thread is gone."""
    file_parts = [p for p in content if isinstance(p, FilePart) and p.file_id is not None]
    if len(file_parts) > MAX_FILES:
        raise _invalid(["input"], f"more than {MAX_FILES} files", "too_many_files")
    try:
        return tuple(
            [await _take_file(runtime, owner, thread_id, i, part) for i, part in enumerate(content)]
        )
    finally:
        if file_parts:
            await _check_thread(runtime, owner, thread_id)


async def _take_file(
    runtime: Runtime, owner: str, thread_id: str, index: int, part: InputPart
) -> InputPart:
    if not isinstance(part, FilePart) or part.file_id is None:
        return part
    files = Files(runtime.blobs, owner, runtime.dice)
    facts = await files.facts(part.file_id)
    if facts is not None and thread_id not in facts.thread_ids:
        there = await is_there(runtime, owner, facts)
        facts = await files.take(part.file_id, thread_id) if there else None
    if facts is None:
        message = "no such file, or its bytes did not arrive"
        raise _invalid(["input", index, "file_id"], message, "unknown_file")
    return FilePart(file_id=facts.id, name=facts.name, mime_type=facts.mime_type)


async def _check_thread(runtime: Runtime, owner: str, thread_id: str) -> None:
    """Raise NotFound if the thread is being deleted. Deleting first marks the thread and then takes its
    files, so either this code or the eraser sees the other."""
    if await _is_deleted(runtime, owner, thread_id):
        await Files(runtime.blobs, owner, runtime.dice).erase(thread_id)
        raise NotFound("there is no such thread", thread_id=thread_id)


async def _link(runtime: Runtime, owner: str, file_id: str, message: str) -> str:
    files = Files(runtime.blobs, owner, runtime.dice)
    facts = await files.facts(file_id)
    url = None
    if facts is not None and await is_there(runtime, owner, facts):
        url = await files.download_url(facts, LINK_LIVES)
    if url is None:
        raise NotFound(message)
    return url


async def is_there(runtime: Runtime, owner: str, facts: FileFacts) -> bool:
    """Return whether the owner may see the file: a thread that is not deleted has it, or no known thread
    leads to it and the owner has not been forgotten since. (Erasure follows both.)"""
    is_unnamed = not facts.thread_ids
    for thread_id in facts.thread_ids:
        head = await runtime.journal.heads.get(owner, thread_id)
        if head is not None and not head.deleted:
            return True
        # A journal that was lost has no heads until the owner's threads are listed.
        is_unnamed = is_unnamed or head is None
    return is_unnamed and not await is_forgotten(runtime, owner, facts.created_at)


async def _is_deleted(runtime: Runtime, owner: str, thread_id: str) -> bool:
    head = await runtime.journal.heads.get(owner, thread_id)
    return head is not None and head.deleted


def _name(name: str) -> str:
    text = sanitise(name).strip()
    if not text or len(text) > MAX_NAME or not text.isprintable():
        message = f"a name has 1 to {MAX_NAME} printable characters"
        raise _invalid(["name"], message, "file_name")
    return text


def _mime_type(mime_type: str) -> str:
    if not is_mime_type(mime_type):
        raise _invalid(["mime_type"], "not a media type that a file may have", "mime_type")
    return mime_type


def _invalid(at: Sequence[str | int], message: str, kind: str) -> InvalidRequest:
    error: dict[str, Any] = {"loc": ["body", *at], "msg": message, "type": kind}
    return InvalidRequest(message, [error])

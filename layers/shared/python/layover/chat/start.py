"""A chat's request: a new message, a repetition, or a person's decisions."""

import base64
import binascii
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import unquote_to_bytes

from layover.approvals.decide import DecisionRequest, decide
from layover.chat.answers import last_suspension_seq
from layover.errors import Conflict, InvalidRequest, NotFound
from layover.files.store import Files, thread_file_facts
from layover.records.runs import meta_of
from layover.runs.accept import StartRun, start_run
from layover.runtime import Runtime
from layover.values.deployment.access import Actor
from layover.values.file import MAX_NAME, is_mime_type, max_bytes
from layover.values.message import FilePart, InputPart
from layover.values.runs.run import RunMeta
from layover.values.thread import ThreadHead

_DATA = "data:"


async def say(
    runtime: Runtime, owner: str, head: ThreadHead, parts: str | Sequence[InputPart]
) -> str:
    """Return the id of the run that answers. Raises what `start_run` raises."""
    run = await start_run(runtime, owner, head.id, StartRun(parts, stream=True))
    return run.id


async def regenerate(runtime: Runtime, owner: str, head: ThreadHead, run_id: str | None) -> str:
    """Return the id of a run that answers the input of this run (None: the newest one) again, on a new
    branch. Raises NotFound, and what `start_run` raises."""
    meta = await _run_of(runtime, owner, head, run_id)
    content: list[Any] = list(meta.input.content)
    again = StartRun(content, parent_id=meta.input.parent_id, stream=True)
    return (await start_run(runtime, owner, head.id, again)).id


async def decide_all(
    runtime: Runtime,
    actor: Actor,
    head: ThreadHead,
    run_id: str | None,
    decisions: Iterable[tuple[str, DecisionRequest]],
) -> tuple[str, int]:
    """Decide these calls of the run (the active one if `run_id` is None or not of this thread). Return the
    run, and the seq after which its answer goes on. A repetition gets the same answer. Raises Conflict
    (nothing waits), and what `decide` raises."""
    all_decisions = list(decisions)
    try:
        meta = await _run_of(runtime, actor.owner, head, run_id or head.active_run)
    except NotFound:
        if head.active_run is None:
            raise Conflict("nothing waits in this chat", thread_id=head.id) from None
        meta = await _run_of(runtime, actor.owner, head, head.active_run)
    for tool_call_id, decision in all_decisions:
        await decide(runtime, actor, meta.id, tool_call_id, decision)
    calls = [tool_call_id for tool_call_id, _ in all_decisions]
    return meta.id, await last_suspension_seq(runtime, actor.owner, meta.id, calls)


async def file_part(
    runtime: Runtime, owner: str, head: ThreadHead, url: str, name: str | None, mime_type: str
) -> FilePart:
    """Return a file of an input. The whole file in a `data:` URL becomes a file of the thread; `/files/ID`
    names an existing one. Raises InvalidRequest."""
    if url.startswith("/files/"):
        return FilePart(file_id=url.removeprefix("/files/"))
    if not url.startswith(_DATA):
        return FilePart(url=url, name=name, mime_type=mime_type or None)
    data = _decode(url)
    title = (name or "file").strip()[:MAX_NAME] or "file"
    if not is_mime_type(mime_type) or not title.isprintable() or len(data) > max_bytes(mime_type):
        raise _invalid("a file of this type, name or size cannot be kept")
    id = runtime.ids.new("file")
    facts = thread_file_facts(
        id, head.id, name=title, mime_type=mime_type, data=data, at=runtime.clock.now()
    )
    await Files(runtime.blobs, owner).keep(facts, data)
    return FilePart(file_id=id)


async def _run_of(runtime: Runtime, owner: str, head: ThreadHead, run_id: str | None) -> RunMeta:
    if run_id is None:
        page = await runtime.journal.runs.page_ids(owner, head.id, 1, None)
        if not page.items:
            raise NotFound("this chat has no messages", thread_id=head.id)
        run_id = page.items[0]
    meta = await meta_of(runtime, owner, run_id)
    if meta.thread_id != head.id:
        raise NotFound("there is no such run in this chat", thread_id=head.id)
    return meta


def _decode(url: str) -> bytes:
    head, comma, data = url.partition(",")
    if not comma:
        raise _invalid("this is not a data: URL")
    raw = unquote_to_bytes(data)
    if not head.endswith(";base64"):
        return raw
    try:
        return base64.b64decode(raw, validate=True)
    except binascii.Error as error:
        raise _invalid("the file is not in base64") from error


def _invalid(message: str) -> InvalidRequest:
    return InvalidRequest(message, [{"loc": ["body", "messages"], "msg": message, "type": "file"}])

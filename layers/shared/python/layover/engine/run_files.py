"""Data that a run keeps outside its journal, under its thread: files that tools make, results too long for
the model, histories of nodes."""

import json
import logging

from layover.declare.context import NodeHistory
from layover.errors import NotFound, RetryableError
from layover.files.node_log import NodeLog
from layover.files.store import Files, result_id, thread_file_facts
from layover.runtime import Runtime
from layover.values.file import MAX_NAME, FileFacts, is_mime_type, max_bytes, true_type
from layover.values.message import FilePart
from layover.values.runs.run import CallRecord, RunMeta
from layover.values.text import sanitise

logger = logging.getLogger("layover")


class RunFiles:
    """The files of one run."""

    def __init__(self, runtime: Runtime, meta: RunMeta, agent: str) -> None:
        self.files = Files(runtime.blobs, meta.owner)
        self._runtime = runtime
        self._meta = meta
        self._agent = agent

    async def save_file(self, name: str, mime_type: str, data: bytes) -> FilePart:
        """Store a file in the thread. Raises ValueError for a name, a type or a size that no file may have,
        NotFound if the thread is gone."""
        name = sanitise(name).strip()
        if not name.isprintable() or not 0 < len(name) <= MAX_NAME:
            raise ValueError(f"a file's name has 1 to {MAX_NAME} printable characters")
        if not is_mime_type(mime_type):
            raise ValueError("the media type is not one that a file may have")
        mime_type = true_type(mime_type, data)
        if len(data) > max_bytes(mime_type):
            raise ValueError(f"a file of this type may have {max_bytes(mime_type)} bytes")
        facts = await self._store_file(self._runtime.ids.new("file"), name, mime_type, bytes(data))
        return FilePart(file_id=facts.id, name=name, mime_type=mime_type)

    async def keep_result(self, call: CallRecord, output: str) -> bool:
        """Keep the whole of a result that is cut for the model. Return False if that fails: the call has run,
        and its result must not be lost because of it."""
        ending, mime_type = _kind(output)
        name = f"{call.tool_name}-{call.tool_call_id}"[: MAX_NAME - 5] + ending
        try:
            file_id = result_id(call.run_id, call.tool_call_id)
            await self._store_file(file_id, name, mime_type, output.encode("utf-8", "replace"))
        except (RetryableError, NotFound) as error:
            cause = {"run_id": call.run_id, "cause": type(error).__name__}
            logger.warning("a long result could not be kept whole", extra=cause)
            return False
        return True

    async def read_result(self, run_id: str, tool_call_id: str) -> str | None:
        """Return the whole of a result that was cut for the model; None if it was not kept. Raises
        RetryableError."""
        data = await self.files.data(result_id(run_id, tool_call_id))
        return None if data is None else data.decode("utf-8", "replace")

    def node(self, node_id: str) -> NodeHistory:
        """Return the history of a node. Raises ConfigurationError for an invalid id."""
        meta = self._meta
        return NodeLog(self._runtime, meta.owner, self._agent, meta.thread_id, node_id)

    async def _store_file(self, file_id: str, name: str, mime_type: str, data: bytes) -> FileFacts:
        meta = self._meta
        now = self._runtime.clock.now()
        facts = thread_file_facts(
            file_id, meta.thread_id, name, mime_type=mime_type, data=data, at=now
        )
        await self.files.keep(facts, data)
        # Erasing first marks the thread and then deletes, so either this code or the eraser sees the other.
        head = await self._runtime.journal.heads.get(meta.owner, meta.thread_id)
        if head is None or head.deleted:
            await self.files.release(file_id, meta.thread_id)
            raise NotFound("the thread is gone", thread_id=meta.thread_id)
        return facts


def _kind(output: str) -> tuple[str, str]:
    """Return the file extension and the type of a tool's output."""
    if output[:1] in "{[":
        try:
            json.loads(output)
        except (ValueError, RecursionError):
            pass
        else:
            return ".json", "application/json"
    return ".txt", "text/plain; charset=utf-8"

"""The memory store of one process: memory beyond messages."""

from layover.inmemory.stores.compaction import InMemoryCompaction
from layover.inmemory.stores.entries import InMemoryEntries, store_entries
from layover.inmemory.stores.notes import InMemoryNotes
from layover.inmemory.stores.personal import InMemoryPersonal
from layover.inmemory.stores.recall import InMemoryRecall
from layover.inmemory.stores.threads import InMemoryThreads
from layover.ports.memory.notes import StaleState
from layover.values.memory.context import Extraction
from layover.values.note import PROFILE, NoteKey


class InMemoryMemory(
    InMemoryNotes, InMemoryRecall, InMemoryCompaction, InMemoryEntries, InMemoryPersonal
):
    """`ports.MemoryStore`, with the threads that it writes to."""

    def __init__(self, threads: InMemoryThreads) -> None:
        InMemoryNotes.__init__(self, threads.shelf)
        InMemoryRecall.__init__(self, threads)
        InMemoryCompaction.__init__(self, threads)
        InMemoryEntries.__init__(self, threads)
        InMemoryPersonal.__init__(self, threads)
        self._threads = threads
        self._done_runs: set[tuple[str, str]] = set()

    async def is_extracted(self, owner: str, run_id: str) -> bool:
        """True if the run's results are stored."""
        return (owner, run_id) in self._done_runs

    async def record_extraction(self, owner: str, extraction: Extraction) -> bool:
        """Store a run's results once. False: it was done before, or the thread is gone. Raises
        StaleState."""
        thread = self._threads.find(owner, extraction.thread_id)
        key = (owner, extraction.run_id)
        if thread is None or key in self._done_runs:
            return False
        self._check_fresh(owner, extraction)
        self._store_facts(owner, extraction)
        self._done_runs.add(key)
        store_entries(self._threads, owner, extraction.entries)
        self._threads.spend(owner, extraction.run_id, extraction.usage, "background")
        if extraction.title is not None:
            self._threads.set_title(owner, extraction.thread_id, extraction.title)
        for message_id, tokens in extraction.token_counts.items():
            message = thread.messages.get(message_id)
            if message is not None:
                thread.messages[message_id] = message.model_copy(update={"token_count": tokens})
        return True

    def _store_facts(self, owner: str, extraction: Extraction) -> None:
        thread_id, at = extraction.thread_id, extraction.at
        if extraction.session:
            session, said_times = extraction.session, extraction.session_said
            self._shelf.write_state(owner, thread_id, session=session, session_said=said_times)
        if extraction.profile and extraction.agent is not None and at is not None:
            key = NoteKey(kind=PROFILE, scope="resource", key=extraction.agent)
            who = {"at": at, "run_id": extraction.run_id}
            self._shelf.learn(owner, key, extraction.profile, extraction.said_at or at, **who)

    def _check_fresh(self, owner: str, extraction: Extraction) -> None:
        version = self._shelf.state(owner, extraction.thread_id).version
        if extraction.session and version != extraction.state_version:
            raise StaleState
        expected_version = extraction.entries_version
        current_version = self._shelf.entries_version(owner, extraction.agent or "")
        if expected_version is not None and expected_version != current_version:
            raise StaleState

    def _alive(self, owner: str, thread_id: str) -> bool:
        return self._threads.find(owner, thread_id) is not None

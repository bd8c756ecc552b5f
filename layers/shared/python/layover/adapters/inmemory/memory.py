"""What is remembered beyond messages, in memory."""

from layover.adapters.inmemory.threads import InMemoryThreads
from layover.values.context import Extraction


class InMemoryMemory:
    """`ports.MemoryStore`, beside the threads that it writes to."""

    def __init__(self, threads: InMemoryThreads) -> None:
        self._threads = threads
        self._extracted: set[tuple[str, str]] = set()

    async def record_extraction(self, owner: str, extraction: Extraction) -> bool:
        """Store a run's results once. False: it was done before, or the thread is gone."""
        thread = self._threads.find(owner, extraction.thread_id)
        key = (owner, extraction.run_id)
        if thread is None or key in self._extracted:
            return False
        self._extracted.add(key)
        if extraction.title is not None:
            self._threads.set_title(owner, extraction.thread_id, extraction.title)
        for message_id, tokens in extraction.token_counts.items():
            message = thread.messages.get(message_id)
            if message is not None:
                thread.messages[message_id] = message.model_copy(update={"token_count": tokens})
        return True

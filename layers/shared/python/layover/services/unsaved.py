"""Runs that ended while the database was away: they are saved from the journal before anything reads
their thread's history (DESIGN 2, the end)."""

from layover.engine.state import RunState
from layover.ports import Runtime
from layover.services.ending import turn_record


async def save_unsaved(runtime: Runtime, owner: str, thread_id: str, run_id: str) -> None:
    """Write the run's messages and usage to the database; once it holds, the journal says so."""
    snapshot = await runtime.journal.snapshot(owner, run_id)
    head = await runtime.journal.thread(owner, thread_id)
    if snapshot is not None and head is not None:
        state = RunState(snapshot)
        await runtime.threads.save_turn(turn_record(state, head, state.response()))
    await runtime.journal.saved(owner, run_id, thread_id)

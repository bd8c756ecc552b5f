"""Runs that ended while the database was away: they are saved from the journal before anything reads
their thread's history (docs/behaviour.md#unsaved-runs)."""

from layover.engine.state import RunState
from layover.records.views import run_view
from layover.runs.finish import turn_record
from layover.runtime import Runtime
from layover.values.thread import ThreadHead


async def save_unsaved(runtime: Runtime, head: ThreadHead) -> None:
    """Write the messages and the usage of the thread's unsaved runs to the database, oldest first. Once a run
    is there, the journal says so."""
    for run_id in head.unsaved:
        snapshot = await runtime.journal.runs.snapshot(head.owner, run_id)
        if snapshot is not None:
            state = RunState(snapshot)
            record = turn_record(state, head, state.response(), run_view(snapshot))
            await runtime.threads.save_turn(record)
        await runtime.journal.commands.mark_saved(head.owner, run_id, head.id)

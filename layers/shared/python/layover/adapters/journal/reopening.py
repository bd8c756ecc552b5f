"""A run that failed goes on (docs/outages.md#redrive): its META, its thread and its log, in one
transaction."""

from datetime import datetime
from typing import Any

from layover.adapters.journal.backing import Backing
from layover.adapters.journal.heads import as_read, next_execution
from layover.adapters.journal.log.events import END, EventLog
from layover.clock import rfc3339
from layover.keys import EVENT_PREFIX, HEAD, META, Keys
from layover.ports.table import (
    Action,
    Equals,
    Exists,
    Missing,
    Put,
    TransactionFailed,
    Update,
    all_of,
    same,
)
from layover.values.runs.event import (
    ErrorEvent,
    Finish,
    Redriven,
    TurnStart,
    UnknownEvent,
    load_events,
)
from layover.values.runs.run import Phase, RunMeta, Status
from layover.values.thread import ThreadHead


async def reopen(backing: Backing, run: RunMeta, head: ThreadHead, step: int) -> int | None:
    """See `ports.RunCommands.reopen`."""
    keys, now = Keys(run.owner), backing.clock.now()
    batch = await _open_log(backing, keys, run, step)
    if batch is None:
        return None
    as_it_failed = all_of(
        Equals("status", Status.FAILED.value),
        Equals("epoch", run.epoch),
        Equals("n", run.n),
        Missing("saved"),
        Missing("unplaced"),
    )
    free = (Missing("queue"), same("leaf_id", head.leaf_id), Missing("deleted"))
    takes = {"active_run": run.id, "updated_at": rfc3339(now)}
    changes = _goes_on(keys, run, now)
    actions: list[Action] = [
        Update(keys.run(run.id), META, set=changes, add={"epoch": 1}, when=as_it_failed),
        Update(keys.thread(head.id), HEAD, set=takes, when=all_of(as_read(head), *free)),
        batch,
    ]
    try:
        await backing.table.transact(actions, backing.dice.hex(16))
    except TransactionFailed:
        return None
    return run.n + 1


def _goes_on(keys: Keys, run: RunMeta, now: datetime) -> dict[str, Any]:
    """Return the changes of META: those of an end are gone, and the run is in the sweeper's list again."""
    at = rfc3339(now)
    return {
        **next_execution(run.id, run.n + 1, Phase.TURN),
        **dict.fromkeys(("outcome", "expires", "cancel", "loose_at", "untold")),
        "status": Status.RUNNING.value,
        "attempts": 0,
        "updated_at": at,
        "redriven_at": at,
        "reopened_at": at,
        "gsi2pk": keys.watch(run.id),
        "gsi2sk": at,
    }


async def _open_log(backing: Backing, keys: Keys, run: RunMeta, step: int) -> Put | None:
    """Return the write that opens the log of a failed run again: its `error` and `finish` make way for events
    that say that it goes on with this step. None: it does not end with a failure."""
    pk = keys.run(run.id)
    newest = await backing.table.query(pk, EVENT_PREFIX, END, limit=1, forward=False)
    item = newest[0] if newest else {}
    if not item.get("last"):
        return None
    logged = load_events(await backing.bodies.unpack(item), run.id, 1)
    events = [event for event in logged if not isinstance(event, UnknownEvent)]
    now = backing.clock.now()
    match events[-2:]:
        case [ErrorEvent() as failure, Finish()] if len(events) == len(logged):
            redriven = Redriven(at=now, error=failure.error)
        case _:
            return None
    log = EventLog(backing, keys, run.id, keys.bodies(run.thread_id, run.id))
    body = await log.body([*events[:-2], redriven, TurnStart(at=now, step=step)])
    same_batch = all_of(Exists("last"), same("id", item.get("id")))
    return Put(pk, item["sk"], body, when=same_batch)

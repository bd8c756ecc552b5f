"""No field of a record is lost between its value and the table, in memory and on DynamoDB.

Each value has something in every field (`support.filled`). A test says which fields do not come back."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, get_args

import pytest

from layover.adapters.journal.followers.connections import TableConnections
from layover.keys import call_key, child_path, step_key
from layover.ports import RunLog
from layover.records.views import pending_calls
from layover.values.decision import ApprovalRule, Vote
from layover.values.runs.audit import AuditRow
from layover.values.runs.event import ErrorEvent, Event
from layover.values.runs.provider_wait import ProviderWait
from layover.values.runs.run import (
    CallRecord,
    CallState,
    Decision,
    ErrorInfo,
    OnBusy,
    Outcome,
    RunMeta,
    Status,
    StepRecord,
    Suspension,
)
from layover.values.runs.views import OpenApproval, Pending
from layover.values.socket import Connection, Subscription
from layover.values.thread import ThreadHead
from support.filled import filled, lost
from support.worlds.journal import JournalBench

pytestmark = pytest.mark.both_stores(in_every_tier=True)

NOT_IN_JSON = {
    "model_output": "of results of tools: a call has it itself",
    "token_count": "counted once the run is over",
    "provider_state": "of replies of models: a step has it itself",
}
"""Fields that the JSON of a message leaves out, and that the message of a record does without."""


def in_messages(*paths: str) -> set[str]:
    return {f"{path}.{name}" for path in paths for name in NOT_IN_JSON}


# Heads of threads


async def test_every_field_of_a_head_is_read_as_it_was_put(world: JournalBench) -> None:
    head = filled(ThreadHead, owner=world.owner)
    await world.journal.heads.put(head)
    assert lost(head, await world.head(head.id)) == set()


async def test_every_field_of_a_head_is_in_the_list_of_threads(world: JournalBench) -> None:
    head = filled(ThreadHead, owner=world.owner)
    await world.journal.heads.put(head)
    [listed] = (await world.journal.heads.page(world.owner, 10, None)).items
    assert lost(head, listed) == set()


async def test_an_edited_head_keeps_every_other_field(world: JournalBench) -> None:
    head = filled(ThreadHead, owner=world.owner, deleted=False)
    await world.journal.heads.put(head)
    edited = await world.journal.heads.edit(
        world.owner, head.id, title="another", metadata={"other": 1}
    )
    assert lost(head, edited) == {"title", "metadata", "updated_at"}
    assert edited == await world.head(head.id)


IN_TOMBSTONES = {
    **dict.fromkeys(("id", "owner", "agent", "created_at"), "which thread it was"),
    **dict.fromkeys(("leaf_id", "last_created_at", "active_run", "queue"), "what a run ends"),
    **dict.fromkeys(("interrupts", "waiting_runs", "ready"), "likewise"),
    **dict.fromkeys(("unsaved", "unplaced", "updated_at"), "likewise"),
    **dict.fromkeys(("deleted", "forget_profile", "empty_again_at"), "its erasure"),
    "windows": "of models",
}
"""Fields that a deleted thread keeps. The others are its owner's words."""


async def test_a_tombstone_has_none_of_its_owners_words(world: JournalBench) -> None:
    alive = {"deleted": False, "forget_profile": False, "empty_again_at": None}
    head = filled(ThreadHead, owner=world.owner, **alive)
    await world.journal.heads.put(head)
    await world.journal.erasure.mark_deleted(world.owner, head.id, forget_profile=True)
    again_at = world.clock.now() + timedelta(minutes=16)
    await world.journal.erasure.mark_purged(world.owner, head.id, again_at)
    marks = {"deleted": True, "forget_profile": True, "empty_again_at": again_at}
    left = {name: value for name, value in head if name in IN_TOMBSTONES}
    tombstone = ThreadHead.model_validate({**left, **marks})
    assert await world.head(head.id) == tombstone
    [listed] = (await world.journal.erasure.page_deleted(world.owner, 10, None)).items
    assert lost(tombstone, listed) == {"updated_at"}


# Runs


SET_LATER: dict[str, str] = {
    "cancel": "requested",
    "waiting": "suspended",
    "decided": "decided",
    "owed": "decided",
    "step_ended": "stepped",
    "finish_reason": "ended",
    "output": "ended",
    "error": "ended",
    "error_detail": "ended",
    "untold": "ended",
    "usage": "ended",
    "model": "ended",
    "saved": "ended",
    "loose_at": "ended",
    "unplaced": "ended",
    "history": "taken",
    "pointed": "suspended",
    "redriven_at": "redriven",
    "lost_at": "sought",
    "aside": "set_aside",
    "ready": "readied",
    "hears": "taken_back",
    "said": "said_to",
    "compacted_for": "compacted",
    "compacted_before": "compacted",
    "definition": "redefined",
    "sockets": "followed",
    "subscribed": "followed",
    "records_kept": "suspended",
    "takes": "taken",
    "left": "left",
    "phase": "rested",
    "branches": "branched",
    "away": "paused",
    "reopened_at": "reopened",
}
"""Fields that a run does not have when it is accepted, with what sets them later (`Life`)."""


async def accepted(world: JournalBench, **given: Any) -> RunMeta:
    """A run with something in every field, as it was accepted: it starts at once, and its records expire."""
    head = await world.thread()
    own = {"owner": world.owner, "thread_id": head.id, "agent": head.agent}
    expire_at = world.clock.now() + timedelta(days=30)
    run = filled(RunMeta, **own, **{"records_expire_at": expire_at, **given})
    await world.journal.commands.accept(run, head, OnBusy.REJECT, None)
    starts = {"status": Status.RUNNING, "execution": f"{run.id}-{run.n}"}
    return run.model_copy(update=starts)


async def test_every_field_of_a_run_is_read_as_it_was_accepted(world: JournalBench) -> None:
    run = await accepted(world)
    missing = lost(run, await world.run(run.id))
    assert {path.partition(".")[0] for path in missing} - {"input"} == set(SET_LATER)
    assert {path for path in missing if path.startswith("input.")} == in_messages("input")


class Life:
    """Sets the fields of a run that begin at their default, each by the command that sets it."""

    def __init__(self, world: JournalBench) -> None:
        self._world = world

    async def taken(self) -> RunLog:
        return await self._world.taken(
            records_expire_at=self._world.clock.now() + timedelta(days=1)
        )

    async def left(self) -> None:
        run = (await self.taken()).snapshot.meta
        await self._world.journal.commands.mark_left(run.owner, run.id, run.takes)

    async def rested(self) -> None:
        await self._world.leave(await self.taken())

    async def branched(self) -> None:
        [call] = await self._world.waiting(await self.taken(), "c1")
        decided = await self._world.decide(call)
        await (await self._world.join(call.run_id)).open_calls([decided])

    async def requested(self) -> None:
        log = await self.taken()
        await self._world.journal.commands.request_cancel(self._world.owner, log.snapshot.meta.id)

    async def suspended(self) -> CallRecord:
        log = await self.taken()
        [call] = await self._world.journaled(log, "c1")
        suspension = self._world.suspension(approval={"by": (f"people of {self._world.owner}",)})
        await log.suspend_calls([call.model_copy(update={"suspension": suspension})])
        await self._world.leave(log)
        return await self._world.call(call)

    async def decided(self) -> None:
        await self._world.decide(await self.suspended())

    async def stepped(self) -> None:
        log = await self.taken()
        await log.put_step(self._world.step(log), is_complete=True)

    async def ended(self) -> None:
        log = await self.taken()
        outcome = filled(Outcome, status=Status.FAILED)
        await log.end(outcome, self._world.finish(outcome), untold=True)

    async def redriven(self) -> None:
        run = (await self.taken()).snapshot.meta
        await self._world.journal.commands.start_successor(
            run.owner, run.id, run.execution, fresh=True
        )

    async def paused(self) -> None:
        await (await self.taken()).pause(filled(ProviderWait))

    async def reopened(self) -> None:
        log = await self.taken()
        run = log.snapshot.meta
        outcome = self._world.outcome(run, Status.FAILED)
        error = ErrorEvent(at=self._world.clock.now(), error=filled(ErrorInfo))
        await log.end(outcome, error, self._world.finish(outcome))
        head = await self._world.head(run.thread_id)
        over = await self._world.run(run.id)
        assert await self._world.journal.commands.reopen(over, head, 1) == run.n + 1

    async def sought(self) -> None:
        run, now = (await self.taken()).snapshot.meta, self._world.clock.now()
        look = await self._world.look(run.id)
        await self._world.journal.watch.reschedule(look, now, lost_at=now)

    async def set_aside(self) -> RunMeta:
        waiting = (await self.suspended()).run_id
        await self._world.set_aside(waiting)
        return await self._world.run(waiting)

    async def readied(self) -> RunLog:
        run = await self.set_aside()
        log, head = await self._world.take(run.id), await self._world.head(run.thread_id)
        busy = await self._world.run(str(head.active_run))
        assert await log.wait_for_thread(head, busy)
        return log

    async def taken_back(self) -> None:
        log = await self.readied()
        meta = log.snapshot.meta
        busy = str((await self._world.head(meta.thread_id)).active_run)
        other = await self._world.take(busy)
        outcome = self._world.outcome(other.snapshot.meta)
        await other.end(outcome, self._world.finish(outcome))

    async def said_to(self) -> None:
        run = (await self.taken()).snapshot.meta
        await self._world.journal.commands.add_message(run, run.input)

    async def compacted(self) -> None:
        log = await self.taken()
        await log.wait_for_compaction(2)
        await (await self._world.take(log.snapshot.meta.id)).wait_for_compaction(3)

    async def redefined(self) -> None:
        await (await self.taken()).redefine("a hash")

    async def followed(self) -> None:
        run, connections = (await self.taken()).snapshot.meta, TableConnections(self._world.table)
        connection = filled(Connection, owner=run.owner, id=f"of {run.owner}")
        await connections.open(connection)
        await connections.subscribe(Subscription(run.owner, run.id, connection.id), None, 0)


@pytest.mark.parametrize("name", sorted(SET_LATER))
async def test_every_field_that_a_run_gets_later_is_read(world: JournalBench, name: str) -> None:
    command: Callable[[], Awaitable[Any]] = getattr(Life(world), SET_LATER[name])
    await command()
    [thread] = (await world.journal.heads.page(world.owner, 10, None)).items
    run_ids = (await world.journal.runs.page_ids(world.owner, thread.id, 10, None)).items
    default = RunMeta.model_fields[name].get_default()
    values = [getattr(await world.run(run_id), name) for run_id in run_ids]
    assert any(value != default for value in values)


async def test_every_field_of_an_outcome_is_read_with_its_run(world: JournalBench) -> None:
    log = await world.taken()
    outcome = filled(Outcome, status=Status.FAILED, saved=False)
    await log.end(outcome, world.finish(outcome))
    run = await world.run(log.snapshot.meta.id)
    elsewhere = dict.fromkeys(("leaf_id", "last_created_at", "windows"), "a fact of the thread")
    assert lost(outcome, run) == set(elsewhere)
    head = await world.head(run.thread_id)
    assert lost(outcome, head) & elsewhere.keys() == set()


# Steps and calls


async def test_every_field_of_a_step_is_read_as_it_was_journaled(world: JournalBench) -> None:
    log = await world.taken()
    nested = step_key(child_path(call_key(step_key("", 1), "c1")), 1)
    step = filled(StepRecord, key=nested, index=1)
    await log.put_step(step, is_complete=True)
    snapshot = await world.journal.runs.snapshot(world.owner, log.snapshot.meta.id)
    assert snapshot is not None
    assert lost(step, snapshot.steps[0]) == (
        in_messages("message", "notices.0", "notices.1") - {"message.provider_state"}
    )


def call_of(log: RunLog, **given: Any) -> CallRecord:
    """A call with something in every field, of the first step of this writer's run."""
    own = {"key": call_key(step_key("", 1), "c1"), "run_id": log.snapshot.meta.id}
    return filled(CallRecord, **own, **{"state": CallState.PLANNED, "rev": None, **given})


NEW_WAIT: dict[str, Any] = {"reminders": 0, "escalated": False, "extended_to": None}
"""What becomes of a wait while nobody decides. Each attempt begins without it."""
OF_WAITS = {
    "token": "of a call that waits",
    "log_seq": "set where the events of the end follow",
}
"""Fields that no call has when it is opened or settled."""
IN_CALLS = in_messages("custom", "child.input")


async def test_every_field_of_a_call_is_read_as_it_was_opened(world: JournalBench) -> None:
    log = await world.taken()
    call = call_of(log)
    await log.open_calls([call])
    opened = call.written(state=CallState.OPEN, opener=log.opener)
    assert lost(opened, await world.call(call)) == IN_CALLS | set(OF_WAITS)


async def test_every_field_of_a_call_is_read_as_it_was_settled(world: JournalBench) -> None:
    log = await world.taken()
    call = call_of(log)
    await log.close_call(call)
    settled = call.written(state=CallState.SETTLED, opener=log.opener)
    assert lost(settled, await world.call(call)) == IN_CALLS | set(OF_WAITS)


async def test_every_field_of_a_call_is_read_as_it_was_suspended(world: JournalBench) -> None:
    log = await world.taken()
    call = call_of(log)
    await log.suspend_calls([call])
    fresh: dict[str, Any] = {
        **dict.fromkeys(("decision", "opener", "token", "log_seq")),
        "ends_step": False,
        "votes": (),
        "voted": 0,
        **NEW_WAIT,
    }
    suspended = call.written(state=CallState.WAITING, attempt=call.attempt + 1, **fresh)
    assert lost(suspended, await world.call(call)) == IN_CALLS


async def test_every_field_of_a_decision_and_of_its_votes_is_read_with_its_call(
    world: JournalBench,
) -> None:
    log = await world.taken()
    call, votes = call_of(log, voted=0), (filled(Vote), filled(Vote, by="another"))
    await log.suspend_calls([call])
    waiting = await world.call(call)
    decision, run = filled(Decision), await world.run(call.run_id)
    await world.journal.decisions.decide(run, waiting, decision, votes=votes)
    decided = waiting.written(decision=decision, votes=votes, voted=1)
    assert lost(decided, await world.call(call)) == set()
    [row] = (
        await world.journal.audit.page_rows(decision.at.date(), decision.at.date(), 50, None)
    ).items[-1:]
    assert row == AuditRow.of(run, waiting, decision)


async def test_what_becomes_of_a_wait_is_read_with_its_call(world: JournalBench) -> None:
    log = await world.taken()
    call = call_of(log, decision=None)
    await log.suspend_calls([call])
    waiting = await world.call(call)
    amended = waiting.model_copy(update={name: getattr(call, name) for name in NEW_WAIT})
    assert all(getattr(amended, name) != value for name, value in NEW_WAIT.items())
    await world.journal.decisions.amend(await world.run(call.run_id), waiting, amended)
    assert lost(amended.written(), await world.call(call)) == set()


async def test_what_a_wait_adds_to_a_call_is_read(world: JournalBench) -> None:
    log = await world.taken()
    [waiting] = await world.waiting(log, "c1")
    assert await world.store_token(waiting, "a token") is not None
    assert (await world.call(waiting)).token == "a token"


async def test_where_the_events_of_an_end_follow_is_read(world: JournalBench) -> None:
    log = await world.taken()
    step = world.step(log, "c1")
    call = call_of(log, child=None)
    await log.put_step(step, world.data(), open_calls=[call])
    opened = call.written(state=CallState.OPEN, opener=log.opener)
    await log.close_call(opened, world.data(), ended_step=step, wait=False)
    await log.wait()
    assert (await world.call(call)).log_seq == 2


async def test_every_field_of_a_waiting_call_is_in_the_lists_of_approvals(
    world: JournalBench,
) -> None:
    log = await world.taken()
    rule = filled(ApprovalRule, by=(f"group of {world.owner}",))
    call = call_of(log, suspension=filled(Suspension, approval=rule))
    await log.put_step(world.step(log, "c1"))
    await log.suspend_calls([call])
    waiting = await world.call(call)
    amended = waiting.model_copy(update={name: getattr(call, name) for name in NEW_WAIT})
    await world.journal.decisions.amend(await world.run(call.run_id), waiting, amended)
    snapshot = await world.journal.runs.snapshot(world.owner, call.run_id)
    assert snapshot is not None
    [pending] = pending_calls(snapshot)
    [listed] = (await world.journal.decisions.page_pending(world.owner, None, 10, None)).items
    assert lost(pending, listed) == set()
    places = {"run_id": call.run_id, "thread_id": snapshot.meta.thread_id, "agent": "support"}
    assert {name: getattr(listed, name) for name in places} == places
    assert OpenApproval.model_fields.keys() - Pending.model_fields.keys() == places.keys()
    [asked] = (await world.journal.inbox.page(rule.by, 10, None)).items
    assert asked.approval == listed


# Events


EVENTS: tuple[type[Any], ...] = get_args(get_args(Event)[0])


@pytest.mark.parametrize("kind", EVENTS, ids=lambda kind: kind.__name__)
async def test_every_field_of_an_event_is_read_as_it_was_written(
    world: JournalBench, kind: type[Any]
) -> None:
    log = await world.taken()
    event = filled(kind, seq=1, run_id=log.snapshot.meta.id)
    log.emit(event)
    await log.flush()
    [read] = await world.events(log.snapshot.meta.id)
    assert {p for p in lost(event, read) if p.rpartition(".")[2] not in NOT_IN_JSON} == set()

"""Decisions about calls that wait: the first one wins, and is in the audit with the same transaction."""

import secrets

from layover.adapters.journal.audit import Audit
from layover.adapters.journal.codec import Bodies
from layover.adapters.journal.events import EventLog
from layover.adapters.journal.table import (
    Action,
    Condition,
    Equals,
    Missing,
    Table,
    TransactionFailed,
    Update,
    all_of,
)
from layover.clock import rfc3339
from layover.errors import DecisionAlreadyMade
from layover.keys import META, Keys
from layover.ports import Clock
from layover.values.audit import AuditRow
from layover.values.event import Event
from layover.values.run import CallRecord, CallState, Decision, RunMeta, Status


class Decisions:
    """Conditional writes on behalf of whoever decides, never of a run's own writer."""

    def __init__(self, table: Table, bodies: Bodies, clock: Clock, audit: Audit) -> None:
        self._table = table
        self._bodies = bodies
        self._clock = clock
        self._audit = audit

    async def decide(
        self, run: RunMeta, call: CallRecord, decision: Decision, events: tuple[Event, ...]
    ) -> None:
        """Record a decision with its events."""
        keys, now = Keys(run.owner), rfc3339(self._clock.now())
        packed = await self._bodies.pack_beside(keys, run.id, decision.model_dump_json())
        settles = Update(
            keys.run(run.id),
            call.key,
            set={"decision": packed, "gsi1pk": None, "gsi1sk": None},
            when=waits(call),
        )
        meta = Update(
            keys.run(run.id),
            META,
            set={"updated_at": now, "gsi2sk": now},
            include={"decided": call.key},
            exclude={"waiting": call.key},
            when=Equals("status", Status.RUNNING.value),
        )
        row = await self._audit.put(AuditRow.of(run, call, decision))
        try:
            await self._write(keys, run.id, [settles, meta, row], events)
        except TransactionFailed as failure:
            told = "the call is decided already, or does not wait"
            raise DecisionAlreadyMade(told, run_id=run.id) from failure

    async def _write(
        self, keys: Keys, run_id: str, facts: list[Action], events: tuple[Event, ...]
    ) -> None:
        """The facts, with their events at the end of the run's log. Raises TransactionFailed."""
        log = EventLog(self._table, self._bodies, keys, run_id)
        body = await log.body(list(events))
        while True:
            next_seq, closed = await log.tail()
            if closed:
                raise DecisionAlreadyMade("the run is over", run_id=run_id)
            try:
                # A batch without events would hold the number of the next one for ever.
                told = [log.batch(body, next_seq)] if events else []
                return await self._table.transact([*facts, *told], secrets.token_hex(16))
            except TransactionFailed as failure:
                if set(failure.failed) != {len(facts)}:
                    raise


def waits(call: CallRecord) -> Condition:
    """The call waits undecided, as whoever decides has seen it."""
    return all_of(
        Equals("state", CallState.WAITING.value),
        Equals("attempt", call.attempt),
        Missing("decision"),
    )

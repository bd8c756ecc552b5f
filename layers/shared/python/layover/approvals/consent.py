"""The end of the waits for a connection: its user has consented, and the calls that waited go on."""

import logging
from collections.abc import Mapping

from layover.approvals.decide import record_decision
from layover.declare.registry import connection_named
from layover.errors import DecisionError
from layover.runtime import Runtime
from layover.values.grant import Grant
from layover.values.page import every_item
from layover.values.runs.run import (
    SYSTEM,
    CallRecord,
    CallState,
    Decision,
    DecisionKind,
    RunMeta,
    SuspensionKind,
    Via,
)

_log = logging.getLogger("layover")
_PAGE = 100


async def go_on_if_connected(runtime: Runtime, run: RunMeta, call: CallRecord) -> None:
    """Let a call go on that began to wait while its user consented: whoever kept the grant could not see it
    waiting."""
    if call.suspension is None or call.suspension.kind is not SuspensionKind.CONNECT:
        return
    name, scopes = _wants(call.suspension.payload)
    grant = await runtime.connections.grants.get(run.owner, name)
    connection = connection_named(runtime.agents().values(), name)
    if grant is None or connection is None or grant.needs_consent(connection.service, scopes):
        return
    now = runtime.clock.now()
    decision = Decision(kind=DecisionKind.CONNECTED, decided_by=SYSTEM, via=Via.SYSTEM, at=now)
    await _record(runtime, run, call, decision)


async def go_on(
    runtime: Runtime,
    owner: str,
    grant: Grant,
    decision: Decision,
) -> None:
    """Let the owner's calls go on that waited for this grant, in all runs."""
    decisions = runtime.journal.decisions
    async for waiting in every_item(lambda c: decisions.page_pending(owner, None, _PAGE, c)):
        if waiting.kind is not SuspensionKind.CONNECT:
            continue
        name, needs = _wants(waiting.payload)
        if name == grant.connection and set(needs) <= set(grant.scopes):
            await _decide(runtime, owner, waiting.run_id, waiting.tool_call_id, decision)


async def _decide(
    runtime: Runtime, owner: str, run_id: str, tool_call_id: str, decision: Decision
) -> None:
    snapshot = await runtime.journal.runs.snapshot(owner, run_id)
    if snapshot is None or snapshot.meta.status.over:
        return
    for call in snapshot.calls:
        is_it = call.tool_call_id == tool_call_id and call.state is CallState.WAITING
        if is_it and call.undecided:
            await _record(runtime, snapshot.meta, call, decision)


async def _record(runtime: Runtime, run: RunMeta, call: CallRecord, decision: Decision) -> None:
    try:
        await record_decision(runtime, run, call, decision)
    except DecisionError:
        _log.info("a decision came first", extra={"run_id": run.id})


def _wants(payload: Mapping[str, object]) -> tuple[str, tuple[str, ...]]:
    """Return the connection that a call waits for, and the scopes that it needs."""
    scopes = payload.get("scopes")
    words = scopes if isinstance(scopes, list) else []
    return str(payload.get("connection", "")), tuple(str(each) for each in words)

"""Calls that wait for a person, and what persons decide about them."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from layover.errors import (
    DecisionAlreadyMade,
    DecisionInvalid,
    DefinitionError,
    NotFound,
    RetryableError,
    TooLarge,
)
from layover.ports import Runtime
from layover.services.cursors import seal, unseal_one
from layover.services.runs import snapshot_of
from layover.services.schema_errors import schema_errors
from layover.services.text import cleaned, json_size
from layover.services.views import run_view
from layover.services.waiting import expired
from layover.values.event import ToolCallDecided
from layover.values.page import Page
from layover.values.run import (
    BUDGET_TOOL,
    CallRecord,
    CallState,
    Decision,
    DecisionKind,
    OpenApproval,
    Run,
    RunSnapshot,
    Suspension,
    SuspensionKind,
)

if TYPE_CHECKING:
    from layover.declare.agent import AnyTool

LONGEST_REASON = 10_000
"""Characters of why somebody decided so, through the API or a callback."""
MAX_DECISION = 1024 * 1024
"""Bytes of a decision as JSON, as of a run's input."""
_CURSOR = "approvals"
_log = logging.getLogger("layover")


class Verdict(StrEnum):
    """What a person can say."""

    APPROVE = "approve"
    DENY = "deny"
    RESUME = "resume"


_ACCEPTS = {
    SuspensionKind.APPROVAL: frozenset({Verdict.APPROVE, Verdict.DENY}),
    SuspensionKind.INPUT: frozenset({Verdict.RESUME}),
}
_DECIDES = {
    Verdict.APPROVE: DecisionKind.APPROVED,
    Verdict.DENY: DecisionKind.DENIED,
    Verdict.RESUME: DecisionKind.RESUMED,
}


@dataclass(frozen=True)
class Decide:
    """What is decided. `attempt`: the suspension that was looked at; another one refuses it."""

    verdict: Verdict
    args: dict[str, Any] | None = None
    reason: str | None = None
    data: Any = None
    attempt: int | None = None


async def list_approvals(
    runtime: Runtime, owner: str, thread_id: str | None, limit: int, cursor: str | None
) -> Page[OpenApproval]:
    """Calls that wait undecided over all of the owner's runs, oldest first. Never needs Postgres.

    Raises NotFound for a thread that is not there."""
    if thread_id is not None and not await _is_there(runtime, owner, thread_id):
        raise NotFound("there is no such thread", thread_id=thread_id)
    start = unseal_one(_CURSOR, cursor)
    page = await runtime.journal.approvals(owner, thread_id, limit, start)
    threads = sorted({a.thread_id for a in page.items})
    there = await asyncio.gather(*(_is_there(runtime, owner, t) for t in threads))
    kept = {thread for thread, is_there in zip(threads, there, strict=True) if is_there}
    items = tuple(a for a in page.items if a.thread_id in kept)
    return Page(items=items, next_cursor=seal(_CURSOR, page.next_cursor))


async def decide(
    runtime: Runtime, owner: str, run_id: str, tool_call_id: str, request: Decide
) -> Run:
    """Record the decision (the first one wins) and wake the call.

    Raises NotFound (run or call), DecisionAlreadyMade (decided, settled, expired, not executed yet,
    another attempt), DecisionInvalid (the kind or the data does not fit: the call waits as before)."""
    if json_size([request.args, request.data, request.reason]) > MAX_DECISION:
        raise TooLarge(f"a decision is at most {MAX_DECISION} bytes of JSON")
    # Cleaned first: what is checked is what is stored, and what the tool is given.
    request = _cleaned(request)
    snapshot = await snapshot_of(runtime, owner, run_id)
    call = _find(snapshot, tool_call_id)
    suspension = await _check_open(runtime, owner, snapshot, call, request)
    _check_fits(runtime, snapshot, call, suspension, request)
    decision = Decision(
        kind=_DECIDES[request.verdict],
        decided_by=owner,
        at=runtime.clock.now(),
        args=request.args,
        reason=request.reason,
        data=request.data,
    )
    decided = await _record(runtime, owner, call, decision)
    return run_view(_with(snapshot, decided))


def _cleaned(request: Decide) -> Decide:
    return replace(
        request,
        args=cleaned(request.args),
        reason=cleaned(request.reason),
        data=cleaned(request.data),
    )


async def _record(runtime: Runtime, owner: str, call: CallRecord, decision: Decision) -> CallRecord:
    event = ToolCallDecided(
        at=decision.at,
        tool_call_id=call.tool_call_id,
        decision=decision.kind,
        decided_by=decision.decided_by,
    )
    try:
        decided = await runtime.journal.decide(
            owner, call.run_id, call.key, call.attempt, decision, event
        )
    except DecisionAlreadyMade:
        await _wake_again(runtime, owner, call)
        raise
    await _wake(runtime, decided.call, decided.token)
    return decided.call


async def _check_open(
    runtime: Runtime, owner: str, snapshot: RunSnapshot, call: CallRecord, request: Decide
) -> Suspension:
    """The suspension that the decision is about, if the call waits for one."""
    if snapshot.meta.status.over:
        raise _refused(call, "the run is over")
    if call.state is not CallState.WAITING or call.suspension is None:
        raise _refused(call, "the call does not wait")
    if call.decision is not None:
        await _wake(runtime, call, call.token)
        raise _refused(call, f"the call was {call.decision.kind.value} already")
    if expired(call, runtime.clock.now()):
        raise _refused(call, "the call has expired")
    if request.attempt is not None and request.attempt != call.attempt:
        raise _refused(call, f"attempt {call.attempt} of the call waits, not {request.attempt}")
    return call.suspension


def _check_fits(
    runtime: Runtime,
    snapshot: RunSnapshot,
    call: CallRecord,
    suspension: Suspension,
    request: Decide,
) -> None:
    if request.verdict not in _ACCEPTS[suspension.kind]:
        allowed = " or ".join(sorted(_ACCEPTS[suspension.kind]))
        told = f"a call that waits for {suspension.kind.value} takes {allowed}"
        raise DecisionInvalid(
            told,
            [{"loc": ["path"], "msg": told, "type": "decision_kind"}],
            run_id=call.run_id,
            tool_call_id=call.tool_call_id,
        )
    if request.verdict is Verdict.RESUME:
        check_data(runtime, snapshot.meta.agent, call, request.data)
    elif request.args is not None:
        check_args(runtime, snapshot.meta.agent, call.tool_name, request.args)


def check_data(runtime: Runtime, agent_name: str, call: CallRecord, data: Any) -> None:
    """Raises DecisionInvalid where `data` does not satisfy the schema that the call was suspended with,
    or the type behind it, which may want more than a schema can say."""
    from layover.declare.render import jsonable
    from layover.declare.tool import Tool

    assert call.suspension is not None
    schema = call.suspension.resume_schema
    _check_schema(schema, data)
    tool = _tool(runtime, agent_name, call.tool_name)
    # Data for new code that asks for other data could never fit both, and the call would wait for
    # ever: the model is told when the call is settled (BEHAVIOUR 4.9).
    if isinstance(tool, Tool) and tool.suspends and jsonable(tool.resume_schema) == schema:
        told = "the data does not fit what the call waits for"
        _check_type(tool.parse_resume, data, "data", told)


def _check_schema(schema: dict[str, Any], data: Any) -> None:
    errors = schema_errors(schema, data)
    if errors:
        raise DecisionInvalid("the data does not fit what the call waits for", errors)


def check_args(runtime: Runtime, agent_name: str, tool_name: str, args: dict[str, Any]) -> None:
    """Raises DecisionInvalid where edited arguments do not fit the tool. A tool that is gone takes
    anything: the model is told that it was not found (BEHAVIOUR 4.9)."""
    if tool_name == BUDGET_TOOL:
        return _check_limits(args)
    tool = _tool(runtime, agent_name, tool_name)
    if tool is not None:
        _check_type(tool.validate, args, "args", "the arguments do not fit the tool")
    return None


def _tool(runtime: Runtime, agent_name: str, name: str) -> "AnyTool | None":
    agent = runtime.agents().get(agent_name)
    return agent.tool(name) if agent else None


def _check_type(parse: Callable[[Any], Any], value: Any, field: str, told: str) -> None:
    """Raises DecisionInvalid where an author's type refuses the value."""
    from pydantic import ValidationError

    try:
        parse(value)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        errors = [
            {"loc": ["body", field, *e["loc"]], "msg": e["msg"], "type": e["type"]} for e in found
        ]
        raise DecisionInvalid(told, errors) from None
    except Exception as error:  # an author's validator may raise anything
        told = f"{told}: {type(error).__name__}"
        wrong = {"loc": ["body", field], "msg": told, "type": type(error).__name__}
        raise DecisionInvalid(told, [wrong]) from None


def _check_limits(args: dict[str, Any]) -> None:
    from layover.declare.agent import Limits

    try:
        Limits.from_args(args)
    except DefinitionError as error:
        wrong = {"loc": ["body", "args"], "msg": error.message, "type": "limits"}
        raise DecisionInvalid(error.message, [wrong]) from None


def _find(snapshot: RunSnapshot, tool_call_id: str) -> CallRecord:
    """The call's record. One that is planned has none: it exists, but nothing waits."""
    ids = {"run_id": snapshot.meta.id, "tool_call_id": tool_call_id}
    for call in snapshot.calls:
        if call.tool_call_id == tool_call_id:
            return call
    if any(slot.tool_call_id == tool_call_id for s in snapshot.steps for slot in s.slots):
        raise DecisionAlreadyMade("the call is not executed yet", **ids)
    raise NotFound("there is no such call in this run", **ids)


def _refused(call: CallRecord, why: str) -> DecisionAlreadyMade:
    return DecisionAlreadyMade(why, run_id=call.run_id, tool_call_id=call.tool_call_id)


def _with(snapshot: RunSnapshot, decided: CallRecord) -> RunSnapshot:
    """The snapshot after the decision, without reading it again."""
    waiting = snapshot.meta.waiting - {decided.key}
    calls = tuple(decided if c.key == decided.key else c for c in snapshot.calls)
    meta = snapshot.meta.model_copy(update={"waiting": waiting})
    return snapshot.model_copy(update={"meta": meta, "calls": calls})


async def _wake_again(runtime: Runtime, owner: str, call: CallRecord) -> None:
    """The winner may have died between its decision and its wake."""
    now = await runtime.journal.call(owner, call.run_id, call.key)
    if now is not None and now.state is CallState.WAITING and now.decision is not None:
        await _wake(runtime, now, now.token)


async def _wake(runtime: Runtime, call: CallRecord, token: str | None) -> None:
    """Best effort: the decision stands, and the sweeper wakes what is decided and not settled."""
    if token is None:
        return
    try:
        await runtime.callbacks.wake(token)
    except RetryableError as error:
        _log.warning(
            "a decided call waits for the sweeper",
            extra={"run_id": call.run_id, "cause": type(error).__name__},
        )


async def _is_there(runtime: Runtime, owner: str, thread_id: str) -> bool:
    head = await runtime.journal.thread(owner, thread_id)
    return head is not None and not head.deleted

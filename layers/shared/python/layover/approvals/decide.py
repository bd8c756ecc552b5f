"""Decisions and votes of people about calls that wait for them."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from layover.approvals.approvers import (
    edit_of,
    has_voted,
    is_enough,
    needs_quorum,
    votes_with,
)
from layover.approvals.bus import publish_decision, publish_vote
from layover.approvals.checks import check_args, check_data, check_reason
from layover.approvals.open_call import check_open, find_call, view_for, with_call
from layover.approvals.outbox import wake
from layover.errors import (
    DecisionAlreadyMade,
    DecisionInvalid,
    LayoverError,
    RequestError,
    RetryableError,
    TooLarge,
)
from layover.ports import StaleCall
from layover.runtime import Runtime
from layover.values.base import compact_json
from layover.values.decision import Via, WakeUp
from layover.values.deployment.access import Actor
from layover.values.runs.event import ToolCallApproval, ToolCallDecided
from layover.values.runs.run import (
    CallRecord,
    CallState,
    Decision,
    DecisionKind,
    RunMeta,
    RunSnapshot,
    Suspension,
    SuspensionKind,
)
from layover.values.runs.views import Run, RunGlimpse, VoteCount, VotedGlimpse, VotedRun
from layover.values.text import json_size, sanitise

MAX_DECISION = 1024 * 1024
"""Bytes of a decision as JSON, the same as for a run's input."""
MAX_RUNS_AT_ONCE = 8
"""Runs whose calls are decided side by side, when one request decides many."""


class Verdict(StrEnum):
    """A person's verdict."""

    APPROVE = "approve"
    DENY = "deny"
    RESUME = "resume"


ACCEPTS = {
    SuspensionKind.APPROVAL: frozenset({Verdict.APPROVE, Verdict.DENY}),
    SuspensionKind.INPUT: frozenset({Verdict.RESUME, Verdict.DENY}),
    # Only a consent lets it go on (`consent.bring_consent`).
    SuspensionKind.CONNECT: frozenset({Verdict.DENY}),
}
"""The verdicts that a call takes, by what it waits for."""
_DECIDES = {
    Verdict.APPROVE: DecisionKind.APPROVED,
    Verdict.DENY: DecisionKind.DENIED,
    Verdict.RESUME: DecisionKind.RESUMED,
}


@dataclass(frozen=True)
class DecisionRequest:
    """A request to decide a call. `attempt`: the suspension that the decider saw. The request is refused if
    the call has since reached another."""

    verdict: Verdict
    args: dict[str, Any] | None = None
    reason: str | None = None
    data: Any = None
    attempt: int | None = None
    via: Via = Via.API


@dataclass(frozen=True)
class DecisionOutcome:
    """The answer to a decision: the run, or an approver's view of another's run, both with the votes if the
    call takes several. `again`: the actor had already made the same decision."""

    run: Run | RunGlimpse
    again: bool = False


async def decide(
    runtime: Runtime, actor: Actor, run_id: str, tool_call_id: str, request: DecisionRequest
) -> DecisionOutcome:
    """Record the decision (the first one wins) and wake the call; or record the vote, if the call needs
    several. Repeating a decision as the same actor changes nothing, however late it arrives. Raises NotFound
    (run or call, also for a caller that may know of neither), NotAnApprover (the owner, if others decide),
    DecisionAlreadyMade (decided, settled, expired, not executed yet, another attempt), DecisionInvalid (the
    kind or the data does not fit: the call goes on waiting)."""
    if json_size([request.args, request.data, request.reason]) > MAX_DECISION:
        raise TooLarge(f"a decision is at most {MAX_DECISION} bytes of JSON")
    # Cleaned first, because the checks have to see the data as it is stored and given to the tool.
    request = replace(
        request,
        args=sanitise(request.args),
        reason=sanitise(request.reason),
        data=sanitise(request.data),
    )
    while True:
        try:
            return await _decide_once(runtime, actor, run_id, tool_call_id, request)
        except StaleCall:
            # Another request has voted in the meantime, say. Of any number of writers, one always gets
            # through.
            continue


async def decide_all(
    runtime: Runtime, actor: Actor, requests: Sequence[tuple[str, str, DecisionRequest]]
) -> list[DecisionOutcome | LayoverError]:
    """Make several decisions, each `(run_id, tool_call_id, request)` as if it came by itself. Return the
    outcome of each, in order. Raises errors that no caller could have caused, after all were tried: a request
    that is repeated then changes nothing that was recorded."""
    results: dict[int, DecisionOutcome | LayoverError] = {}
    room = asyncio.Semaphore(MAX_RUNS_AT_ONCE)

    async def decide_run(numbers: Sequence[int]) -> None:
        # One after another: the decisions of a run write the same record and the end of the same log.
        for n in numbers:
            async with room:
                try:
                    results[n] = await decide(runtime, actor, *requests[n])
                except (RequestError, RetryableError) as error:
                    results[n] = error

    by_run: dict[str, list[int]] = {}
    for n, (run_id, _, _) in enumerate(requests):
        by_run.setdefault(run_id, []).append(n)
    work = (decide_run(numbers) for numbers in by_run.values())
    for failure in await asyncio.gather(*work, return_exceptions=True):
        if isinstance(failure, BaseException):
            raise failure
    return [results[n] for n in range(len(requests))]


async def _decide_once(
    runtime: Runtime, actor: Actor, run_id: str, tool_call_id: str, request: DecisionRequest
) -> DecisionOutcome:
    snapshot, call = await find_call(runtime, actor, run_id, tool_call_id)
    decision = Decision(
        kind=_DECIDES[request.verdict],
        decided_by=actor.sub,
        on_behalf_of=actor.on_behalf_of,
        via=request.via,
        at=runtime.clock.now(),
        args=request.args,
        reason=request.reason,
        data=request.data,
    )
    # Before any check of the call: a repetition gets the answer that the decision got, whatever has happened
    # to the call and the run since.
    if _repeats(call, request, decision):
        await _tell_again(runtime, snapshot.meta, call)
        return DecisionOutcome(_view(runtime, actor, snapshot, call, request), again=True)
    if not snapshot.meta.status.over:
        await _wake_waiting(runtime, snapshot.meta, call)
    suspension = check_open(runtime, snapshot, call, request.attempt)
    exact_args = _check_fits(runtime, snapshot, call, suspension, request)
    decision = decision.model_copy(update={"exact_args": exact_args})
    try:
        # The write's condition is that the call still waits as read. No lock is held from the read to the
        # write: of two decisions that pass the checks, the second to be written fails here.
        call = await _record(runtime, actor, snapshot, call, decision)
    except DecisionAlreadyMade:
        # The decision that came first may be this one: the same request may have been sent twice at once.
        snapshot, call = await find_call(runtime, actor, run_id, tool_call_id)
        await _wake_waiting(runtime, snapshot.meta, call)
        if not _repeats(call, request, decision):
            raise
        return DecisionOutcome(_view(runtime, actor, snapshot, call, request), again=True)
    return DecisionOutcome(_view(runtime, actor, with_call(snapshot, call), call, request))


def _repeats(call: CallRecord, request: DecisionRequest, decision: Decision) -> bool:
    """Return whether the same actor decided the request's attempt in the same way before."""
    attempt = call.attempt if request.attempt is None else request.attempt
    if attempt == call.attempt and has_voted(call, decision):
        return True
    previous = call.decision_on(attempt)
    return previous is not None and _content(previous) == _content(decision)


def _content(decision: Decision) -> str:
    """Return the actor and the decision, without the time, the way it came and what the code made of it."""
    return compact_json(decision.model_dump(mode="json", exclude={"at", "exact_args", "via"}))


def _check_fits(
    runtime: Runtime,
    snapshot: RunSnapshot,
    call: CallRecord,
    suspension: Suspension,
    request: DecisionRequest,
) -> dict[str, Any] | None:
    """Return edited arguments as the tool gets them. Raises DecisionInvalid."""
    if request.verdict not in ACCEPTS[suspension.kind]:
        verdicts = " or ".join(sorted(ACCEPTS[suspension.kind]))
        message = f"a call that waits for {suspension.kind.value} takes {verdicts}"
        raise DecisionInvalid(
            message,
            [{"loc": ["path"], "msg": message, "type": "decision_kind"}],
            run_id=call.run_id,
            tool_call_id=call.tool_call_id,
        )
    check_reason(call, request.reason)
    if request.verdict is Verdict.RESUME:
        check_data(runtime, snapshot.meta.agent, call, request.data)
    elif request.args is not None:
        return check_args(runtime, snapshot.meta.agent, call, request.args)
    return None


async def _record(
    runtime: Runtime, actor: Actor, snapshot: RunSnapshot, call: CallRecord, decision: Decision
) -> CallRecord:
    """Return the call with the decision, or with one more vote."""
    run, journal, votes = snapshot.meta, runtime.journal, None
    if needs_quorum(actor, call, decision):
        votes = votes_with(call, decision)
        if not is_enough(call, votes):
            vote_event = ToolCallApproval.of(call, votes[-1], edit_of(call, votes[-1]))
            voted_call = await journal.decisions.vote(run, call, votes, decision, vote_event)
            await publish_vote(runtime, run, voted_call)
            return voted_call
    event = ToolCallDecided.of(call, decision)
    decided_call = await journal.decisions.decide(run, call, decision, event, votes=votes)
    # After the write, because the branch that wakes up reads the decision from the record.
    await tell_and_wake(runtime, run, decided_call)
    return decided_call


async def record_withdrawal(
    runtime: Runtime,
    actor: Actor,
    snapshot: RunSnapshot,
    call: CallRecord,
    reason: str | None = None,
    *,
    tells: bool = True,
) -> None:
    """Decide that nobody is asked about a waiting call any more: its requester has written again, or taken
    back what led to it (`reason`). A decision that came first stands. `tells`: False: the caller ends the
    run, which tells of it, or does both later."""
    await _decline(
        runtime,
        actor,
        snapshot,
        call=call,
        kind=DecisionKind.WITHDRAWN,
        reason=reason,
        tells=tells,
    )


async def record_denial(
    runtime: Runtime, actor: Actor, snapshot: RunSnapshot, call: CallRecord, reason: str
) -> bool:
    """Deny a waiting call, whatever it waits for and whoever else decides it: the actor is an operator, which
    the caller has checked. Return False if a decision came first: it stands."""
    return await _decline(
        runtime, actor, snapshot, call=call, kind=DecisionKind.DENIED, reason=reason
    )


async def _decline(
    runtime: Runtime,
    actor: Actor,
    snapshot: RunSnapshot,
    call: CallRecord,
    kind: DecisionKind,
    reason: str | None = None,
    tells: bool = True,
) -> bool:
    decision = Decision(
        kind=kind,
        decided_by=actor.sub,
        on_behalf_of=actor.on_behalf_of,
        at=runtime.clock.now(),
        reason=reason,
    )
    try:
        await record_decision(runtime, snapshot.meta, call, decision, tells=tells)
    except DecisionAlreadyMade:
        return False
    return True


async def record_decision(
    runtime: Runtime, run: RunMeta, call: CallRecord, decision: Decision, *, tells: bool = True
) -> None:
    """Record a decision about the attempt that was read, whatever else has become of its wait since, and wake
    the call, unless the caller does that (`tells`). Raises DecisionAlreadyMade."""
    now: CallRecord | None = call
    while now is not None and now.attempt == call.attempt:
        event = ToolCallDecided.of(now, decision)
        try:
            decided_call = await runtime.journal.decisions.decide(run, now, decision, event)
        except StaleCall:
            now = await runtime.journal.runs.call(run.owner, run.id, call.key)
        else:
            return await tell_and_wake(runtime, run, decided_call) if tells else None
    raise DecisionAlreadyMade("the call waits for another decision", run_id=run.id)


async def _wake_waiting(runtime: Runtime, run: RunMeta, call: CallRecord) -> None:
    """Publish the decision and wake the call once more: the decider may have died before that."""
    if call.state is CallState.WAITING and call.decision is not None:
        await tell_and_wake(runtime, run, call)


async def _tell_again(runtime: Runtime, run: RunMeta, call: CallRecord) -> None:
    """Finish what a decider or a voter may have died before, who now repeats the request."""
    await _wake_waiting(runtime, run, call)
    if call.undecided and call.votes:
        await publish_vote(runtime, run, call)


async def tell_and_wake(runtime: Runtime, run: RunMeta, call: CallRecord) -> None:
    """Publish the decision of the call, then wake it. The run owes both: what fails here, or is cut short by
    a death, the sweeper does. A bus that is away does not hold up the call."""
    news = WakeUp.DECIDED if await publish_decision(runtime, run, call) else WakeUp.UNTOLD
    # A branch that has no token yet looks for a decision when it stores one, and wakes itself.
    if call.token is not None:
        await wake(runtime, call.token, run.id, news)


def _view(
    runtime: Runtime,
    actor: Actor,
    snapshot: RunSnapshot,
    call: CallRecord,
    request: DecisionRequest,
) -> Run | RunGlimpse:
    run = view_for(runtime, actor, snapshot)
    rule = call.rule
    # The votes of an earlier attempt are not kept: its repeated decision is answered without them.
    if rule is None or rule.quorum <= 1 or request.attempt not in (None, call.attempt):
        return run
    votes = VoteCount(given=call.votes, quorum=rule.quorum, settled=not call.undecided)
    view = VotedRun if isinstance(run, Run) else VotedGlimpse
    return view(**vars(run), **vars(votes))

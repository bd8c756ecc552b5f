"""The right to decide a call, and the quorum."""

from typing import Any

from layover.errors import NotAnApprover, NotFound
from layover.records.runs import snapshot_of
from layover.runtime import Runtime
from layover.values.base import compact_json
from layover.values.decision import ApprovalRule, Decision, DecisionKind, Vote
from layover.values.deployment.access import Actor
from layover.values.runs.run import CallRecord, RunSnapshot

_NO_RUN = "there is no such run"


def may_decide(actor: Actor, owner: str, rule: ApprovalRule | None) -> bool:
    """Return whether the actor may decide a call of this owner. A backend that acts for the owner counts as
    the owner, and so does an owner who acts for another user."""
    is_owner = owner in (actor.sub, actor.owner)
    if rule is None or actor.in_process:
        return actor.owner == owner
    return not actor.groups.isdisjoint(rule.by) and (rule.requester or not is_owner)


def check_right(actor: Actor, owner: str, call: CallRecord) -> None:
    """Raise NotAnApprover for the run's owner if other people decide."""
    rule = call.rule
    if rule is None or may_decide(actor, owner, rule):
        return
    who = "a member of " + " or ".join(rule.by)
    message = f"this call waits for {who}" + ("" if rule.requester else " who does not own the run")
    raise NotAnApprover(message, rule.by, run_id=call.run_id, tool_call_id=call.tool_call_id)


async def foreign_run(
    runtime: Runtime, actor: Actor, run_id: str, *, operates: bool = False
) -> RunSnapshot:
    """Return a run that is not the actor's own and that has asked people other than its owner. A caller must
    check `may_decide`, or that the actor is an operator (`operates`), before it shows any of the run. Raises
    NotFound."""
    may_be = operates or bool(actor.groups)
    owner = await runtime.journal.inbox.owner_of(run_id) if may_be else None
    if owner is None or owner == actor.owner:
        raise NotFound(_NO_RUN, run_id=run_id)
    return await snapshot_of(runtime, owner, run_id)


def votes_with(call: CallRecord, decision: Decision) -> tuple[Vote, ...]:
    """Return the newest vote of each person, this one included."""
    vote = Vote(
        by=decision.decided_by,
        on_behalf_of=decision.on_behalf_of,
        at=decision.at,
        args=decision.args,
        exact_args=decision.exact_args,
        reason=decision.reason,
    )
    return (*(v for v in call.votes if v.person != vote.person), vote)


def needs_quorum(actor: Actor, call: CallRecord, decision: Decision) -> bool:
    """Return whether the call takes more than one approval of this actor's kind."""
    rule = call.rule
    approves = decision.kind is DecisionKind.APPROVED
    return rule is not None and rule.quorum > 1 and approves and not actor.in_process


def is_enough(call: CallRecord, votes: tuple[Vote, ...]) -> bool:
    """Return whether the quorum approves the arguments of the newest vote."""
    rule = call.rule
    args = edit_of(call, votes[-1])
    approvals = sum(compact_json(edit_of(call, vote)) == compact_json(args) for vote in votes)
    return rule is None or approvals >= rule.quorum


def edit_of(call: CallRecord, vote: Vote) -> dict[str, Any] | None:
    """Return the arguments that a vote approves, as the tool gets them; None: those of the request."""
    edited = vote.exact_args
    is_same = edited is None or compact_json(edited) == compact_json(call.exact_args)
    return None if is_same else edited


def has_voted(call: CallRecord, decision: Decision) -> bool:
    """Return whether the actor's newest vote is identical to this decision."""
    return decision.kind is DecisionKind.APPROVED and any(
        (v.by, v.on_behalf_of, v.reason)
        == (decision.decided_by, decision.on_behalf_of, decision.reason)
        and compact_json(v.args) == compact_json(decision.args)
        for v in call.votes
    )


def has_approved(call: CallRecord, person: str) -> bool:
    """Return whether a person's approval counts, and the call takes more."""
    return any(vote.person == person for vote in call.votes)

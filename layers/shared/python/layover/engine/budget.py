"""Budgets of a run: its use against its limits, and the call that asks a person for more. Pure: use is the
sum of the journaled steps, and an extension is a settled call."""

from collections.abc import Callable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from layover.declare.limits import Limits
from layover.declare.tools.approval import APPROVAL_SCHEMA
from layover.engine.state import RunState
from layover.errors import RunFailed
from layover.keys import call_key
from layover.values.runs.run import (
    BUDGET_TOOL,
    CallRecord,
    CallState,
    DecisionKind,
    Suspension,
    SuspensionKind,
)


def missing_budget(
    state: RunState, declared: Limits | None, upcoming_calls: int, now: Callable[[], datetime]
) -> tuple[CallRecord, Suspension] | None:
    """Return the call that asks a person for a larger budget, and its request; None: the limits of the run
    (or of the sub-agent whose `state` it is) leave room for what comes next. Raises RunFailed if the limits
    end the run, or if a person refused to extend them."""
    limits, step = _limits(state, declared), state.step
    if limits is None or step is None:
        return None
    used = _used(state)
    exceeded_limits = _reached_limits(limits, used, upcoming_calls)
    if not exceeded_limits:
        return None
    if declared is not None and declared.on_reached == "fail":
        reason = f"the run's limit of {', '.join(exceeded_limits)} is reached"
        raise RunFailed(reason, type="LimitReached")
    args = limits.as_args()
    suspension = Suspension(
        kind=SuspensionKind.APPROVAL,
        payload={"type": "approval", "tool_name": BUDGET_TOOL, "args": args, "used": used},
        resume_schema=APPROVAL_SCHEMA,
        requested_at=now(),
        args=args,
    )
    return state.new_call(step.key, "budget", BUDGET_TOOL, args=args), suspension


def decided_budget(call: CallRecord, declared: Limits | None, now: datetime) -> CallRecord:
    """Return a decided call as it is settled: its result has the limits that hold from now on, or the
    refusal."""
    assert call.decision is not None
    if call.decision.kind is DecisionKind.APPROVED:
        result: dict[str, Any] = {"limits": _extended(call, declared).as_args()}
    else:
        result = {"declined": True, "reason": call.decision.reason}
    return call.model_copy(update={"result": result, "settled_at": now})


def _limits(state: RunState, limits: Limits | None) -> Limits | None:
    """Return the limits as declared, or as last extended. Raises RunFailed after a refusal."""
    for call in state.budget_calls():
        if call.state is CallState.SETTLED:
            if "limits" not in call.result:
                reason = "nobody extended the run's limits"
                raise RunFailed(reason, type="LimitReached", run_id=state.meta.id)
            limits = Limits.from_args(call.result["limits"])
    return limits


def _used(state: RunState) -> dict[str, Any]:
    steps = state.all_steps()
    model_call_keys = {call_key(step.key, s.tool_call_id) for step in steps for s in step.slots}
    started_calls = [c for c in state.below() if c.state is not CallState.PLANNED]
    # The cost of the run's usage would not do: it is unknown as soon as one step's cost is.
    used = [s.counts_as for s in steps] + [r.usage for r in state.unused_replies()]
    costs = [u.cost_usd for u in used if u.cost_usd is not None]
    return {
        "tokens": sum(u.total_tokens for u in used),
        "cost_usd": float(sum(costs, Decimal(0))),
        "tool_calls": sum(c.key in model_call_keys for c in started_calls),
    }


def _extended(call: CallRecord, declared: Limits | None) -> Limits:
    """Return the limits that the approver named (null: no limit). A limit that is not named stays. An
    approval that names no limits (no args, or `{}`) adds the agent's declared limits once more."""
    assert call.decision is not None
    if call.decision.args:
        return Limits.from_args({**call.args, **call.decision.args})
    before = Limits.from_args(call.args)
    return before.plus(declared or before)


def _reached_limits(limits: Limits, used: dict[str, Any], upcoming_calls: int) -> Sequence[str]:
    """Return the names of the limits that leave no room for what comes next."""
    exceeded_limits = []
    if limits.tokens is not None and used["tokens"] >= limits.tokens:
        exceeded_limits.append("tokens")
    if limits.cost_usd is not None and used["cost_usd"] >= limits.cost_usd:
        exceeded_limits.append("cost_usd")
    if limits.tool_calls is not None and used["tool_calls"] + upcoming_calls > limits.tool_calls:
        exceeded_limits.append("tool_calls")
    return exceeded_limits

"""Budgets of a run: its use against its limits, and the call that asks a person for more. Everything is in
the journal: use is the sum of the steps, an extension is a settled call."""

import asyncio
from collections.abc import Sequence
from decimal import Decimal
from itertools import count
from typing import Any

from layover.declare.agent import Agent
from layover.declare.limits import Limits
from layover.declare.tools.approval import APPROVAL_SCHEMA
from layover.engine.frame_core import FrameCore
from layover.errors import RunFailed
from layover.keys import call_key
from layover.values.runs.event import ToolCallSuspended
from layover.values.runs.run import (
    BUDGET_TOOL,
    CallRecord,
    CallState,
    DecisionKind,
    StepRecord,
    Suspension,
    SuspensionKind,
)


class Budget:
    """The limits of one run, for one writer."""

    def __init__(self, core: FrameCore) -> None:
        self._core = core
        self._log = core.log
        self._state = core.state
        self._agent = core.agent
        self._clock = core.clock
        # Sub-agents that run side by side ask the frames above them.
        self._asking = asyncio.Lock()

    async def allows(self, step: StepRecord | None, upcoming_calls: int = 0) -> bool:
        """Return whether the run (or the sub-agent whose limits these are) may go on. On False, a call that
        waits for a larger budget has been journaled. Raises RunFailed if the limits end the run, or if a
        person refused to extend them."""
        async with self._asking:
            return await self._allows(step, upcoming_calls)

    async def _allows(self, step: StepRecord | None, upcoming_calls: int) -> bool:
        if any(c.undecided for c in self._state.budget_calls()):
            return False
        limits = self._limits()
        if limits is None or step is None:
            return True
        used = self._used()
        exceeded_limits = _reached_limits(limits, used, upcoming_calls)
        if not exceeded_limits:
            return True
        if self._agent.limits is not None and self._agent.limits.on_reached == "fail":
            raise RunFailed(
                f"the run's limit of {', '.join(exceeded_limits)} is reached", type="LimitReached"
            )
        await self._ask(step, limits, used)
        return False

    async def settle_decided(self) -> None:
        """Settle the calls whose budget was decided and that no process has settled yet."""
        for call in self._state.budget_calls():
            if call.decision and call.state is CallState.WAITING:
                await settle_budget(self._core, call)

    def _limits(self) -> Limits | None:
        """Return the limits as declared, or as last extended. Raises RunFailed after a refusal."""
        limits = self._agent.limits
        for call in self._state.budget_calls():
            if call.state is CallState.SETTLED:
                if "limits" not in call.result:
                    reason = "nobody extended the run's limits"
                    raise RunFailed(reason, type="LimitReached", run_id=self._state.meta.id)
                limits = Limits.from_args(call.result["limits"])
        return limits

    def _used(self) -> dict[str, Any]:
        steps = self._state.all_steps()
        model_call_keys = {call_key(step.key, s.tool_call_id) for step in steps for s in step.slots}
        started_calls = [c for c in self._state.below() if c.state is not CallState.PLANNED]
        # The cost of the run's usage would not do: it is unknown as soon as one step's cost is.
        used = [s.counts_as for s in steps] + [r.usage for r in self._state.unused_replies()]
        costs = [u.cost_usd for u in used if u.cost_usd is not None]
        return {
            "tokens": sum(u.total_tokens for u in used),
            "cost_usd": float(sum(costs, Decimal(0))),
            "tool_calls": sum(c.key in model_call_keys for c in started_calls),
        }

    async def _ask(self, step: StepRecord, limits: Limits, used: dict[str, Any]) -> None:
        # A provider may have given this id to one of its own calls.
        used_ids = self._state.call_ids
        call_id = next(name for n in count(1) if (name := f"budget_{n}") not in used_ids)
        now = self._clock.now()
        args = limits.as_args()
        suspension = Suspension(
            kind=SuspensionKind.APPROVAL,
            payload={"type": "approval", "tool_name": BUDGET_TOOL, "args": args, "used": used},
            resume_schema=APPROVAL_SCHEMA,
            requested_at=now,
            args=args,
        )
        call = CallRecord(
            key=call_key(step.key, call_id),
            run_id=self._state.meta.id,
            tool_call_id=call_id,
            tool_name=BUDGET_TOOL,
            args=args,
            suspension=suspension,
            agent_path=self._state.agent_path,
        )
        event = ToolCallSuspended(
            at=now,
            tool_call_id=call_id,
            tool_name=BUDGET_TOOL,
            args=args,
            kind=suspension.kind,
            payload=suspension.payload,
            resume_schema=suspension.resume_schema,
            attempt=1,
            agent_path=self._state.agent_path or (self._agent.name,),
            requested_at=now,
        )
        await self._log.suspend_calls([call], event)
        self._state.update(call.written(state=CallState.WAITING, attempt=1))


async def settle_budget(core: FrameCore, call: CallRecord) -> None:
    """Settle a decided budget call: its result has the limits that hold from now on, or the refusal."""
    assert call.decision is not None
    if call.decision.kind is DecisionKind.APPROVED:
        limits = _extended(call, core.agent)
        result: dict[str, Any] = {"limits": limits.as_args()}
    else:
        result = {"declined": True, "reason": call.decision.reason}
    settled = call.model_copy(update={"result": result, "settled_at": core.clock.now()})
    await core.log.close_call(settled)
    core.state.update(settled.written(state=CallState.SETTLED))


def _extended(call: CallRecord, agent: Agent) -> Limits:
    """Return the limits that the approver named (null: no limit). A limit that is not named stays. An
    approval that names no limits (no args, or `{}`) adds the agent's declared limits once more."""
    assert call.decision is not None
    if call.decision.args:
        return Limits.from_args({**call.args, **call.decision.args})
    before = Limits.from_args(call.args)
    return before.plus(agent.limits or before)


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

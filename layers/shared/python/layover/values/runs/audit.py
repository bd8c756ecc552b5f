"""The record of a decision that outlives runs and threads: no word of a conversation but the reason."""

import hashlib
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Self

from pydantic import Field

from layover.values.base import Json, Time, Value, compact_json, is_none
from layover.values.decision import Decision, DecisionKind, Risk, Via
from layover.values.runs.run import CallRecord, CallState, RunMeta


class AuditRow(Value):
    """One vote or decision. `settled`: the call no longer waits."""

    run_id: str
    thread_id: str
    agent: str
    owner: str
    tool_call_id: str
    tool_name: str
    decision: DecisionKind
    settled: bool
    decided_by: str
    """The caller's sub, `callback`, `system`, or `hook:NAME` of a hook that allowed the call."""
    on_behalf_of: str | None
    reason: str | None
    via: Via
    args_sha256: str
    """The hash of the arguments that the decision is about (an approver's own, if they changed them), as JSON
    in UTF-8 with sorted keys and without blanks."""
    changed: bool | None = None
    """True if these are an approver's own, and other than those that were asked for. None: the row is from
    before this was written down."""
    risk: Risk | None = Field(default=None, exclude_if=is_none)
    """The call's risk, as its tool rated it when it began to wait."""
    requested_at: Time
    decided_at: Time

    @classmethod
    def of(
        cls, run: RunMeta, call: CallRecord, decision: Decision, *, settled: bool = True
    ) -> Self:
        """Return the row of a decision about a waiting call."""
        requested_at = call.suspension.requested_at if call.suspension else decision.at
        digest = _digest(call.exact_args if decision.exact_args is None else decision.exact_args)
        return cls(
            run_id=run.id,
            thread_id=run.thread_id,
            agent=run.agent,
            owner=run.owner,
            tool_call_id=call.tool_call_id,
            tool_name=call.tool_name,
            decision=decision.kind,
            settled=settled,
            decided_by=decision.decided_by,
            on_behalf_of=decision.on_behalf_of,
            reason=decision.reason,
            via=decision.via,
            risk=call.suspension.risk if call.suspension else None,
            args_sha256=digest,
            changed=digest != _digest(call.exact_args),
            requested_at=requested_at,
            decided_at=decision.at,
        )


def rows_of_hooks(
    run: RunMeta, calls: Iterable[CallRecord], args: Mapping[str, Any], at: datetime
) -> list[AuditRow]:
    """Return a row for each call that is about to begin because a hook allowed it: the last hook that did so,
    and the arguments that the tool gets. `args`: these, by the ids of the calls."""
    rows: list[AuditRow] = []
    for call in calls:
        decisions = call.hooked.decisions if call.hooked else ()
        allows = [decision for decision in decisions if decision.decision == "allow"]
        if call.state is not CallState.PLANNED or not allows:
            continue
        decision = Decision(
            kind=DecisionKind.APPROVED,
            decided_by=f"hook:{allows[-1].hook}",
            reason=allows[-1].reason,
            via=Via.SYSTEM,
            at=at,
            exact_args=args.get(call.tool_call_id),
        )
        rows.append(AuditRow.of(run, call, decision))
    return rows


def _digest(args: Json) -> str:
    return hashlib.sha256(compact_json(args).encode("utf-8", "replace")).hexdigest()

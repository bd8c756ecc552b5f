"""Notices of one call, for tests of what people are told."""

from datetime import UTC, datetime, timedelta
from typing import Any

from layover.values.channels import Notice, NoticeKind
from layover.values.decision import Decision, DecisionKind, PendingApproval, Via
from layover.values.runs.run import SuspensionKind
from layover.values.runs.views import OpenApproval

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
ARGS = {"amount": 900.0, "to": "Nora"}
RULE = PendingApproval(by=("finance",), quorum=2)


def the_call(**fields: Any) -> OpenApproval:
    """A call that waits for two of finance."""
    usual: dict[str, Any] = {
        "tool_call_id": "call_1",
        "tool_name": "pay",
        "args": ARGS,
        "kind": SuspensionKind.APPROVAL,
        "payload": {"type": "approval", "tool_name": "pay", "args": ARGS},
        "resume_schema": {},
        "attempt": 1,
        "agent_path": ("payouts",),
        "requested_at": NOW,
        "expires_at": NOW + timedelta(days=2),
        "summary": "Pay 900.00 euros to Nora",
        "risk": "high",
        "approval": RULE,
        "run_id": "run_1",
        "thread_id": "thr_1",
        "agent": "payouts",
    }
    return OpenApproval.model_validate(usual | fields)


def the_notice(
    kind: NoticeKind = NoticeKind.REQUESTED,
    *,
    n: int = 0,
    owner: str = "Ada",
    decision: Decision | None = None,
    **call: Any,
) -> Notice:
    """What people are told about it."""
    return Notice(kind=kind, owner=owner, call=the_call(**call), n=n, decision=decision, at=NOW)


def decided(kind: DecisionKind = DecisionKind.APPROVED, **fields: Any) -> Notice:
    """The outcome, decided by Bea."""
    usual: dict[str, Any] = {"kind": kind, "decided_by": "Bea", "at": NOW, "via": Via.LINK}
    return the_notice(NoticeKind.DECIDED, decision=Decision.model_validate(usual | fields))

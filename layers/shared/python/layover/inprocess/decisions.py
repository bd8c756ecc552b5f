"""Decisions that an agent's author makes in this process, as requests."""

from typing import Any

from layover.approvals import decide as approvals
from layover.declare.schemas.render import jsonable
from layover.errors import DecisionInvalid


def resumed(data: Any) -> approvals.DecisionRequest:
    """The request of `resume`. Raises DecisionInvalid for data that is no JSON."""
    return approvals.DecisionRequest(approvals.Verdict.RESUME, data=_said(data))


def approved(args: dict[str, Any] | None, reason: str | None) -> approvals.DecisionRequest:
    """The request of `approve`. Raises DecisionInvalid likewise."""
    return approvals.DecisionRequest(approvals.Verdict.APPROVE, args=_said(args), reason=reason)


def denied(reason: str | None) -> approvals.DecisionRequest:
    """The request of `deny`."""
    return approvals.DecisionRequest(approvals.Verdict.DENY, reason=reason)


def _said(value: Any) -> Any:
    """What an author gave as a decision, in types of his own, as JSON."""
    try:
        return jsonable(value)
    except ValueError as error:
        told = f"the decision is no JSON: {error}"
        raise DecisionInvalid(told, [{"loc": [], "msg": told, "type": "no_json"}]) from error

"""Decisions that an agent's author makes in this process, as requests."""

from typing import Any

from layover.approvals import decide as approvals
from layover.declare.schemas.render import jsonable
from layover.errors import DecisionInvalid


def resume_request(data: Any) -> approvals.DecisionRequest:
    """Return the request of `resume`. Raises DecisionInvalid for data that is no JSON."""
    return approvals.DecisionRequest(approvals.Verdict.RESUME, data=_as_json(data))


def approve_request(args: dict[str, Any] | None, reason: str | None) -> approvals.DecisionRequest:
    """Return the request of `approve`. Raises DecisionInvalid likewise."""
    return approvals.DecisionRequest(approvals.Verdict.APPROVE, args=_as_json(args), reason=reason)


def deny_request(reason: str | None) -> approvals.DecisionRequest:
    """Return the request of `deny`."""
    return approvals.DecisionRequest(approvals.Verdict.DENY, reason=reason)


def _as_json(value: Any) -> Any:
    """Return an author's decision, which may have types of the author's own, as JSON."""
    try:
        return jsonable(value)
    except ValueError as error:
        problem = f"the decision is no JSON: {error}"
        raise DecisionInvalid(problem, [{"loc": [], "msg": problem, "type": "no_json"}]) from error

"""Validation of a decision against its waiting call, whichever way the decision arrived."""

from collections.abc import Callable
from typing import Any, TypeVar

from layover.approvals.schema_errors import schema_errors
from layover.errors import DecisionInvalid, DefinitionError
from layover.records.deployed import deployed_tool
from layover.runtime import Runtime
from layover.values.runs.run import BUDGET_TOOL, CallRecord

T = TypeVar("T")

MAX_REASON = 10_000
"""The most characters of a decision's reason."""


def check_reason(call: CallRecord, reason: str | None) -> None:
    """Raise DecisionInvalid if the call's approvers have to give a reason and gave none."""
    rule = call.rule
    if rule is not None and rule.reason_required and not (reason or "").strip():
        message = "a decision about this call needs a reason"
        wrong = {"loc": ["body", "reason"], "msg": message, "type": "missing"}
        raise DecisionInvalid(message, [wrong], run_id=call.run_id, tool_call_id=call.tool_call_id)


def check_data(runtime: Runtime, agent_name: str, call: CallRecord, data: Any) -> None:
    """Raise DecisionInvalid if `data` does not satisfy the schema that the call was suspended with, or the
    type behind it, which may require more than a schema can express."""
    from layover.declare.schemas.render import jsonable

    assert call.suspension is not None
    schema = call.suspension.resume_schema
    errors = schema_errors(schema, data)
    if errors:
        raise DecisionInvalid("the data does not fit what the call waits for", errors)
    tool = deployed_tool(runtime.agents, agent_name, call.agent_path, call.tool_name)
    # If new code has another schema, no data could ever fit both, and the call would wait forever. So the
    # data is accepted here, and the model reads the error when the call is settled
    # (docs/behaviour.md#long-waits).
    if tool is not None and tool.suspends and jsonable(tool.resume_schema) == schema:
        message = "the data does not fit what the call waits for"
        _check_type(tool.parse_resume, data, "data", message)


def check_args(
    runtime: Runtime, agent_name: str, call: CallRecord, args: dict[str, Any]
) -> dict[str, Any] | None:
    """Return edited arguments as the tool gets them; None if no tool says. Raise DecisionInvalid if they do
    not fit it. Any arguments are valid for a tool that no longer exists: the model reads that it was not
    found (docs/behaviour.md#long-waits)."""
    if call.tool_name == BUDGET_TOOL:
        _check_limits(args)
        return None
    tool = deployed_tool(runtime.agents, agent_name, call.agent_path, call.tool_name)
    if tool is None:
        return None
    valid = _check_type(tool.validate, args, "args", "the arguments do not fit the tool")
    return valid.as_dict()


def _check_type(parse: Callable[[Any], T], value: Any, field: str, message: str) -> T:
    """Return the value as an author's type takes it. Raise DecisionInvalid if the type refuses it."""
    from pydantic import ValidationError

    try:
        return parse(value)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False, include_input=False)
        errors = [
            {"loc": ["body", field, *e["loc"]], "msg": e["msg"], "type": e["type"]}
            for e in problems
        ]
        raise DecisionInvalid(message, errors) from None
    except Exception as error:  # an author's validator may raise anything
        message = f"{message}: {type(error).__name__}"
        wrong = {"loc": ["body", field], "msg": message, "type": type(error).__name__}
        raise DecisionInvalid(message, [wrong]) from None


def _check_limits(args: dict[str, Any]) -> None:
    from layover.declare.limits import Limits

    try:
        Limits.from_args(args)
    except DefinitionError as error:
        wrong = {"loc": ["body", "args"], "msg": error.message, "type": "limits"}
        raise DecisionInvalid(error.message, [wrong]) from None

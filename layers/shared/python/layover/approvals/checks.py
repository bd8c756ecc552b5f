"""Validation of a decision against its waiting call, whichever way the decision arrived."""

from collections.abc import Callable
from typing import Any, TypeVar

from layover.approvals.schema_errors import schema_errors
from layover.errors import DecisionInvalid, DefinitionError
from layover.records.deployed import deployed_tool, only_its_run_knows
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
) -> dict[str, Any]:
    """Return edited arguments as the tool gets them. Raise DecisionInvalid if they do not fit it, or if no
    deployed code knows the tool: nobody then knows what it would get (docs/behaviour.md#edited-arguments)."""
    if call.tool_name == BUDGET_TOOL:
        _check_limits(args)
        return args
    tool = deployed_tool(runtime.agents, agent_name, call.agent_path, call.tool_name)
    if tool is None:
        if not only_its_run_knows(runtime.agents, agent_name, call.agent_path, call.tool_name):
            raise _unknown_tool(call)
        # Exactly these words run. If the run's own code makes something else of them, the call is asked for
        # again, with what the tool would get.
        return args
    valid = _check_type(tool.validate, args, "args", "the arguments do not fit the tool")
    return valid.as_dict()


def _unknown_tool(call: CallRecord) -> DecisionInvalid:
    message = (
        f"no deployed code knows the tool {call.tool_name}, so nobody can tell what it would get: approve "
        "the call as it was asked for, deny it, or change its arguments once a deployment has the tool"
    )
    wrong = {"loc": ["body", "args"], "msg": message, "type": "unknown_tool"}
    ids = {"run_id": call.run_id, "tool_call_id": call.tool_call_id}
    return DecisionInvalid(message, [wrong], **ids)


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

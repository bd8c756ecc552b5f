"""One tool call: look it up, validate it, ask whether it needs a person, run it."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from layover.declare.connection import ConsentNeeded
from layover.declare.context import FormRequest, Retry, SuspendRequest, ToolContext
from layover.declare.schemas.render import (
    Parts,
    format_error,
    invalid_input,
    invalid_suspend_payload,
)
from layover.declare.tools.tool import AnyTool
from layover.engine.exact_calls import approval_request
from layover.engine.isolation import TimedOut, isolate
from layover.engine.outcomes import Ready, Settled, author_error, failed, not_found
from layover.ports import Clock
from layover.values.runs.run import CallRecord, Suspension, SuspensionKind


def prepare(tools: Mapping[str, AnyTool], name: str, args: Any) -> Ready | Settled:
    """Return the call's tool and validated arguments, or the error that settles it."""
    tool = tools.get(name)
    if tool is None:
        return not_found(name)
    try:
        valid = tool.validate(args)
        valid.as_dict()  # A call whose arguments cannot be shown must not run.
    except ValidationError as error:
        return failed(invalid_input(error))
    except Exception as error:  # an author's validator or serializer may raise anything
        return failed(format_error(error))
    return Ready(tool, valid)


async def approval(ready: Ready, ctx: ToolContext, now: datetime) -> Suspension | None:
    """Return the suspension of a call that a person has to approve first. Raises what a predicate raises: the
    call must not run then."""
    if not await isolate(ready.tool.requires_approval(ready.args, ctx)):
        return None
    return approval_request(ready, now)


async def run_tool(
    ready: Ready, ctx: ToolContext, call: CallRecord, clock: Clock
) -> Settled | Suspension:
    """Run the handler. Whatever it raises is a tool error (docs/behaviour.md#tool-calls)."""
    tool = ready.tool
    try:
        value = await isolate(tool.invoke(ready.args, ctx), tool.timeout, may_wait=True)
    except ConsentNeeded as needed:
        return _connect(ready, needed, call, clock.now())
    except Retry as again:
        return replace(failed(str(again)), retry=True)
    except TimedOut as late:
        return failed(f"TimeoutError: {tool.name} took longer than {late.limit:g} s")
    except Exception as error:
        return author_error(tool.name, call, error)
    if isinstance(value, SuspendRequest):
        return _suspension(ready, value, call, clock.now())
    return await shape(ready, value, call)


def _suspension(
    ready: Ready, request: SuspendRequest, call: CallRecord, now: datetime
) -> Settled | Suspension:
    tool = ready.tool
    memo = None
    try:
        if isinstance(request, FormRequest):
            payload, schema, memo = request.payload, request.schema, request.memo
        else:
            payload, schema = tool.suspension_payload(request.payload), tool.resume_schema
    except ValidationError as error:
        return failed(invalid_suspend_payload(error))
    except Exception as error:  # an author's validator or serializer may raise anything
        return author_error(tool.name, call, error)
    return Suspension(
        kind=SuspensionKind.INPUT,
        payload=payload,
        resume_schema=schema,
        requested_at=now,
        expires_at=now + tool.expires_after if tool.expires_after else None,
        args=ready.args.as_dict(),
        memo=memo,
    )


def _connect(ready: Ready, needed: ConsentNeeded, call: CallRecord, now: datetime) -> Suspension:
    """Return the suspension of a call whose user has to connect an account."""
    tool, before = ready.tool, call.suspension
    return Suspension(
        kind=SuspensionKind.CONNECT,
        payload=needed.payload,
        resume_schema={},
        requested_at=now,
        expires_at=now + tool.expires_after if tool.expires_after else None,
        args=ready.args.as_dict(),
        approved_under=(before.approved_under or before.approval) if before is not None else None,
        # It goes on with what it was answered before.
        memo=before.memo if before is not None else None,
    )


async def shape(ready: Ready, value: Any, call: CallRecord) -> Settled:
    """Return the raw result, the model's view of it, and the custom message. A shaper that raises is a tool
    error."""
    try:
        result = ready.tool.jsonable(value)
        output, files = ready.tool.show(value, result)
        if isinstance(value, Parts) and value.is_error:
            return replace(failed(output), files=files, retry=True)
        custom = await isolate(ready.tool.message(ready.args, value))
    except Exception as error:
        return author_error(ready.tool.name, call, error)
    return Settled(result=result, model_output=output, files=files, custom=custom)

"""One tool call: look up, validate, ask whether it needs a person, run, shape the model's view of the
result."""

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from urllib.parse import quote

from pydantic import ValidationError

from layover import logs
from layover.declare.context import Retry, SuspendRequest, ToolContext
from layover.declare.schemas.render import format_error, invalid_input, invalid_suspend_payload
from layover.declare.tools.approval import APPROVAL_SCHEMA
from layover.declare.tools.signature import ToolArgs
from layover.declare.tools.tool import AnyTool
from layover.engine.tools.isolation import TimedOut, isolate
from layover.engine.tools.run_files import RunFiles
from layover.ports import Clock
from layover.values.runs.child import ChildRun
from layover.values.runs.run import CallRecord, ErrorInfo, Suspension, SuspensionKind

logger = logging.getLogger("layover")

MODEL_OUTPUT_TOKENS = 50_000
"""The limit above which the model sees head and tail (docs/behaviour.md#long-results)."""
_CHARACTERS = MODEL_OUTPUT_TOKENS * 4
_EXCERPT = 2_000
"""Characters of head and of tail."""
MAX_CHANGED_ARGS = 4_000
"""Characters of a person's changed arguments that the model is shown."""


@dataclass(frozen=True)
class Settled:
    """The outcome of a call."""

    result: Any
    model_output: str
    is_error: bool = False
    custom: dict[str, Any] | None = None
    retry: bool = False
    """True if the tool asks for another attempt."""
    child: ChildRun | None = None
    """The run of the sub-agent that the call stands for, as it ended."""
    failure: ErrorInfo | None = None
    """The failure that ends the run once the call is settled."""


@dataclass(frozen=True)
class Ready:
    """A call that can run now."""

    tool: AnyTool
    args: ToolArgs


def not_found(name: str) -> Settled:
    """Return the error of a call whose tool does not exist, or no longer exists."""
    return failed(f"Tool {name} not found")


def failed(message: str) -> Settled:
    """Return a tool error: it reaches the model and never ends the run."""
    return Settled(result=message, model_output=message, is_error=True)


def author_error(tool: str, call: CallRecord, error: Exception) -> Settled:
    """Return a tool error for an exception of the author's code. The log says where it was raised. Its
    message is the call's result, and in no log."""
    cause = error.__cause__
    logger.warning(
        "tool %s failed with %s",
        tool,
        type(error).__name__,
        extra={
            "run_id": call.run_id,
            "tool_call_id": call.tool_call_id,
            "cause": type(cause).__name__ if cause else None,
            "where": logs.where(error),
        },
    )
    return failed(format_error(error))


def interrupted_error(name: str) -> Settled:
    """Return the error of a call in doubt (docs/behaviour.md#calls-in-doubt)."""
    return failed(f"Interrupted: {name} may or may not have taken effect")


def declined_result(name: str, reason: str | None, *, expired: bool) -> Settled:
    """Return the ordinary result of a denied or expired call (docs/behaviour.md#denials)."""
    result: dict[str, Any] = {
        "declined": True,
        "message": f'Tool "{name}" was not approved',
        "reason": reason,
    }
    if expired:
        result["expired"] = True
    return Settled(result=result, model_output=json.dumps(result, ensure_ascii=False))


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
    payload = {"type": "approval", "tool_name": ready.tool.name, "args": ready.args.as_dict()}
    return Suspension(
        kind=SuspensionKind.APPROVAL,
        payload=payload,
        resume_schema=APPROVAL_SCHEMA,
        requested_at=now,
        expires_at=now + ready.tool.expires_after if ready.tool.expires_after else None,
        approval=ready.tool.approvers,
    )


async def run_tool(
    ready: Ready, ctx: ToolContext, call: CallRecord, clock: Clock
) -> Settled | Suspension:
    """Run the handler. Whatever it raises is a tool error (docs/behaviour.md#tool-calls)."""
    tool = ready.tool
    try:
        value = await isolate(tool.invoke(ready.args, ctx), tool.timeout)
    except Retry as again:
        return replace(failed(str(again)), retry=True)
    except TimedOut as late:
        return failed(f"TimeoutError: {tool.name} took longer than {late.limit:g} s")
    except Exception as error:
        return author_error(tool.name, call, error)
    if isinstance(value, SuspendRequest):
        return _suspension(tool, value, call, clock.now())
    return await shape(ready, value, call)


def _suspension(
    tool: AnyTool, request: SuspendRequest, call: CallRecord, now: datetime
) -> Settled | Suspension:
    try:
        payload = tool.suspension_payload(request.payload)
        schema = tool.resume_schema
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
    )


async def shape(ready: Ready, value: Any, call: CallRecord) -> Settled:
    """Return the raw result, the model's view of it, and the custom message. A shaper that raises is a tool
    error."""
    try:
        result = ready.tool.jsonable(value)
        output = ready.tool.model_output(value)
        custom = await isolate(ready.tool.message(ready.args, value))
    except Exception as error:
        return author_error(ready.tool.name, call, error)
    return Settled(result=result, model_output=output, custom=custom)


async def limit_output(settled: Settled, call: CallRecord, run_files: RunFiles | None) -> Settled:
    """Return the outcome with head and tail in the place of an output that is too long for the model. The
    whole is kept behind `url` (null if it could not be kept)."""
    output = settled.model_output
    if len(output) <= _CHARACTERS:
        return settled
    is_kept = run_files is not None and await run_files.keep_result(call, output)
    path = f"/runs/{call.run_id}/tool-calls/{quote(call.tool_call_id, safe='')}/result"
    excerpt = {
        "_truncated": True,
        "head": output[:_EXCERPT],
        "tail": output[-_EXCERPT:],
        "original_chars": len(output),
        "url": path if is_kept else None,
    }
    return replace(settled, model_output=json.dumps(excerpt, ensure_ascii=False))


def is_excerpt(output: str) -> bool:
    """Return whether an output stands for a longer one (`limit_output`)."""
    return '{"_truncated": true, "head": ' in output


def with_change(changed: dict[str, Any] | None, outcome: Settled) -> Settled:
    """Return the handler's outcome, an error or not, with the arguments that it got
    (docs/behaviour.md#edited-arguments)."""
    if changed is None:
        return outcome
    args_text = json.dumps(changed, ensure_ascii=False)[:MAX_CHANGED_ARGS]
    text = f"A person changed the arguments to {args_text}. Result: {outcome.model_output}"
    return replace(outcome, model_output=text)

"""`before_tool` and `after_tool` of a call."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from layover.context.hooked import validate_answer
from layover.declare.hooks.base import (
    Allow,
    Answer,
    HookContext,
    Refuse,
    Suspend,
    ToolCall,
    ToolResult,
    name_of,
)
from layover.declare.schemas.render import jsonable
from layover.engine.declines import Advice, declined_result
from layover.engine.definition import tool_definition_of
from layover.engine.exact_calls import approval_request
from layover.engine.hooks.frame_hooks import FrameHooks, ask_hook
from layover.engine.outcomes import Ready, Settled, author_error, failed
from layover.values.decision import DecisionNote
from layover.values.runs.hooked import HookDecision, HookedCall
from layover.values.runs.run import (
    CallRecord,
    Suspension,
)
from layover.values.text import sanitise

Prepare = Callable[[CallRecord, Any], Ready | Settled]


@dataclass(frozen=True)
class PlannedCall:
    """A call after its hooks. `ready`: with the arguments that they gave it; None: it is settled. `allowed`:
    it needs no approval any more."""

    call: CallRecord
    outcome: Ready | Settled | Suspension
    ready: Ready | None = None
    allowed: bool = False


class AroundTools:
    """The hooks around one frame's calls. `own`: names of the agent's own tools."""

    def __init__(self, hooks: FrameHooks, prepare: Prepare) -> None:
        self._hooks = hooks
        self._prepare = prepare

    @property
    def ask_before(self) -> bool:
        """True if any hook is asked before a call begins."""
        return bool(self._hooks.at("before_tool"))

    async def before(self, call: CallRecord, ready: Ready) -> PlannedCall:
        """Return the hooks' answers about a call that is about to begin. Hooks are asked while it is planned,
        and never again: their answers are in its record from the first write."""
        decisions: list[HookDecision] = []
        allowed = False
        ctx = None
        for _, hook in self._hooks.at("before_tool"):
            ctx = ctx or self._hooks.context()
            tool_call = self._tool_call_of(call, ready)
            try:
                answer = await ask_hook(hook, "before_tool", ctx, tool_call)
                decision = _decision(hook, answer, tool_call)
            except Exception as error:
                return PlannedCall(
                    _with(call, decisions), author_error(ready.tool.name, call, error)
                )
            if decision is None:
                continue
            decisions.append(decision)
            if decision.args is not None:
                prepared = self._prepare(call, decision.args)
                if isinstance(prepared, Settled):
                    return PlannedCall(_with(call, decisions), prepared)
                ready = prepared
            allowed = allowed or decision.decision == "allow"
            if decision.decision not in ("allow", "change"):
                return PlannedCall(_with(call, decisions), self._outcome_of(answer, ready), ready)
        return PlannedCall(_with(call, decisions), ready, ready, allowed)

    async def after(self, call: CallRecord, ready: Ready, outcome: Settled) -> Settled:
        """Return a tool's outcome as hooks changed it. A hook that raises ends the run: it may have wanted to
        remove something from the result."""
        ctx: HookContext | None = None
        for _, hook in self._hooks.at("after_tool"):
            ctx = ctx or self._hooks.context()
            result = ToolResult(
                value=outcome.result, model_output=outcome.model_output, is_error=outcome.is_error
            )
            try:
                answer = validate_answer(
                    await ask_hook(
                        hook, "after_tool", ctx, self._tool_call_of(call, ready), result
                    ),
                    result,
                )
                outcome = _changed(outcome, result, answer)
            except Exception as error:
                failure = self._hooks.failed(hook, "after_tool", error)
                error_outcome = failed(
                    f"HookFailed: {call.tool_name} ran, and its result is withheld"
                )
                return replace(error_outcome, failure=failure, child=outcome.child)
        return outcome

    def _tool_call_of(self, call: CallRecord, ready: Ready) -> ToolCall:
        own = self._hooks.work.agent.tool(call.tool_name) is not None
        return ToolCall(
            tool_call_id=call.tool_call_id,
            tool_name=call.tool_name,
            args=ready.args.as_dict(),
            attempt=call.attempt,
            decision=DecisionNote.of(call.decision, call.votes) if call.decision else None,
            needs_approval=ready.tool.needs_approval is not False,
            quorum=ready.tool.approvers.quorum if ready.tool.approvers else 1,
            trusted=ready.tool.trusted or not own,
            definition=_definition_of(call, ready),
            server=ready.tool.server,
        )

    def _outcome_of(self, answer: Any, ready: Ready) -> Settled | Suspension:
        if isinstance(answer, Answer):
            from layover.declare.tools.parts import as_words, files_in

            value, files = jsonable(answer.value), tuple(files_in(answer.value))
            return Settled(value, as_words(answer.value, value), files=files)
        if isinstance(answer, Refuse):
            return declined_result(ready.tool.name, answer.reason, Advice.REFUSED)
        now = self._hooks.work.clock.now()
        return approval_request(ready, now, reason=_text(answer.reason))


def _definition_of(call: CallRecord, ready: Ready) -> str:
    if call.decision is not None:
        # A deployment may have come between the request and the decision, or after both.
        return (call.suspension.definition if call.suspension else None) or ""
    return tool_definition_of(ready.tool) if ready.tool.needs_approval is not False else ""


def _decision(hook: Any, answer: Any, tool_call: ToolCall) -> HookDecision | None:
    """Return the record of an answer; None: it changes nothing. Raises TypeError."""
    name = name_of(hook)
    match answer:
        case None:
            return None
        case Allow():
            args = None if answer.args is None else jsonable(answer.args)
            return HookDecision(hook=name, decision="allow", args=args, reason=_text(answer.reason))
        case Answer():
            return HookDecision(hook=name, decision="answer")
        case Refuse():
            return HookDecision(hook=name, decision="refuse", reason=_text(answer.reason))
        case Suspend():
            return HookDecision(hook=name, decision="suspend", reason=_text(answer.reason))
        case ToolCall():
            if answer.args == tool_call.args:
                return None
            return HookDecision(hook=name, decision="change", args=jsonable(answer.args))
    raise TypeError(
        f"before_tool of the hook {name!r} returned {type(answer).__name__}, "
        "not Allow, Answer, Refuse, Suspend, a copy of the call or None"
    )


def _with(call: CallRecord, decisions: list[HookDecision]) -> CallRecord:
    if not decisions:
        return call
    return call.model_copy(update={"hooked": HookedCall(decisions=tuple(decisions))})


def _changed(outcome: Settled, before: ToolResult, after: ToolResult) -> Settled:
    if after == before:
        return outcome
    value, output, files = jsonable(after.value), after.model_output, outcome.files
    if after.value != before.value:
        from layover.declare.tools.parts import as_words, files_in

        files = (*files, *files_in(after.value))
        if output == before.model_output:
            output = as_words(after.value, value)
    changes = {"result": value, "model_output": sanitise(output), "files": files}
    return replace(outcome, **changes, is_error=after.is_error)


def _text(reason: str | None) -> str | None:
    return None if reason is None else sanitise(str(reason))

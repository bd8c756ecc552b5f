"""Denials hold for the rest of their run: an equal call is not asked for again, and another call of the tool
shows them (docs/behaviour.md#denials-hold)."""

from collections.abc import Sequence
from dataclasses import replace

from layover.declare.tools.tool import AnyTool
from layover.engine.declines import Advice, denied_result
from layover.engine.outcomes import Ready, Settled
from layover.engine.work import RunWork
from layover.values.base import Json, compact_json
from layover.values.decision import ApprovalRule, Denial
from layover.values.runs.run import CallRecord, DecisionKind, Suspension

MAX_SHOWN = 10
"""Denials that a request shows, the newest: its record must not grow with each one before it."""
MAX_SHOWN_ARGS = 4_000
"""Characters of a denied call's arguments, as JSON, that a later request shows."""


class Denials:
    """The calls of a run that persons denied, at every depth of it. They are found in the journal, so every
    process that goes on with the run finds the same."""

    def __init__(self, work: RunWork) -> None:
        self._runs = work.runtime.journal.runs
        self._state = work.state

    def concern(self, name: str) -> bool:
        """Return whether a call of this tool was denied in the run, or still waits for a decision."""
        return any(c.undecided or _is_denied(c) for c in self._calls_of(name))

    async def judge(
        self,
        call: CallRecord,
        tool: AnyTool,
        args: Json,
        outcome: Ready | Suspension,
    ) -> Ready | Settled | Suspension:
        """Return the outcome of a call that is about to run, or to wait. One that equals a denied call gets
        that call's denial, whoever would allow it now. One that waits shows the denials of its tool, or gets
        the newest, if the tool asks for no more.

        Args:
            call: The call.
            tool: Its tool.
            args: The validated arguments, as JSON.
            outcome: What becomes of it if nobody has denied anything.
        """
        denied = await self._denied(call)
        text = _canonical(args)
        same = next((d for d in denied if _canonical(d.exact_args) == text), None)
        if same is not None:
            return _settled_like(same)
        if not denied or isinstance(outcome, Ready):
            return outcome
        if tool.after_denial == "refuse":
            return _settled_like(denied[0], Advice.NO_MORE)
        # Others who decide must not read what was asked of these: tools of several agents may have one name.
        of_these = [d for d in denied if _has_same_deciders(d, outcome.approval)][:MAX_SHOWN]
        before = tuple(_denial_of(d) for d in reversed(of_these))
        return outcome.model_copy(update={"denied_before": before})

    async def _denied(self, call: CallRecord) -> Sequence[CallRecord]:
        """Return the denied calls of the tool, the newest denial first. A call that waited when this process
        last looked may have been denied since: a sub-agent's waits while others go on."""
        records = [c for c in self._calls_of(call.tool_name) if c.key != call.key]
        meta = self._state.meta
        for at, record in enumerate(records):
            if record.undecided:
                fresh = await self._runs.call(meta.owner, meta.id, record.key)
                records[at] = fresh or record
        return sorted(filter(_is_denied, records), key=_denied_at, reverse=True)

    def _calls_of(self, name: str) -> list[CallRecord]:
        return [c for c in self._state.calls.values() if c.tool_name == name]


def _is_denied(call: CallRecord) -> bool:
    return call.decision is not None and call.decision.kind is DecisionKind.DENIED


def _denied_at(call: CallRecord) -> tuple[str, str]:
    assert call.decision is not None
    return call.decision.at.isoformat(), call.key


def _settled_like(denied: CallRecord, advice: Advice | None = None) -> Settled:
    """Return the result of a call that another one's denial settles: the same as that one's, so that a model
    that repeats itself comes to its end (docs/behaviour.md#nothing-new)."""
    return replace(denied_result(denied, advice), denial=denied.tool_call_id)


def _denial_of(denied: CallRecord) -> Denial:
    decision = denied.decision
    assert decision is not None
    args = denied.exact_args
    text = compact_json(args)
    if len(text) > MAX_SHOWN_ARGS:
        head = text[:MAX_SHOWN_ARGS]
        args = {"_truncated": True, "head": head, "original_chars": len(text)}
    return Denial(
        args=args,
        reason=decision.reason,
        decided_by=decision.decided_by,
        on_behalf_of=decision.on_behalf_of,
        at=decision.at,
    )


def _has_same_deciders(denied: CallRecord, rule: ApprovalRule | None) -> bool:
    other = denied.suspension.approval if denied.suspension else None
    return _groups(other) == _groups(rule)


def _groups(rule: ApprovalRule | None) -> frozenset[str] | None:
    return frozenset(rule.by) if rule is not None else None


def _canonical(value: Json) -> str:
    """Return one text for equal arguments. JSON has one kind of number: 60.0 is 60."""
    return compact_json(_with_whole_numbers(value))


def _with_whole_numbers(value: Json) -> Json:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {name: _with_whole_numbers(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_with_whole_numbers(each) for each in value]
    return value

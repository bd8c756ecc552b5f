"""Results of calls that did not run because somebody decided so, and what the model is told to do then
(docs/behaviour.md#denials). All of these texts are here."""

import json
from enum import Enum
from typing import Any

from layover.engine.outcomes import Settled
from layover.values.decision import Decision, DecisionKind
from layover.values.runs.run import CallRecord, SuspensionKind

_INSTEAD = "tell the user, or do something else."


class Advice(Enum):
    """The text for the model behind the result of a call that was not approved, or not answered: a small one
    asks again otherwise."""

    DENIED = (
        f"A person denied this call. Do not ask for it again before the user writes: {_INSTEAD}"
    )
    UNANSWERED = (
        "A person declined to answer what this call asked. Do not ask again before the user writes: go on "
        "without it, or say what is missing."
    )
    NO_MORE = (
        "A person denied a call of this tool, so no other call of it is asked for. Do not call it again "
        f"before the user writes: {_INSTEAD}"
    )
    EXPIRED = (
        "Nobody decided in time. Do not ask for it again before the user writes: tell the user that nobody "
        "has answered, or do something else."
    )
    WITHDRAWN = (
        "The user wrote again before anybody decided, so nobody is asked any more. Read what they say now, "
        "and ask for this call again only if they still want it."
    )
    TAKEN_BACK = (
        "The user took back the message that led to this call before anybody decided, so nobody is asked any "
        "more. Do not ask for it again."
    )
    UNHEARD = (
        "The user wrote before this call began, so it did not run. Read what they say, and ask for this call "
        "again only if it is still right."
    )
    REFUSED = f"A rule refused this call. Do not repeat it with these arguments: {_INSTEAD}"


_MARKS = {Advice.EXPIRED: "expired", Advice.WITHDRAWN: "withdrawn", Advice.TAKEN_BACK: "withdrawn"}


def declined_result(
    name: str, reason: str | None, advice: Advice, kind: SuspensionKind = SuspensionKind.APPROVAL
) -> Settled:
    """Return the ordinary result of a call that was not approved, not answered if it asked for input
    (`kind`), or not begun. Only the model reads the advice."""
    what = "answered" if kind is SuspensionKind.INPUT else "approved"
    what = "run" if advice is Advice.UNHEARD else what
    result: dict[str, Any] = {
        "declined": True,
        "message": f'Tool "{name}" was not {what}',
        "reason": reason,
    }
    if advice in _MARKS:
        result[_MARKS[advice]] = True
    output = json.dumps({**result, "advice": advice.value}, ensure_ascii=False)
    return Settled(result=result, model_output=output)


def denied_result(denied: CallRecord, advice: Advice | None = None) -> Settled:
    """Return the result of a call that a person denied, or would not answer. `advice`: other than what fits
    what the person was asked for."""
    kind = _kind_of(denied)
    if advice is None:
        advice = Advice.UNANSWERED if kind is SuspensionKind.INPUT else Advice.DENIED
    reason = denied.decision.reason if denied.decision else None
    return declined_result(denied.tool_name, reason, advice, kind)


def decline_of(call: CallRecord) -> Settled | None:
    """Return the result of a call that its decision settles without its tool; None: the tool has to run."""
    match call.decision:
        case Decision(kind=DecisionKind.DENIED):
            return denied_result(call)
        case Decision(kind=DecisionKind.EXPIRED, reason=reason):
            return declined_result(call.tool_name, reason, Advice.EXPIRED, _kind_of(call))
        case Decision(kind=DecisionKind.WITHDRAWN, reason=reason):
            advice = Advice.WITHDRAWN if reason is None else Advice.TAKEN_BACK
            return declined_result(call.tool_name, reason, advice, _kind_of(call))
    return None


def _kind_of(call: CallRecord) -> SuspensionKind:
    return call.suspension.kind if call.suspension else SuspensionKind.APPROVAL

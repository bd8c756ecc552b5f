"""Results of calls that did not run because somebody decided so, and what the model is told to do then
(docs/behaviour.md#denials). All of these texts are here."""

import json
from enum import Enum
from typing import Any

from layover.engine.outcomes import Settled
from layover.values.decision import Decision, DecisionKind

_INSTEAD = "tell the user, or do something else."


class Advice(Enum):
    """The text for the model behind the result of a call that was not approved: a small one asks again
    otherwise."""

    DENIED = (
        f"A person denied this call. Do not ask for it again before the user writes: {_INSTEAD}"
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
    REFUSED = f"A rule refused this call. Do not repeat it with these arguments: {_INSTEAD}"


_MARKS = {Advice.EXPIRED: "expired", Advice.WITHDRAWN: "withdrawn"}


def declined_result(name: str, reason: str | None, advice: Advice) -> Settled:
    """Return the ordinary result of a call that was not approved. Only the model reads the advice."""
    result: dict[str, Any] = {
        "declined": True,
        "message": f'Tool "{name}" was not approved',
        "reason": reason,
    }
    if advice in _MARKS:
        result[_MARKS[advice]] = True
    output = json.dumps({**result, "advice": advice.value}, ensure_ascii=False)
    return Settled(result=result, model_output=output)


def decline_of(name: str, decision: Decision | None) -> Settled | None:
    """Return the result of a call that this decision settles without its tool; None: the tool has to run."""
    match decision:
        case Decision(kind=DecisionKind.DENIED):
            return declined_result(name, decision.reason, Advice.DENIED)
        case Decision(kind=DecisionKind.EXPIRED):
            return declined_result(name, decision.reason, Advice.EXPIRED)
        case Decision(kind=DecisionKind.WITHDRAWN):
            return declined_result(name, decision.reason, Advice.WITHDRAWN)
    return None

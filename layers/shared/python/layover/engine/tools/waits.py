"""Records of calls that wait."""

from layover.values.runs.run import CallRecord, CallState, Suspension


def suspended(call: CallRecord, suspension: Suspension) -> CallRecord:
    """Return the call with what it waits for; an earlier attempt's decision is kept for audit."""
    past = call.past
    if call.decision is not None:
        past = (*past, {"attempt": call.attempt, **call.decision.model_dump(mode="json")})
    fresh = {"suspension": suspension, "past": past, "votes": (), "voted": 0}
    return call.model_copy(update=fresh)


def waiting_now(call: CallRecord) -> CallRecord:
    """Return a call that was journaled with its suspension, as it is from then on."""
    fresh = {"opener": None, "token": None, "decision": None, "votes": (), "voted": 0}
    waits = {"state": CallState.WAITING, "attempt": call.attempt + 1}
    return call.model_copy(update={**waits, **fresh})

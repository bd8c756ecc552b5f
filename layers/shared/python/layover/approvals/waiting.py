"""The time that a branch waits for its call."""

import math
from datetime import datetime

from layover.values.runs.payload import WaitingCall
from layover.values.runs.run import CallRecord

A_YEAR = 365 * 24 * 3600
"""Seconds. No execution lives longer."""


def is_expired(call: CallRecord, now: datetime) -> bool:
    """Return whether the call has waited too long for a decision."""
    return call.undecided and call.expires_at is not None and call.expires_at <= now


def waiting_call(call: CallRecord, now: datetime, pause_s: int = 0) -> WaitingCall:
    """Return the Map item of a call that waits: the time left until it expires, at least 1 s."""
    expires_at = call.expires_at
    seconds_left = A_YEAR if expires_at is None else math.ceil((expires_at - now).total_seconds())
    seconds_left = max(1, min(seconds_left, A_YEAR))
    return WaitingCall(
        key=call.key,
        attempt=call.attempt,
        timeout_s=seconds_left,
        pause_s=min(pause_s, seconds_left),
    )

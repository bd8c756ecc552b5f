"""Payloads of the state machine to the functions. Handlers accept every earlier `v`; outputs only grow."""

from enum import StrEnum
from typing import Any

from pydantic import field_validator

from layover.errors import check_version
from layover.values.base import Value

VERSION = 1


class RunPayload(Value):
    """The part that all payloads have: ids, and the execution that sends it."""

    v: int = VERSION
    op: str = ""
    owner: str
    run_id: str
    n: int = 1
    execution: str = ""

    @field_validator("v")
    @classmethod
    def _is_known(cls, version: int) -> int:
        check_version("the state machine's payloads", version, VERSION)
        return version


class WaitingCall(Value):
    """A branch of the Map: which call waits, for which attempt, for how long (seconds)."""

    key: str
    attempt: int
    timeout_s: int
    status: str = "waiting"
    pause_s: int = 0
    """Seconds to rest before the token is given out: the last answer was no decision."""


class AwaitPayload(RunPayload):
    """Await: store the token on the call."""

    call: WaitingCall
    token: str


class ResumePayload(RunPayload):
    """Resume: settle the call. `output`: the answer to the token, or `{Error, Cause}`."""

    call: WaitingCall
    output: Any = None


class TurnPayload(RunPayload):
    """Turn. `call`: the only one that waited, now that its token was answered with `output`, or ended with
    `{Error, Cause}`."""

    call: WaitingCall | None = None
    output: Any = None


class SettlePayload(RunPayload):
    """Settle: an error that Turn or the Map ended with."""

    error: dict[str, Any] = {}


class CompactPayload(RunPayload):
    """Compact. `op`: after a run (`compact`), while it waits (`compact_now`), or ahead of it (`observe`):
    the slice of its branch after one message (None: from the root) and through another."""

    after_id: str | None = None
    through_id: str | None = None


class MemoryWork(StrEnum):
    """Memory's work once a run is over. `condense`: Compact, then Extract; `learn`: Extract only."""

    CONDENSE = "condense"
    LEARN = "learn"
    NOTHING = "nothing"

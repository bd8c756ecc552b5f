"""Outages: failures of one kind, of which operators are told together. Ids, names and times, and no words of
anybody."""

from datetime import datetime, timedelta
from hashlib import sha256

from layover.values.base import Time, Value

WINDOW = timedelta(minutes=15)
"""The time in which failures of one kind are one message, and without any of which they are over."""
MAX_NAMED = 3
"""Runs that a message names."""
CLAIMED = timedelta(minutes=1)
"""The time that a sender has, after which another may send."""


class Outage(Value):
    """The failures of one kind: of one agent, by one type of error and one provider. It begins with the first
    failure and is over after a `WINDOW` without one.

    ```python
    outage = Outage.begin("support", "RateLimitError", "openai", at=now).with_failure("run_1", now)
    assert (outage.count, outage.is_due) == (1, True)
    ```
    """

    id: str
    agent: str
    error_type: str
    provider: str | None
    begun_at: Time
    last_at: Time
    until: Time
    """The end of the window: a failure behind it is told in another message."""
    count: int = 0
    runs: tuple[str, ...] = ()
    """The first runs that failed."""
    over: bool = False
    message: int = 0
    """The number of the newest message."""
    is_due: bool = False
    """True if that is still to be sent to some of the addresses."""
    sent: tuple[str, ...] = ()
    """The addresses that have it, as digests."""
    claimed_until: Time | None = None
    """The time until which one process sends it."""
    rev: int = 0
    """The number of the write that left it as it was read; 0: it was never written."""

    @classmethod
    def begin(cls, agent: str, error_type: str, provider: str | None, at: datetime) -> "Outage":
        """Return an outage without a failure yet."""
        names = {"agent": agent, "error_type": error_type, "provider": provider}
        id = id_of(agent, error_type, provider)
        return cls(id=id, **names, begun_at=at, last_at=at, until=at)

    def with_failure(self, run_id: str, now: datetime) -> "Outage":
        """Return the outage with one more failure. A message is due with the first of each window."""
        if self.over:
            new = Outage.begin(self.agent, self.error_type, self.provider, now)
            numbers = {"rev": self.rev, "message": self.message}
            return new.model_copy(update=numbers).with_failure(run_id, now)
        runs = (*self.runs, run_id)[:MAX_NAMED]
        more = self.model_copy(update={"count": self.count + 1, "runs": runs, "last_at": now})
        if now < self.until:
            return more
        return more._with_message(now).model_copy(update={"until": now + WINDOW})

    def ended(self, now: datetime) -> "Outage | None":
        """Return the outage as it is over, which is told as well. None: it is not, or was told."""
        if self.over or now < self.last_at + WINDOW:
            return None
        return self._with_message(now).model_copy(update={"over": True})

    def claimed(self, now: datetime) -> "Outage | None":
        """Return the outage with the right to send its message. None: another process has it, or all have the
        message."""
        if not self.is_due or (self.claimed_until is not None and self.claimed_until > now):
            return None
        return self.model_copy(update={"claimed_until": now + CLAIMED})

    def with_sent(self, sent: frozenset[str], *, whole: bool) -> "Outage":
        """Return the outage once these addresses have its message. `whole`: no other will get it."""
        rest = {"sent": tuple(sorted(sent)), "is_due": not whole, "claimed_until": None}
        return self.model_copy(update=rest)

    def _with_message(self, now: datetime) -> "Outage":
        number = {"message": self.message + 1, "is_due": True, "sent": ()}
        return self.model_copy(update={**number, "claimed_until": now + CLAIMED})


def id_of(agent: str, error_type: str, provider: str | None) -> str:
    """Return the id of the outages of this kind: they have one record, one after another."""
    text = "\n".join((agent, error_type, provider or ""))
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]

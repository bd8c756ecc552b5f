"""Waits for a provider's fault to pass (docs/behaviour.md#provider-retries)."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from layover.clock import loop_time
from layover.dice import SYSTEM_DICE
from layover.plugins.models.circuit import Circuit
from layover.plugins.models.faults import ProviderFault

ATTEMPTS = 6
WINDOW_S = 60.0
"""Counted from the first failure: a long stream that breaks at its end is still repeated."""

FIRST_WAIT_S = 1.0
MAX_WAIT_S = 16.0

T = TypeVar("T")


class Requests:
    """Counts the requests that one prompt becomes. `at_most`: their limit; None: there is none."""

    def __init__(self, at_most: int | None = None) -> None:
        self._at_most = at_most
        self.made = 0

    @property
    def are_used_up(self) -> bool:
        """True if no other request may be made."""
        return self._at_most is not None and self.made >= self._at_most


Sleep = Callable[[float], Awaitable[None]]
OnFault = Callable[[ProviderFault], Awaitable[None]]


async def retrying(
    attempt: Callable[[], Awaitable[T]],
    sleep: Sleep,
    requests: Requests,
    circuit: Circuit,
    on_fault: OnFault | None = None,
) -> T:
    """Return the result of the first attempt that succeeds.

    Passing faults are repeated, at most `ATTEMPTS` times in `WINDOW_S` seconds and no more than `requests`
    allows; `on_fault` is called for each that will be. While `circuit` is open, an attempt may fail without a
    request. Raises the last ProviderFault, whose error says whether it passes."""
    attempts, slept = 0, 0.0
    opened: float | None = None
    try:
        while True:
            attempts += 1
            try:
                if circuit.is_open:
                    circuit.enter(requests)
                requests.made += 1
                result = await attempt()
                if circuit.is_open:
                    circuit.close()
                return result
            except ProviderFault as fault:
                passes = fault.is_transient and fault.most_attempts is None
                if passes:
                    circuit.fail(requests, fault.error)
                now = loop_time()
                opened = now if opened is None else opened
                wait = _wait(fault, attempts)
                # A test's sleeps take no time.
                is_late = max(now - opened, slept) + wait > WINDOW_S
                is_last = attempts >= (fault.most_attempts or ATTEMPTS) or requests.are_used_up
                if not fault.is_transient or is_late or is_last:
                    fault.error.passes, fault.error.retry_after = passes, fault.retry_after
                    fault.add(f" (attempt {attempts})" if attempts > 1 else "")
                    raise
                if on_fault is not None:
                    await on_fault(fault)
            await sleep(wait)
            slept += wait
    finally:
        if circuit.is_open:
            circuit.leave(requests)


def _wait(fault: ProviderFault, attempts: int) -> float:
    """Return the wait that the provider asked for, in seconds. Else it doubles from one second, half of it
    random: many runs that failed together must not come back together."""
    if fault.retry_after is not None:
        return fault.retry_after
    longest: float = min(MAX_WAIT_S, FIRST_WAIT_S * 2 ** (attempts - 1))
    return longest * (0.5 + SYSTEM_DICE.up_to(0.5))
